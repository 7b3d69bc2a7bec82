//! What the scripted backend says, how long it takes, and when it fails.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use super::{END_OF_TURN, VOCAB_TOKENS};
use crate::{TokenId, sampling::noise::token_hash};

/// Width of the scripted logits: wider than the vocabulary, as in models whose embedding is padded.
const VOCAB_WIDTH: u32 = 272;
/// Logit of the padding. It would always win, so a sampler that forgets to mask it is caught.
const PADDING_LOGIT: f32 = 50.0;
/// Logit of tokens that a script does not want.
const UNWANTED_LOGIT: f32 = -40.0;

/// One row as the scripted backend sees it: what is in its KV cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FakeRow {
    /// Tokens written, prompt and answer.
    pub tokens: Vec<TokenId>,
    /// How many of them are the prompt.
    pub prompt_tokens: usize,
}

/// Raw logits, `[272]`, for the token that follows a row's tokens.
pub type LogitsOf = dyn Fn(&FakeRow) -> Vec<f32> + Send + Sync;

/// What the rows say.
#[derive(Clone)]
pub enum Answer {
    /// Letters drawn from the whole history, ending one time in this many tokens; 0 never ends.
    Hashed {
        /// Mean answer length in tokens.
        eos_one_in: u32,
    },
    /// These bytes, then the end of the turn, whatever the prompt.
    Spoken(Arc<[u8]>),
    /// Whatever the function returns.
    Custom(Arc<LogitsOf>),
}

impl Answer {
    /// An answer that is `text`.
    pub fn spoken(text: impl AsRef<[u8]>) -> Self {
        Self::Spoken(text.as_ref().into())
    }

    /// Raw logits for the token after `row.tokens`: `[272]`.
    pub fn logits(&self, row: &FakeRow) -> Vec<f32> {
        match self {
            Self::Hashed { eos_one_in } => hashed_logits(row, *eos_one_in),
            Self::Spoken(bytes) => {
                let next = bytes.get(row.tokens.len() - row.prompt_tokens);
                one_hot(next.map_or(END_OF_TURN, |byte| TokenId::from(*byte)))
            }
            Self::Custom(logits) => logits(row),
        }
    }
}

fn blank_logits() -> Vec<f32> {
    let logit = |id| if id < VOCAB_TOKENS { UNWANTED_LOGIT } else { PADDING_LOGIT };
    (0..VOCAB_WIDTH).map(logit).collect()
}

fn one_hot(id: TokenId) -> Vec<f32> {
    let mut logits = blank_logits();
    logits[id as usize] = 20.0;
    logits
}

fn hashed_logits(row: &FakeRow, eos_one_in: u32) -> Vec<f32> {
    let history = row.tokens.iter().fold(0, |hash, token| token_hash(hash, *token));
    let mut logits = blank_logits();
    if eos_one_in > 0 && history.is_multiple_of(eos_one_in) {
        logits[END_OF_TURN as usize] = 20.0;
    }
    for letter in b'a'..=b'z' {
        // Eight bits of the hash, so that ties occur.
        logits[usize::from(letter)] = (token_hash(history, letter.into()) >> 24) as f32 / 64.0;
    }
    logits
}

/// A call that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultAt {
    /// The forward pass of this decode step, counted from 1.
    Forward(u64),
    /// Sampling in this decode step, on either path.
    Sample(u64),
    /// Reading the fused tokens of this decode step: where the errors of a device appear.
    Read(u64),
    /// The forward pass of this decode step, for lack of memory.
    OutOfMemory(u64),
    /// This call of `keep_rows`, counted from 1.
    KeepRows(u64),
    /// Rebuilding after a fault, ever.
    Reset,
}

/// A row whose logits cannot be sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BadLogits {
    /// First prompt token of the rows concerned.
    pub first_token: TokenId,
    /// Answer tokens that come out well before.
    pub after_tokens: usize,
    /// Put into the row's logits, at every id.
    pub logit: f32,
}

/// Everything the scripted backend does.
#[derive(Clone)]
pub struct Script {
    /// What the rows say.
    pub answer: Answer,
    /// Rows a batch can hold.
    pub max_rows: usize,
    /// Context window.
    pub context_tokens: u32,
    /// Time to read one prompt token.
    pub prefill_per_token: Duration,
    /// Time of one decode step.
    pub step: Duration,
    /// Calls that fail.
    pub faults: Vec<FaultAt>,
    /// Decode step, counted from 1, whose forward pass panics.
    pub panic_at_step: Option<u64>,
    /// Rows with unusable logits.
    pub bad_logits: Option<BadLogits>,
    /// Prompts that start with this token cannot be read.
    pub unreadable: Option<TokenId>,
    /// Device memory that the engine may plan with, in bytes.
    pub memory_limit_bytes: u64,
    /// Memory in use that nobody needs, until it is trimmed for the first time.
    pub untrimmed_bytes: u64,
    /// Device memory in use for anything else, in bytes. Can be changed while the script runs.
    pub foreign_bytes: Arc<AtomicU64>,
    /// Shortlist width that top-p rows need; a narrower one costs a width miss.
    pub needed_width: u32,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            answer: Answer::Hashed { eos_one_in: 12 },
            max_rows: 8,
            context_tokens: 4096,
            prefill_per_token: Duration::ZERO,
            step: Duration::ZERO,
            faults: Vec::new(),
            panic_at_step: None,
            bad_logits: None,
            unreadable: None,
            memory_limit_bytes: 1 << 40,
            untrimmed_bytes: 0,
            foreign_bytes: Arc::default(),
            needed_width: 0,
        }
    }
}

impl Script {
    /// Width of the logits.
    pub fn vocab_width(&self) -> u32 {
        VOCAB_WIDTH
    }

    /// Raw logits of `row` after its latest token.
    pub fn logits(&self, row: &FakeRow) -> Vec<f32> {
        let logits = self.answer.logits(row);
        let is_bad = |bad: &BadLogits| {
            row.tokens[0] == bad.first_token && row.tokens.len() - row.prompt_tokens >= bad.after_tokens
        };
        match self.bad_logits.filter(is_bad) {
            Some(bad) => vec![bad.logit; logits.len()],
            None => logits,
        }
    }
}

/// Scripts by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Short answers at once.
    ShortAnswers,
    /// Answers that end only at a limit, 20 ms a token.
    LongAnswers,
    /// 5 ms for each prompt token, 20 ms a decode step.
    SlowPrefill,
    /// The forward pass of this decode step fails.
    FaultAtStep(u64),
    /// The backend panics in this decode step.
    PanicAtStep(u64),
    /// Rows whose prompt starts with `!` have no usable logits from their fourth token on.
    NanRow,
}

impl From<Scenario> for Script {
    fn from(scenario: Scenario) -> Self {
        let ms = Duration::from_millis;
        let script = Self::default();
        match scenario {
            Scenario::ShortAnswers => script,
            Scenario::LongAnswers => {
                Self { answer: Answer::Hashed { eos_one_in: 0 }, step: ms(20), ..script }
            }
            Scenario::SlowPrefill => {
                let answer = Answer::Hashed { eos_one_in: 0 };
                Self { answer, prefill_per_token: ms(5), step: ms(20), ..script }
            }
            Scenario::FaultAtStep(step) => Self { faults: vec![FaultAt::Forward(step)], ..script },
            Scenario::PanicAtStep(step) => Self { panic_at_step: Some(step), ..script },
            Scenario::NanRow => {
                let bad = BadLogits { first_token: b'!'.into(), after_tokens: 3, logit: f32::NAN };
                Self { bad_logits: Some(bad), answer: Answer::Hashed { eos_one_in: 0 }, ..script }
            }
        }
    }
}
