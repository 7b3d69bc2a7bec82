mod added;
mod answer;
pub(crate) mod files;

use std::{path::Path, sync::Arc};

use tokenizers::{DecoderWrapper, PreTokenizer as _};

use crate::panics::caught;
use crate::{ChatMessage, ChatTemplate, RenderOptions, TextError, ThinkingStage, ThinkingTags, TokenId};
use added::AddedTokens;

/// More than ten times the largest vocabulary in use: per-token tables must stay small.
const MAX_VOCAB_TOKENS: usize = 1 << 22;

/// Tokens of a prompt's end that are looked at for a thinking tag: enough for the tag and the white space after it.
const PROMPT_END_TOKENS: usize = 64;

/// What becomes of control tokens that a text spells out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They stay ordinary characters: for text that a person or a document supplied.
    AsText,
    /// They become the control tokens: for text that a template or this program wrote.
    Parse,
}

/// How the vocabulary spells text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// Each character of a token stands for one byte, as in GPT-2.
    ByteLevel,
    /// SentencePiece with tokens such as `<0x0A>` for the bytes of what has no piece.
    ByteFallback,
    /// Anything else.
    Other,
}

/// Text to token ids and back, and the model folder's chat template.
///
/// Cheap to clone: all clones share one vocabulary.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

struct Inner {
    hf: tokenizers::Tokenizer,
    added: AddedTokens,
    template: Option<ChatTemplate>,
    thinking_tags: Option<ThinkingTags>,
    /// Special tokens that a thinking tag of several tokens is made of: without them the tag could not be seen.
    tag_ids: Vec<TokenId>,
    control_ids: Vec<TokenId>,
    eos_ids: Vec<TokenId>,
    vocab_tokens: usize,
    text_form: TextForm,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer").field("vocab_tokens", &self.inner.vocab_tokens).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads `tokenizer.json`, and where present `tokenizer_config.json`, `chat_template.jinja`, `config.json` and
    /// `generation_config.json`, of a model folder.
    ///
    /// # Errors
    /// [`TextError::Read`] or [`TextError::Json`] naming the file; [`TextError::TokenizerFile`] if the vocabulary is
    /// of an unknown kind; [`TextError::TemplateSyntax`] if the chat template does not parse.
    pub fn from_dir(dir: &Path) -> Result<Self, TextError> {
        let path = dir.join("tokenizer.json");
        let json = files::read(&path)?;
        let unusable = |source| TextError::TokenizerFile { path: path.clone(), source };
        let read = || -> Result<tokenizers::Tokenizer, tokenizers::Error> {
            files::check_added_tokens(&json)?;
            let mut hf: tokenizers::Tokenizer = serde_json::from_slice(&json)?;
            // Files made for training may cut or pad every text.
            hf.with_truncation(None)?;
            hf.with_padding(None);
            Ok(hf)
        };
        let hf = caught(read).map_err(Into::into).flatten().map_err(unusable)?;

        let highest = hf.get_vocab(true).into_values().max();
        let vocab_tokens = highest.map_or(0, |highest| highest as usize + 1);
        if vocab_tokens > MAX_VOCAB_TOKENS {
            return Err(unusable(format!("token id {} is too high", vocab_tokens - 1).into()));
        }
        let added = AddedTokens::new(&hf)
            .map_err(|error| TextError::TokenizerFile { path: path.clone(), source: Box::new(error) })?;
        let text_form = match hf.get_decoder() {
            Some(DecoderWrapper::ByteLevel(_)) => TextForm::ByteLevel,
            _ if hf.token_to_id("<0x0A>").is_some() => TextForm::ByteFallback,
            _ => TextForm::Other,
        };
        let template = ChatTemplate::from_dir(dir)?;
        let source = template.as_ref().map(ChatTemplate::source);
        let thinking_tags = ThinkingTags::find(source, |tag| hf.token_to_id(tag).is_some());
        let tag_ids = tag_ids(&hf, &added, thinking_tags.as_ref());
        let eos_ids = files::eos_ids(dir, &hf)?;
        let control_ids = added.control_ids();
        let inner = Inner {
            hf,
            added,
            template,
            thinking_tags,
            tag_ids,
            control_ids,
            eos_ids,
            vocab_tokens,
            text_form,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Turns text into token ids, without a beginning- or end-of-text token around it.
    ///
    /// # Errors
    /// [`TextError::Encode`] if the tokenizer refuses the text.
    pub fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<TokenId>, TextError> {
        let literals = match special {
            SpecialTokens::AsText => self.inner.added.control_literals(text),
            SpecialTokens::Parse => Vec::new(),
        };
        self.encode_with_literals(text, &literals)
    }

    /// Turns token ids into text, leaving out special tokens and ids outside the vocabulary.
    ///
    /// # Errors
    /// [`TextError::Decode`] if the tokenizer's decoder fails.
    pub fn decode(&self, ids: &[TokenId]) -> Result<String, TextError> {
        let failed = |source| TextError::Decode { tokens: ids.len(), source };
        caught(|| self.inner.hf.decode(ids, true)).map_err(Into::into).flatten().map_err(failed)
    }

    /// Renders `messages` with the model's chat template and turns the result into token ids.
    ///
    /// Control tokens that the template writes become control tokens; the same characters inside a message stay
    /// text. Each such quotation is replaced by a placeholder before rendering, one that occurs in no message, and put
    /// back afterwards with its place remembered. So templates may trim, split or search messages as they like.
    ///
    /// # Errors
    /// [`TextError::NoChatTemplate`] if the folder has none; the `Template` variants if it fails or refuses the
    /// messages; [`TextError::TemplateCutsLiteral`] if it cuts a message within a quoted control token.
    pub fn prompt_tokens(
        &self,
        messages: &[ChatMessage],
        options: &RenderOptions,
    ) -> Result<Vec<TokenId>, TextError> {
        let template = self.chat_template().ok_or(TextError::NoChatTemplate)?;
        let quoted = self.inner.added.quote(messages);
        let rendered = template.render(&quoted.messages, options)?;
        let (text, literals) = quoted.restore(&rendered)?;
        self.encode_with_literals(&text, &literals)
    }

    /// The model's chat template, if it has one.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.inner.template.as_ref()
    }

    /// The tags between which the model thinks, if its template or vocabulary names a known pair.
    pub fn thinking_tags(&self) -> Option<&ThinkingTags> {
        self.inner.thinking_tags.as_ref()
    }

    /// Where the answer to `prompt` is in its thinking when it begins.
    pub fn thinking_stage(&self, prompt: &[TokenId]) -> ThinkingStage {
        let Some(tags) = self.thinking_tags() else { return ThinkingStage::Closed };
        let end = &prompt[prompt.len().saturating_sub(PROMPT_END_TOKENS)..];
        let bytes: Vec<u8> = end.iter().flat_map(|token| self.token_bytes(*token)).collect();
        tags.stage_after(&String::from_utf8_lossy(&bytes))
    }

    /// Tokens of the vocabulary: the highest id plus one. Logits may be wider; ids from here on mean nothing.
    pub fn vocab_tokens(&self) -> usize {
        self.inner.vocab_tokens
    }

    /// Tokens that end an answer, without duplicates; empty if the folder names none.
    pub fn eos_ids(&self) -> &[TokenId] {
        &self.inner.eos_ids
    }

    /// Whether the vocabulary marks this token as special: it steers the model and is never shown.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.inner.added.is_special(id)
    }

    /// Whether this is an added token that steers the model, marked as special or not. Text never holds one.
    pub fn is_control(&self, id: TokenId) -> bool {
        self.inner.added.is_control(id)
    }

    /// Every id that [`Tokenizer::is_control`] is true of, ascending.
    pub fn control_ids(&self) -> &[TokenId] {
        &self.inner.control_ids
    }

    /// The bytes that a token adds to a text, at any place but the first; empty outside the vocabulary. Those of a
    /// control token are its spelling.
    pub fn token_bytes(&self, id: TokenId) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.inner.text_form {
            _ if self.is_control(id) => {
                bytes.extend(self.token_spelling(id).unwrap_or_default().into_bytes());
            }
            TextForm::ByteLevel => self.append_token_bytes(id, &mut bytes),
            TextForm::ByteFallback | TextForm::Other => {
                let Some(spelling) = self.token_spelling(id) else { return bytes };
                match byte_fallback(&spelling) {
                    Some(byte) => bytes.push(byte),
                    None => bytes.extend(spelling.replace(WORD_START, " ").into_bytes()),
                }
            }
        }
        bytes
    }

    /// The token as the vocabulary spells it, or `None` outside the vocabulary. For inspection, not for joining.
    pub fn token_spelling(&self, id: TokenId) -> Option<String> {
        self.inner.hf.id_to_token(id)
    }

    /// The id of a token by the vocabulary's spelling.
    pub fn token_id(&self, spelling: &str) -> Option<TokenId> {
        self.inner.hf.token_to_id(spelling)
    }

    /// Whether streamed text leaves this token out.
    pub(crate) fn is_hidden(&self, id: TokenId) -> bool {
        self.is_special(id) && !self.inner.tag_ids.contains(&id)
    }

    pub(crate) fn text_form(&self) -> TextForm {
        self.inner.text_form
    }

    /// The byte that a token of a vocabulary with byte fallback stands for, if it stands for one.
    pub(crate) fn fallback_byte(&self, id: TokenId) -> Option<u8> {
        let has_bytes = self.inner.text_form == TextForm::ByteFallback;
        self.token_spelling(id).filter(|_| has_bytes).and_then(|spelling| byte_fallback(&spelling))
    }

    /// Appends the bytes of a token of a byte-level vocabulary; nothing for an id outside it.
    pub(crate) fn append_token_bytes(&self, id: TokenId, bytes: &mut Vec<u8>) {
        let Some(spelling) = self.inner.hf.id_to_token(id) else { return };
        let start = bytes.len();
        for character in spelling.chars() {
            let Some(byte) = added::byte_of(character) else {
                // An added token with characters outside the byte alphabet is spelled as it reads.
                bytes.truncate(start);
                bytes.extend_from_slice(spelling.as_bytes());
                return;
            };
            bytes.push(byte);
        }
    }

    fn encode_with_literals(
        &self,
        text: &str,
        literals: &[added::Literal],
    ) -> Result<Vec<TokenId>, TextError> {
        let failed = |source| TextError::Encode { text_bytes: text.len(), source };
        caught(|| self.ids(text, literals)).map_err(Into::into).flatten().map_err(failed)
    }

    fn ids(&self, text: &str, literals: &[added::Literal]) -> Result<Vec<TokenId>, tokenizers::Error> {
        if literals.is_empty() {
            return Ok(self.inner.hf.encode_fast(text, false)?.get_ids().to_vec());
        }
        let ids = self.encode_pieces(self.inner.added.pieces(text, literals, added::Cut::Whole))?;
        if !ids.literal_became_control {
            return Ok(ids.ids);
        }
        // A vocabulary can list a control token as an ordinary word too; cut in two it cannot match one.
        let pieces = self.inner.added.pieces(text, literals, added::Cut::InsideLiterals);
        Ok(self.encode_pieces(pieces)?.ids)
    }

    /// Runs the tokenizer's own stages over text whose added tokens are already found.
    fn encode_pieces(&self, pieces: added::Pieces) -> Result<EncodedPieces, tokenizers::Error> {
        use tokenizers::{Model as _, Normalizer as _};
        let control_pieces = pieces.control_tokens;
        let mut text = pieces.text;
        if let Some(normalizer) = self.inner.hf.get_normalizer() {
            text.normalize(|piece| normalizer.normalize(piece))?;
        }
        if let Some(pre_tokenizer) = self.inner.hf.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut text)?;
        }
        let model = self.inner.hf.get_model();
        text.tokenize(|piece| model.tokenize(piece.get()))?;
        let encoding = text.into_encoding(None, 0, tokenizers::OffsetType::None)?;
        let ids = encoding.get_ids().to_vec();
        let control_tokens = ids.iter().filter(|id| self.inner.added.is_control(**id)).count();
        Ok(EncodedPieces { ids, literal_became_control: control_tokens > control_pieces })
    }
}

fn tag_ids(hf: &tokenizers::Tokenizer, added: &AddedTokens, tags: Option<&ThinkingTags>) -> Vec<TokenId> {
    let mut tag_ids = Vec::new();
    for tag in
        tags.iter().flat_map(|tags| [Some(&tags.open), Some(&tags.close), tags.direct.as_ref()]).flatten()
    {
        // A tag that cannot be encoded has no tokens to show.
        let Ok(Ok(encoding)) = caught(|| hf.encode_fast(tag.as_str(), false)) else { continue };
        let ids = encoding.get_ids();
        if ids.len() > 1 {
            tag_ids.extend(ids.iter().copied().filter(|id| added.is_special(*id)));
        }
    }
    tag_ids
}

/// SentencePiece writes a space as this.
const WORD_START: char = '\u{2581}';

/// The byte that a token such as `<0x0A>` stands for.
fn byte_fallback(spelling: &str) -> Option<u8> {
    let digits = spelling.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

struct EncodedPieces {
    ids: Vec<TokenId>,
    literal_became_control: bool,
}
