//! Shared set-up: an engine on a clock that stands still, and requests that write themselves.

use std::{sync::Arc, sync::OnceLock};

use engine::{
    EngineConfig, EngineError, EngineEvent, EnginePhase, EventReceiver, FinishReason, NewRequest, OwnerId,
    RequestId, RequestSummary, RowPath, StepStats,
    backend::{Penalties, RowSampling, SeenToken},
    clock::Clock,
    engine::Engine,
    params::{SamplingParams, ValidParams},
    sampling::reference,
    testing::{Call, END_OF_TURN, FakeBackend, FakeClock, FakeRow, Script, VOCAB_TOKENS, byte_tokenizer},
};
use text::{TokenId, Tokenizer};

pub fn tokenizer() -> Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| byte_tokenizer().unwrap()).clone()
}

/// Defaults of these tests: temperature 0.8, seed 7, 16 tokens.
pub fn params() -> SamplingParams {
    SamplingParams {
        temperature: 0.8,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: Some(7),
        max_tokens: 16,
        logprobs: None,
        ..SamplingParams::default()
    }
}

pub struct Bench {
    pub engine: Engine<FakeBackend>,
    pub clock: FakeClock,
}

impl Bench {
    pub fn new(script: impl Into<Script>) -> Self {
        Self::with_config(script, EngineConfig::new(tokenizer()))
    }

    pub fn with_config(script: impl Into<Script>, config: EngineConfig) -> Self {
        let clock = FakeClock::default();
        let backend = FakeBackend::on_clock(script, clock.clone());
        let engine = Engine::new(config, backend, Arc::new(clock.clone()));
        Self { engine, clock }
    }

    pub fn submit(&mut self, prompt: &str, params: SamplingParams) -> Answer {
        self.try_submit(prompt, params, None).unwrap()
    }

    /// Submits a turn of the conversation `owner`.
    pub fn submit_turn(&mut self, owner: u64, prompt: &str, params: SamplingParams) -> Answer {
        self.try_submit(prompt, params, Some(OwnerId(owner))).unwrap()
    }

    pub fn try_submit(
        &mut self,
        prompt: &str,
        params: SamplingParams,
        owner: Option<OwnerId>,
    ) -> Result<Answer, EngineError> {
        let request = request(prompt, params.validate().unwrap(), &self.clock);
        self.try_request(NewRequest { owner, ..request })
    }

    /// Submits a request for more of an answer.
    pub fn try_resume(
        &mut self,
        prompt: &str,
        answer_so_far: &[TokenId],
        params: SamplingParams,
    ) -> Result<Answer, EngineError> {
        let request = request(prompt, params.validate().unwrap(), &self.clock);
        self.try_request(NewRequest { answer_so_far: answer_so_far.to_vec(), ..request })
    }

    pub fn try_request(&mut self, request: NewRequest) -> Result<Answer, EngineError> {
        let (id, receiver) = self.engine.submit(request)?;
        Ok(Answer { id, receiver, text: String::new(), events: Vec::new() })
    }

    /// Calls that the backend got so far.
    pub fn calls(&self) -> Vec<Call> {
        self.engine.backend().log().lock().unwrap().iter().map(|logged| logged.call.clone()).collect()
    }

    /// Prompt tokens read, by all requests together.
    pub fn tokens_read(&self) -> usize {
        let tokens = |call: &Call| if let Call::Prefill(_, tokens) = call { *tokens } else { 0 };
        self.calls().iter().map(tokens).sum()
    }

    pub fn stats(&self) -> StepStats {
        self.engine.snapshot(EnginePhase::Ready).steps
    }

    pub fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.engine.step().unwrap();
        }
    }

    /// Steps until `answer` has ended.
    pub fn run_until_done(&mut self, answer: &mut Answer) {
        while answer.endings() == 0 {
            self.engine.step().unwrap();
        }
    }

    /// Steps until nothing is left to do.
    pub fn run(&mut self) {
        while !self.engine.is_idle() {
            self.engine.step().unwrap();
        }
    }
}

pub fn request(prompt: &str, params: ValidParams, clock: &FakeClock) -> NewRequest {
    let prompt = prompt.bytes().map(u32::from).collect();
    NewRequest { prompt, answer_so_far: Vec::new(), params, owner: None, arrived_at: clock.now() }
}

/// What a request must say, computed token by token without an engine, a batch or a KV cache.
pub fn expected_text(script: &Script, prompt: &str, params: &SamplingParams) -> String {
    let prompt: Vec<TokenId> = prompt.bytes().map(TokenId::from).collect();
    let valid = params.clone().validate().unwrap();
    let mut row = FakeRow { prompt_tokens: prompt.len(), tokens: prompt };
    let mut text = String::new();
    for _ in 0..params.max_tokens {
        let seen = seen_tokens(&row);
        let penalties = Penalties {
            repetition: params.repetition_penalty,
            frequency: params.frequency_penalty,
            presence: params.presence_penalty,
            seen: &seen,
        };
        let sampling = RowSampling {
            penalties: Some(penalties),
            ..RowSampling::new(&valid, params.seed.unwrap(), row.tokens.len() as u32)
        };
        let token = reference::sample(&script.logits(&row), VOCAB_TOKENS, &sampling).unwrap();
        if token == END_OF_TURN {
            break;
        }
        row.tokens.push(token);
        text.push(char::from(token as u8));
        if let Some(stop) = params.stop.iter().find(|stop| text.ends_with(*stop)) {
            text.truncate(text.len() - stop.len());
            break;
        }
        if row.tokens.len() == script.context_tokens as usize {
            break;
        }
    }
    text
}

/// Counts from scratch what occurred in a row.
fn seen_tokens(row: &FakeRow) -> Vec<SeenToken> {
    let (prompt, answer) = row.tokens.split_at(row.prompt_tokens);
    let mut seen: Vec<SeenToken> = Vec::new();
    for token in prompt.iter().chain(answer) {
        if seen.iter().all(|other| other.token != *token) {
            let answer_count = answer.iter().filter(|other| *other == token).count() as u32;
            seen.push(SeenToken { token: *token, answer_count });
        }
    }
    seen
}

/// One request and everything it was told.
pub struct Answer {
    pub id: RequestId,
    pub receiver: EventReceiver,
    pub text: String,
    pub events: Vec<EngineEvent>,
}

impl Answer {
    pub fn read(&mut self) -> &mut Self {
        for event in self.receiver.try_drain() {
            if let EngineEvent::Text { delta, .. } = &event {
                self.text.push_str(delta);
            }
            self.events.push(event);
        }
        self
    }

    /// Reason and summary; panics unless the request has finished without an error.
    pub fn finished(&mut self) -> (FinishReason, RequestSummary) {
        self.read();
        match self.events.last() {
            Some(EngineEvent::Finished { reason, summary }) => (*reason, summary.clone()),
            other => panic!("request {} has not finished: {other:?}", self.id),
        }
    }
}

impl Answer {
    /// The error; panics unless the request has failed.
    pub fn failed(&mut self) -> EngineError {
        self.read();
        match self.events.last() {
            Some(EngineEvent::Failed { error, .. }) => error.clone(),
            other => panic!("request {} has not failed: {other:?}", self.id),
        }
    }

    /// Terminal events so far.
    pub fn endings(&mut self) -> usize {
        self.read().events.iter().filter(|event| event.is_terminal()).count()
    }
}

impl Answer {
    pub fn paths(&mut self) -> Vec<RowPath> {
        self.read();
        let path = |event: &EngineEvent| match event {
            EngineEvent::Path { path } => Some(path.clone()),
            _ => None,
        };
        self.events.iter().filter_map(path).collect()
    }
}

/// SplitMix64: the histories of these tests are the same on every machine.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
