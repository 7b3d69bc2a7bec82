//! An app without a window: scripted engine, temporary database, recorded frames.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use app::{
    error::AppError,
    generation,
    local_engine::{EngineSource, LoadRequest, LocalEngine, ModelStart, Preflight},
    model_library::{ModelFolders, ModelLibrary},
    models::FoundModel,
    state::AppState,
    stream::{FrameSink, SinkClosed},
};
use engine::{
    EngineHandle, EngineThread, Replace,
    testing::{LoadFault, LoadGate, Script, ScriptedLoad, byte_tokenizer},
};
use model_hub::{ModelFolder, ModelSource};
use protocol::{
    EditMessage, MessageView, RegenerateAnswer, SamplingSettings, SeedChoice, StartGeneration,
    StartedGeneration, StreamEvent, StreamEventBody, TextPart,
};
use tempfile::TempDir;
use text::{GenerationDefaults, TextError, Tokenizer};
use tokio::sync::watch;

/// Longest wait for anything in a test.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Slices of every load.
pub const SLICES: u64 = 3;

/// What the scripted source does next; tests change it between starts.
#[derive(Clone)]
pub struct Plan {
    pub script: Script,
    /// Where loading waits.
    pub gate: LoadGate,
    pub has_model: bool,
    /// How loading the model of this id goes wrong.
    pub fault: Option<(&'static str, LoadFault)>,
    /// What is wrong with models before they are loaded.
    pub refusal: Option<AppError>,
    /// What becomes of the model that runs meanwhile.
    pub replace: Replace,
    pub tokenizer: fn() -> Result<Tokenizer, TextError>,
}

impl Plan {
    pub fn of(script: impl Into<Script>) -> Self {
        Self {
            script: script.into(),
            gate: LoadGate::closed_after(u64::MAX),
            has_model: true,
            fault: None,
            refusal: None,
            replace: Replace::Beside,
            tokenizer: byte_tokenizer,
        }
    }
}

struct ScriptedSource(Arc<Mutex<Plan>>);

/// A model folder that is not there: its id decides what it is.
pub fn model(id: &str) -> ModelFolder {
    ModelFolder {
        id: id.into(),
        name: id.into(),
        path: PathBuf::from(id),
        source: ModelSource::Folder,
        origin: PathBuf::from(id),
        bytes: 0,
        architecture: "scripted".into(),
        quantisation: "none".into(),
        context_tokens: None,
        licence: None,
    }
}

impl ScriptedSource {
    fn plan(&self) -> Plan {
        self.0.lock().expect("no test panics while it plans").clone()
    }

    fn load(&self, model: &ModelFolder) -> ScriptedLoad {
        let Plan { script, gate, fault, .. } = self.plan();
        let load = ScriptedLoad::new(script, SLICES).behind(&gate);
        match fault {
            Some((id, fault)) if id == model.id => load.with_fault(fault),
            _ => load,
        }
    }
}

impl EngineSource for ScriptedSource {
    fn find_model(&self, preferred: Option<&str>) -> Result<FoundModel, AppError> {
        if !self.plan().has_model {
            return Err(AppError::NoModel { looked_in: vec!["/nowhere".into()] });
        }
        Ok(FoundModel { model: model(preferred.unwrap_or("scripted")), passed_over: None })
    }

    fn preflight(&self, _: &ModelFolder, _: LoadRequest) -> Result<Preflight, AppError> {
        let Plan { tokenizer, replace, refusal, .. } = self.plan();
        if let Some(error) = refusal {
            return Err(error);
        }
        let tokenizer = tokenizer().expect("a temporary folder can be written");
        let recommended = GenerationDefaults { temperature: Some(0.6), ..GenerationDefaults::default() };
        Ok(Preflight { recommended, tokenizer, context_tokens: None, replace })
    }

    fn spawn(&self, start: ModelStart<'_>) -> io::Result<(EngineThread, EngineHandle)> {
        let load = self.load(start.model);
        EngineThread::spawn(start.config, || Ok(load))
    }

    fn replace(&self, thread: &EngineThread, start: ModelStart<'_>, replace: Replace) -> EngineHandle {
        let load = self.load(start.model);
        thread.replace(start.config, || Ok(load), replace)
    }
}

/// A library whose folders all lie in one, as with `BRAID_DATA_DIR`.
pub fn library_in(folder: &Path, engine: Arc<LocalEngine>) -> ModelLibrary {
    let folders = ModelFolders {
        own: folder.join("models"),
        bundled: Vec::new(),
        starter: None,
        downloads: folder.join("hub"),
    };
    ModelLibrary::new(folders, folder, engine)
}

/// Waits until something is true.
pub async fn until(is_true: impl AsyncFn() -> bool) {
    let became = async {
        while !is_true().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, became).await.expect("it becomes true");
}

/// An app whose database lives as long as this.
pub struct TestApp {
    pub state: AppState,
    pub plan: Arc<Mutex<Plan>>,
    pub folder: TempDir,
}

impl TestApp {
    pub async fn start(plan: Plan) -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary folder"), plan).await
    }

    pub async fn start_in(folder: TempDir, plan: Plan) -> Self {
        let plan = Arc::new(Mutex::new(plan));
        let engine = Arc::new(LocalEngine::new(ScriptedSource(plan.clone())));
        let library = library_in(folder.path(), engine.clone());
        let state = AppState::new(folder.path().join("history.sqlite3"), engine, library);
        // A runtime that was shut down a moment ago may still hold the lock.
        let opened = async {
            while state.history().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, opened).await.expect("the database opens");
        state.engine.restart().await;
        Self { state, plan, folder }
    }

    pub async fn new_conversation(&self) -> String {
        app::commands::conversations::create(&self.state).await.expect("the database is open").id
    }

    /// Sends a message; the request id is the conversation's with "r" before it.
    pub async fn send(
        &self,
        conversation: &str,
        text: &str,
    ) -> Result<(StartedGeneration, Arc<Recorder>), AppError> {
        let recorder = Arc::new(Recorder::default());
        let request = StartGeneration {
            request_id: format!("r{conversation}"),
            conversation_id: conversation.into(),
            text: text.into(),
        };
        let started = generation::start(&self.state, request, Instant::now(), Sink(recorder.clone())).await?;
        Ok((started, recorder))
    }

    /// Asks for another version of an answer; the request id is the conversation's with "r" before it.
    pub async fn regenerate(
        &self,
        conversation: &str,
        answer_id: &str,
        seed: SeedChoice,
    ) -> Result<(MessageView, Arc<Recorder>), AppError> {
        let recorder = Arc::new(Recorder::default());
        let request = RegenerateAnswer {
            request_id: format!("r{conversation}"),
            conversation_id: conversation.into(),
            answer_id: answer_id.into(),
            seed,
        };
        let sink = Sink(recorder.clone());
        let version = generation::regenerate(&self.state, request, Instant::now(), sink).await?;
        Ok((version, recorder))
    }

    /// Sends another version of a question; the request id is the conversation's with "r" before it.
    pub async fn edit(
        &self,
        conversation: &str,
        question_id: &str,
        text: &str,
    ) -> Result<(StartedGeneration, Arc<Recorder>), AppError> {
        let recorder = Arc::new(Recorder::default());
        let request = EditMessage {
            request_id: format!("r{conversation}"),
            conversation_id: conversation.into(),
            message_id: question_id.into(),
            text: text.into(),
        };
        let started = generation::edit(&self.state, request, Instant::now(), Sink(recorder.clone())).await?;
        Ok((started, recorder))
    }

    /// A new conversation with these settings.
    pub async fn conversation_with(&self, settings: &SamplingSettings) -> String {
        let conversation = self.new_conversation().await;
        app::commands::conversations::write_settings(&self.state, &conversation, settings)
            .await
            .expect("the settings are valid");
        conversation
    }

    pub async fn messages(&self, conversation: &str) -> Vec<protocol::MessageView> {
        app::commands::conversations::open(&self.state, conversation).await.expect("it exists").messages
    }
}

/// Keeps every frame.
#[derive(Default)]
pub struct Recorder {
    frames: Mutex<Vec<Vec<StreamEvent>>>,
    arrivals: watch::Sender<usize>,
    pub is_closed: AtomicBool,
}

pub struct Sink(pub Arc<Recorder>);

impl FrameSink for Sink {
    fn send(&self, frame: Vec<StreamEvent>) -> Result<(), SinkClosed> {
        if self.0.is_closed.load(Ordering::Relaxed) {
            return Err(SinkClosed);
        }
        self.0.frames.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
        self.0.arrivals.send_modify(|count| *count += 1);
        Ok(())
    }
}

impl Recorder {
    pub fn events(&self) -> Vec<StreamEvent> {
        self.frames.lock().expect("no sink panics").concat()
    }

    pub fn text(&self) -> String {
        self.part(TextPart::Answer)
    }

    /// What was heard of one of several requests.
    pub fn of(&self, request_id: &str) -> Vec<StreamEvent> {
        self.events().into_iter().filter(|event| event.request_id == request_id).collect()
    }

    /// Everything that was said in one part of the answer.
    pub fn part(&self, wanted: TextPart) -> String {
        let deltas = self.events().into_iter().filter_map(|event| match event.body {
            StreamEventBody::Text { part, delta, .. } if part == wanted => Some(delta),
            _ => None,
        });
        deltas.collect()
    }

    /// Waits for an event that passes `test`.
    pub async fn wait_for(&self, test: impl Fn(&StreamEventBody) -> bool) -> StreamEventBody {
        self.wait_for_event(|event| test(&event.body)).await.body
    }

    /// As [`Self::wait_for`], where it matters whose event it is.
    pub async fn wait_for_event(&self, test: impl Fn(&StreamEvent) -> bool) -> StreamEvent {
        let mut arrivals = self.arrivals.subscribe();
        let found = async {
            loop {
                arrivals.borrow_and_update();
                if let Some(event) = self.events().into_iter().find(&test) {
                    return event;
                }
                arrivals.changed().await.expect("the recorder holds the sender");
            }
        };
        tokio::time::timeout(PATIENCE, found).await.expect("the event comes")
    }

    pub async fn wait_for_end(&self) -> StreamEventBody {
        self.wait_for(is_end).await
    }

    /// The last event of one of several requests.
    pub async fn wait_for_end_of(&self, request_id: &str) -> StreamEventBody {
        let is_its_end = |event: &StreamEvent| event.request_id == request_id && is_end(&event.body);
        self.wait_for_event(is_its_end).await.body
    }

    pub async fn wait_for_text(&self) {
        self.wait_for(|body| matches!(body, StreamEventBody::Text { .. })).await;
    }
}

fn is_end(body: &StreamEventBody) -> bool {
    matches!(body, StreamEventBody::Finished { .. } | StreamEventBody::Failed { .. })
}
