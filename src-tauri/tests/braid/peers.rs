//! Both ends of the API against programs that others wrote, with the starter model: mlx-lm's server as a tab's server,
//! and OpenAI's own client against the local server. `cargo xtask test` installs them and runs this; on its own:
//! `BRAID_PEER_PYTHON=.mlx/peers/bin/python cargo test -p braid --test braid peers -- --ignored`.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use app::{
    error::AppError,
    local_engine::{LocalEngine, MlxSource},
    models::ModelPlaces,
    remote::{RemoteEvent, Usage},
    state::AppState,
};
use protocol::{
    ErrorCode, FinishReason, KeyChange, LocalServerSettings, RemoteServerChange, RemoteTarget,
    SamplingSettings,
};
use text::{ChatMessage, Role};

use crate::support::library_in;

/// Starting Python and loading the model takes seconds; on a busy machine many.
const PATIENCE: Duration = Duration::from_secs(180);

fn python() -> PathBuf {
    let python =
        std::env::var_os("BRAID_PEER_PYTHON").expect("BRAID_PEER_PYTHON names a Python with the peers");
    // The tests run in the package's folder, the variable is written from the workspace's.
    let path = PathBuf::from(python);
    if path.exists() { path } else { PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path) }
}

fn starter_model() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.mlx/models/SmolLM2-135M-Instruct");
    std::env::var_os("BRAID_STARTER_MODEL").map_or(own, PathBuf::from)
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/braid/peers").join(name)
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound").port()
}

/// A process that ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // One that has ended already cannot be ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An app on the real engine.
async fn real_app(folder: &tempfile::TempDir) -> AppState {
    let models = ModelPlaces { starter: Some(starter_model()), roots: Vec::new() };
    let engine = Arc::new(LocalEngine::new(MlxSource(models)));
    let library = library_in(folder.path(), engine.clone());
    AppState::new(folder.path().join("history.sqlite3"), engine, library)
}

struct Told {
    text: String,
    end: Result<(FinishReason, Option<Usage>), AppError>,
}

async fn ask(state: &AppState, server_id: &str, model: &str, max_tokens: u32) -> Told {
    let target = RemoteTarget { server_id: server_id.into(), model: model.into() };
    let question = "What is the capital of France? Answer in one sentence.";
    let settings = SamplingSettings { temperature: 0.0, max_tokens, ..app::sampling_settings::defaults() };
    let mut events = state.remotes.stream(target, vec![ChatMessage::new(Role::User, question)], settings);
    let mut text = String::new();
    loop {
        match tokio::time::timeout(PATIENCE, events.recv()).await.expect("it goes on").expect("it has an end")
        {
            RemoteEvent::Text(more) | RemoteEvent::Thinking(more) => text.push_str(&more),
            RemoteEvent::Finished { reason, usage } => return Told { text, end: Ok((reason, usage)) },
            RemoteEvent::Failed(error) => return Told { text, end: Err(error) },
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs BRAID_PEER_PYTHON"]
async fn peers_mlx_lms_server_answers_a_tab_and_can_be_stopped() {
    let (folder, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
    let model = starter_model().canonicalize().expect("setup has imported it").display().to_string();
    let state = real_app(&folder).await;
    let history = state.history().await.expect("it opens");
    let change = RemoteServerChange {
        id: None,
        name: "mlx-lm".into(),
        base_url: format!("http://127.0.0.1:{port}"),
        key: KeyChange::Keep,
    };
    let server = state.remotes.save(history, change).await.expect("kept");
    let early = state.remotes.models(&server.id).await.expect_err("it does not run yet");
    assert_eq!(early.code(), ErrorCode::RemoteUnreachable);
    std::fs::create_dir(folder.path().join("hub")).expect("the folder can be written");
    let _peer = Peer(
        Command::new(python())
            .arg(script("mlx_server.py"))
            .args(["--host", "127.0.0.1", "--model", &model, "--port", &port.to_string()])
            // It lists the models of this cache, and fails where there is none.
            .env("HF_HOME", folder.path())
            .env("MLX_DISABLE_COMPILE", "1")
            .env("HF_HUB_OFFLINE", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the peer's Python starts"),
    );
    let began = Instant::now();
    let models = loop {
        match state.remotes.models(&server.id).await {
            Ok(models) => break models,
            Err(error) if error.code() == ErrorCode::RemoteUnreachable && began.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert!(models.iter().all(|model| !model.id.is_empty()), "{models:?}");
    let told = ask(&state, &server.id, &model, 24).await;
    let (reason, usage) = told.end.expect("it answers");
    assert!(told.text.contains("Paris"), "{}", told.text);
    assert!(matches!(reason, FinishReason::EndOfTurn | FinishReason::MaxTokens));
    assert!(usage.is_none_or(|usage| usage.prompt_tokens > 0), "{usage:?}");

    // Stopped half-way: the connection is dropped, and the server is free for the next question.
    let target = RemoteTarget { server_id: server.id.clone(), model: model.clone() };
    let long = SamplingSettings { temperature: 0.0, max_tokens: 4000, ..app::sampling_settings::defaults() };
    let story = vec![ChatMessage::new(Role::User, "Tell me everything about the sea.")];
    let mut events = state.remotes.stream(target, story, long);
    let first =
        tokio::time::timeout(PATIENCE, events.recv()).await.expect("it begins").expect("with an event");
    assert!(matches!(first, RemoteEvent::Text(_)), "{first:?}");
    drop(events);
    let told = ask(&state, &server.id, &model, 4).await;
    assert_eq!(told.end.map(|(reason, _)| reason).ok(), Some(FinishReason::MaxTokens), "{}", told.text);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs BRAID_PEER_PYTHON"]
async fn peers_openais_client_is_answered_by_the_local_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let state = real_app(&folder).await;
    let history = state.history().await.expect("it opens");
    state.engine.restart().await;
    tokio::time::timeout(PATIENCE, state.engine.ready()).await.expect("in time").expect("the model loads");
    let settings = LocalServerSettings { is_enabled: true, port: free_port() };
    let status = state.server.write(history, settings).await.expect("it can be switched on");
    let (address, key) = (status.address.expect("it listens"), status.key);
    let run = tokio::task::spawn_blocking(move || {
        Command::new(python())
            .arg(script("openai_client.py"))
            .args([address, key])
            .output()
            .expect("the peer's Python starts")
    });
    let said = tokio::time::timeout(PATIENCE, run).await.expect("in time").expect("no panic");
    let (out, error) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && out.contains("every claim holds"), "{out}\n{error}");
    state.server.stop().await;
    let engine = state.engine.clone();
    tokio::task::spawn_blocking(move || engine.end_thread()).await.expect("no panic");
}
