use engine::{
    RequestId, TokenId,
    backend::{Backend, StepInput},
};
use mlx_backend::{LoadOptions, MlxBackend};
use std::path::PathBuf;
use text::{ChatMessage, RenderOptions, Role, Tokenizer};

pub const PROMPTS: [&str; 10] = [
    "What is the capital of France?",
    "Write a short story about a lighthouse keeper and a storm.",
    "Explain how rain forms.",
    "List five uses of a brick.",
    "Translate into French: The cat sleeps on the warm stones.",
    "What is 17 times 23? Show your work.",
    "Describe the city of Rome in two sentences, then name three of its emperors.",
    "Write a Python function that reverses a list.",
    "Why is the sky blue?",
    "Give me a recipe for pancakes with the amounts in grams, and say what can go wrong.",
];

pub fn model_dir() -> PathBuf {
    std::env::var_os("BRAID_STARTER_MODEL").map(PathBuf::from).expect("BRAID_STARTER_MODEL names the folder")
}

pub fn load() -> (MlxBackend, Tokenizer) {
    let tokenizer = Tokenizer::from_dir(&model_dir()).unwrap();
    let options = LoadOptions { max_rows: 16, tokenizer_tokens: tokenizer.vocab_tokens() as u32 };
    (MlxBackend::load(&model_dir(), options).unwrap(), tokenizer)
}

pub fn prompt(tokenizer: &Tokenizer, question: &str) -> Vec<TokenId> {
    let message = ChatMessage::new(Role::User, question);
    tokenizer.prompt_tokens(&[message], RenderOptions { add_generation_prompt: true }).unwrap()
}

/// Reads all of the prompt but its last token and joins the batch; returns the row's next input.
pub fn join(backend: &mut MlxBackend, id: u64, prompt: &[TokenId]) -> StepInput {
    let (last, before) = prompt.split_last().unwrap();
    backend.prefill(RequestId(id), before).unwrap();
    backend.join(RequestId(id)).unwrap();
    StepInput { token: *last, kv_cache_tokens: before.len() as u32 }
}
