use engine::{
    EngineConfig, EngineError, EngineEvent, EventReceiver, FinishReason, GateMode, NewRequest, OwnerId,
    RequestId, TokenId,
    backend::{Backend, StepInput},
    clock::SystemClock,
    engine::Engine,
    params::SamplingParams,
};
use mlx_backend::{LoadOptions, MlxBackend};
use std::{path::PathBuf, sync::Arc, time::Instant};
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
    let options = LoadOptions::new(16, tokenizer.vocab_tokens() as u32);
    (MlxBackend::load(&model_dir(), options).unwrap(), tokenizer)
}

pub fn prompt(tokenizer: &Tokenizer, question: &str) -> Vec<TokenId> {
    let message = ChatMessage::new(Role::User, question);
    tokenizer.prompt_tokens(&[message], &RenderOptions::default()).unwrap()
}

/// Reads all of the prompt but its last token and joins the batch; returns the row's next input.
pub fn join(backend: &mut MlxBackend, id: u64, prompt: &[TokenId]) -> StepInput {
    let (last, before) = prompt.split_last().unwrap();
    backend.prefill(RequestId(id), before).unwrap();
    backend.join(RequestId(id)).unwrap();
    StepInput { token: *last, kv_cache_tokens: before.len() as u32 }
}

pub const MODES: [GateMode; 3] = [GateMode::Strict, GateMode::Split, GateMode::Folded];

/// Conversation that every request of a [`Chat`] belongs to.
pub const OWNER: OwnerId = OwnerId(1);

/// The engine as the app runs it, without its thread.
pub struct Chat {
    pub engine: Engine<MlxBackend>,
    pub tokenizer: Tokenizer,
}

impl Chat {
    pub fn load() -> Self {
        let (backend, tokenizer) = load();
        let config = EngineConfig::new(tokenizer.clone());
        Self { engine: Engine::new(config, backend, Arc::new(SystemClock)), tokenizer }
    }

    pub fn ask(&mut self, question: &str, params: SamplingParams) -> Answer {
        self.ask_for(Some(OWNER), question, params)
    }

    pub fn ask_for(&mut self, owner: Option<OwnerId>, question: &str, params: SamplingParams) -> Answer {
        let request = NewRequest {
            prompt: prompt(&self.tokenizer, question),
            answer_so_far: Vec::new(),
            params: params.validate().unwrap(),
            owner,
            arrived_at: Instant::now(),
        };
        let (id, receiver) = self.engine.submit(request).unwrap();
        Answer { id, receiver, text: String::new(), ending: None }
    }

    pub fn run(&mut self) {
        while !self.engine.is_idle() {
            self.engine.step().unwrap();
        }
    }
}

pub struct Answer {
    pub id: RequestId,
    pub receiver: EventReceiver,
    pub text: String,
    pub ending: Option<Result<FinishReason, EngineError>>,
}

impl Answer {
    pub fn read(&mut self) -> &mut Self {
        for event in self.receiver.try_drain() {
            match event {
                EngineEvent::Text { delta, .. } => self.text.push_str(&delta),
                EngineEvent::Finished { reason, .. } => self.ending = Some(Ok(reason)),
                EngineEvent::Failed { error, .. } => self.ending = Some(Err(error)),
                _ => {}
            }
        }
        self
    }

    pub fn finished(&mut self) -> FinishReason {
        let id = self.id;
        match &self.read().ending {
            Some(Ok(reason)) => *reason,
            other => panic!("request {id} has not finished: {other:?}"),
        }
    }
}
