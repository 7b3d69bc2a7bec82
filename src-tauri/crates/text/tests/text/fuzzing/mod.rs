//! Damaged and hostile `tokenizer.json` files and chat templates, each case from its seed alone.
//!
//! The example `fuzz` runs the same cases for as long as one likes.

mod grammar;
mod mutate;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use serde_json::{Value, json};
use text::{
    ChatMessage, ChatTemplate, Detokenizer, GenerationDefaults, RenderOptions, Role, SpecialTokens, Tokenizer,
};

use crate::allocation::measured;
use mutate::Random;

/// What is fed with damaged input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Tokenizer,
    Template,
}

impl Target {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "tokenizer" => Some(Self::Tokenizer),
            "template" => Some(Self::Template),
            _ => None,
        }
    }

    /// What one case may allocate. A rendering may make 256 MiB; a list of what it made takes some more.
    fn most_bytes(self) -> usize {
        match self {
            Self::Tokenizer => 256 << 20,
            Self::Template => 768 << 20,
        }
    }
}

/// What became of a case that ended well.
pub struct Outcome {
    pub is_accepted: bool,
    pub peak_bytes: usize,
}

/// What is wrong, and the input that shows it.
pub struct Finding {
    pub what: String,
    pub input: Vec<u8>,
}

/// Fixtures to start from.
pub struct Corpus {
    tokenizers: Vec<Value>,
    templates: Vec<String>,
}

impl Corpus {
    pub fn read() -> Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let files = |folder: &str, ending: &str| {
            let entries = fs::read_dir(fixtures.join(folder)).unwrap();
            let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            paths.retain(|path| path.extension().is_some_and(|extension| extension == ending));
            paths.sort();
            paths.into_iter().map(|path| fs::read_to_string(path).unwrap())
        };
        let tokenizer = |text: String| serde_json::from_str::<Value>(&text).unwrap()["tokenizer"].take();
        let tokenizers = files("tokenizers", "json").map(tokenizer).collect();
        Self { tokenizers, templates: files("templates", "jinja").collect() }
    }
}

/// Runs the case of `seed`; `place` is a folder it may write into.
pub fn run(target: Target, corpus: &Corpus, seed: u64, place: &Path) -> Result<Outcome, Finding> {
    let mut random = Random::new(seed);
    let input = match target {
        Target::Tokenizer => mutate::json(&mut random, &corpus.tokenizers),
        Target::Template => template(&mut random, corpus),
    };
    let (result, peak_bytes) = measured(|| {
        catch_unwind(AssertUnwindSafe(|| match target {
            Target::Tokenizer => use_tokenizer(&input, &mut random, place),
            Target::Template => use_template(&input, &mut random),
        }))
    });
    let finding = |what: String| Finding { what, input: input.clone() };
    let is_accepted = result.map_err(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        finding(format!("panics: {}", words.unwrap_or_else(|| "no words".into())))
    })?;
    if peak_bytes > target.most_bytes() {
        return Err(finding(format!("allocates {peak_bytes} bytes")));
    }
    Ok(Outcome { is_accepted, peak_bytes })
}

fn template(random: &mut Random, corpus: &Corpus) -> Vec<u8> {
    let fixture = random.pick(&corpus.templates).clone();
    match random.below(4) {
        0 => mutate::bytes(random, fixture.into_bytes()),
        1 => grammar::template(random).into_bytes(),
        _ => mutate::tags(random, &fixture, &corpus.templates).into_bytes(),
    }
}

const TEXTS: [&str; 8] = [
    "",
    " the mill <|end|> and <s>the</s> ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
    "川は猫を見ていた。 😀👩\u{200d}👩 e\u{301}\u{0}\u{feff}",
    "12345.678\r\n\r\n\t  x = y;",
    "\u{F0000}0.0.0\u{F0001}<|end|>",
    "▁▁the▁ <0x0A><0xFF>",
    "النهر שלום \u{202e}abc\u{202c} \u{10FFFF}",
];

fn messages(random: &mut Random) -> Vec<ChatMessage> {
    let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
    let count = random.below(5);
    let message = |random: &mut Random| {
        let content = *random.pick(&TEXTS);
        let message = ChatMessage::new(*random.pick(&roles), content);
        if random.below(3) == 0 { message.with_reasoning(*random.pick(&TEXTS)) } else { message }
    };
    (0..count).map(|_| message(random)).collect()
}

fn use_template(input: &[u8], random: &mut Random) -> bool {
    let config = json!({ "chat_template": String::from_utf8_lossy(input), "bos_token": "<s>" });
    let Ok(Some(template)) = ChatTemplate::from_config(&config) else { return false };
    let options = RenderOptions {
        add_generation_prompt: random.below(2) == 0,
        enable_thinking: [None, Some(true), Some(false)][random.below(3)],
        ..RenderOptions::default()
    };
    template.render(&messages(random), &options).is_ok()
}

fn use_tokenizer(input: &[u8], random: &mut Random, place: &Path) -> bool {
    fs::write(place.join("tokenizer.json"), input).unwrap();
    let config = json!({ "chat_template": "{% for m in messages %}<s>{{ m.role }} {{ m.content | trim }}<|end|>{% endfor %}" });
    let config = mutate::json(random, &[config]);
    fs::write(place.join("tokenizer_config.json"), &config).unwrap();
    fs::write(place.join("generation_config.json"), &config).unwrap();
    // Whatever it says is fine, if it says it.
    let _ = GenerationDefaults::from_dir(place);
    let Ok(tokenizer) = Tokenizer::from_dir(place) else { return false };
    for text in TEXTS {
        for special in [SpecialTokens::AsText, SpecialTokens::Parse] {
            let Ok(ids) = tokenizer.encode(text, special) else { continue };
            assert!(
                ids.iter().all(|id| (*id as usize) < tokenizer.vocab_tokens()),
                "an id outside the vocabulary"
            );
            let _ = tokenizer.decode(&ids);
            let mut detokenizer = Detokenizer::new(tokenizer.clone());
            for id in ids {
                let _ = (detokenizer.push(id), tokenizer.token_bytes(id));
            }
            let _ = detokenizer.finish();
        }
    }
    let mut detokenizer = Detokenizer::new(tokenizer.clone());
    for _ in 0..64 {
        let _ = detokenizer.push(u32::try_from(random.below(700)).unwrap());
    }
    let _ = detokenizer.finish();
    let _ = tokenizer.prompt_tokens(&messages(random), &RenderOptions::default());
    true
}
