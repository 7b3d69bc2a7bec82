//! A hub on loopback: speaks the API, serves content from memory, and misbehaves as scripted.
//!
//! Two ports: the hub itself, and the "CDN" that large files are redirected to.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use model_hub::{Hub, HubConfig, ProxyChoice, Secret};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use crate::random::Random;

pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub const REPO: &str = "braid-tests/tiny-4bit";
pub const TOKEN: &str = "hf_secretOfTheTests";

/// One misbehaviour. Each request takes the next one of its file.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The hub answers with this status and these headers.
    Status(u16, &'static [(&'static str, &'static str)]),
    /// The hub redirects there.
    Redirect(&'static str),
    /// The connection breaks after so many bytes of the body.
    Cut(usize),
    /// As `Cut`; from then on the file has another content.
    CutAndReplace(usize, Vec<u8>),
    /// The byte at this place of the body is wrong.
    Corrupt(usize),
    /// The body ends after so many bytes, and its length says so.
    Short(usize),
    /// After so many bytes nothing comes any more.
    Stall(usize),
    /// After so many bytes nothing comes until [`HubServer::release`].
    Hold(usize),
    /// Ranges are not known: the whole file comes.
    IgnoreRange,
    /// The range is another than the one asked for.
    OtherRange,
    /// Nothing out of the ordinary.
    Sound,
}

impl Fault {
    fn is_of_the_hub(&self) -> bool {
        matches!(self, Self::Status(..) | Self::Redirect(_))
    }
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub is_cdn: bool,
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: HashMap<String, String>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

#[derive(Debug, Clone)]
struct ServedFile {
    content: Vec<u8>,
    is_large: bool,
}

impl ServedFile {
    fn etag(&self) -> String {
        if self.is_large { sha256(&self.content) } else { git_sha1(&self.content) }
    }
}

#[derive(Debug, Clone)]
struct ScriptedAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

#[derive(Default)]
struct State {
    files: Vec<(String, ServedFile)>,
    faults: HashMap<String, VecDeque<Fault>>,
    always: HashMap<String, Fault>,
    seen: Vec<Seen>,
    /// Answers by path, instead of what the files say.
    answers: HashMap<String, ScriptedAnswer>,
    /// Bytes of bodies that may still leave; then everything stalls.
    budget: Option<usize>,
    /// Told when it is spent.
    spent: Arc<Notify>,
}

pub struct HubServer {
    hub: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    cdn: SocketAddr,
    state: Mutex<State>,
    released: Notify,
}

pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn git_sha1(content: &[u8]) -> String {
    let mut hasher = Sha1::new_with_prefix(format!("blob {}\0", content.len()));
    hasher.update(content);
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that look random and are the same for the same seed.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    std::iter::repeat_with(|| random.bits().to_le_bytes()).flatten().take(bytes).collect()
}

impl HubServer {
    /// An empty hub. It serves as long as the runtime of this call runs.
    pub async fn empty() -> Self {
        let hub_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cdn_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (hub, cdn) = (hub_listener.local_addr().unwrap(), cdn_listener.local_addr().unwrap());
        let shared = Arc::new(Shared { cdn, state: Mutex::default(), released: Notify::new() });
        for (listener, is_cdn) in [(hub_listener, false), (cdn_listener, true)] {
            let shared = shared.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        // A client that went away is no matter of the server's.
                        let _ = shared.serve(stream, is_cdn).await;
                    });
                }
            });
        }
        Self { hub, shared }
    }

    /// A hub with one small model: two large files, a few small ones, and what nobody should fetch.
    pub async fn with_model() -> Self {
        let server = Self::empty().await;
        server.add_small("config.json", br#"{"model_type": "llama"}"#);
        server.add_small("tokenizer.json", &noise(1, 3_000));
        server.add_small("README.md", b"# tiny");
        server.add_large("model-00001-of-00002.safetensors", &noise(2, 300_000));
        server.add_large("model-00002-of-00002.safetensors", &noise(3, 200_000));
        server.add_small("model.safetensors.index.json", br#"{"weight_map": {}}"#);
        server.add_large("pytorch_model.bin", b"never");
        server.add_small("modeling_tiny.py", b"never");
        server
    }

    pub fn add_small(&self, path: &str, content: &[u8]) {
        self.add(path, content, false);
    }

    pub fn add_large(&self, path: &str, content: &[u8]) {
        self.add(path, content, true);
    }

    fn add(&self, path: &str, content: &[u8], is_large: bool) {
        let file = ServedFile { content: content.to_vec(), is_large };
        self.shared.state().files.push((path.to_string(), file));
    }

    pub fn replace(&self, path: &str, content: &[u8]) {
        self.shared.state().replace(path, content);
    }

    /// What it serves at `path` now.
    pub fn content(&self, path: &str) -> Vec<u8> {
        self.shared.state().file(path).unwrap().content.clone()
    }

    pub fn fault(&self, path: &str, fault: Fault) {
        self.shared.state().faults.entry(path.to_string()).or_default().push_back(fault);
    }

    /// For every request of a file that has no other fault waiting.
    pub fn always(&self, path: &str, fault: Fault) {
        self.shared.state().always.insert(path.to_string(), fault);
    }

    pub fn heal(&self) {
        let mut state = self.shared.state();
        state.faults.clear();
        state.always.clear();
        state.budget = None;
    }

    /// Lets one body that is held go on.
    pub fn release(&self) {
        self.shared.released.notify_one();
    }

    /// Answers `path` below `/api` like this from now on.
    pub fn answer(&self, path: &str, status: u16, headers: &[(&str, &str)], body: &str) {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let answer = ScriptedAnswer { status, headers, body: body.to_string() };
        self.shared.state().answers.insert(path.to_string(), answer);
    }

    /// Lets so many more bytes of files leave, then nothing.
    pub fn set_budget(&self, bytes: usize) {
        let mut state = self.shared.state();
        state.budget = Some(bytes);
        state.spent = Arc::default();
    }

    /// Waits until the budget is spent and a request felt it.
    pub async fn spent(&self) {
        let spent = self.shared.state().spent.clone();
        spent.notified().await;
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }

    /// Requests for the bytes of a file.
    pub fn fetches(&self, path: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        let ending = format!("/bytes/{path}");
        seen.retain(|request| request.target.ends_with(&ending));
        seen
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.hub)
    }

    pub fn config(&self) -> HubConfig {
        HubConfig {
            endpoint: self.endpoint(),
            token: Secret::new(TOKEN),
            proxy: ProxyChoice::Direct,
            stall_timeout: Duration::from_secs(60),
        }
    }

    pub fn hub(&self) -> Hub {
        Hub::new(self.config()).unwrap()
    }
}

impl State {
    fn file(&self, path: &str) -> Option<&ServedFile> {
        self.files.iter().find(|(name, _)| name == path).map(|(_, file)| file)
    }

    fn replace(&mut self, path: &str, content: &[u8]) {
        for (_, file) in self.files.iter_mut().filter(|(name, _)| name == path) {
            file.content = content.to_vec();
        }
    }

    /// The next fault of a file, if it is one of the hub's (or of the bytes').
    fn next_fault(&mut self, path: &str, of_the_hub: bool) -> Fault {
        let queue = self.faults.entry(path.to_string()).or_default();
        match queue.front().or(self.always.get(path)) {
            Some(fault) if fault.is_of_the_hub() == of_the_hub => {
                let fault = fault.clone();
                queue.pop_front();
                fault
            }
            _ => Fault::Sound,
        }
    }

    fn listing(&self) -> Value {
        let siblings: Vec<Value> = self
            .files
            .iter()
            .map(|(path, file)| {
                let mut entry =
                    json!({ "rfilename": path, "size": file.content.len(), "blobId": git_sha1(&file.content) });
                if file.is_large {
                    entry["lfs"] =
                        json!({ "sha256": file.etag(), "size": file.content.len(), "pointerSize": 134 });
                }
                entry
            })
            .collect();
        json!({
            "id": REPO, "sha": COMMIT, "gated": false, "pipeline_tag": "text-generation",
            "cardData": { "license": "mit" }, "siblings": siblings,
        })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn serve(&self, mut stream: TcpStream, is_cdn: bool) -> std::io::Result<()> {
        let Some(request) = read_request(&mut stream, is_cdn).await? else { return Ok(()) };
        self.state().seen.push(request.clone());
        // A proxy gets the whole address.
        let target = request
            .target
            .strip_prefix("http://")
            .map_or(request.target.as_str(), |rest| rest.find('/').map_or("/", |start| &rest[start..]));
        let path = target.split('?').next().unwrap_or(target);
        let resolve = format!("/{REPO}/resolve/{COMMIT}/");
        let answer = self.state().answers.get(path).cloned();
        if let Some(answer) = answer {
            let headers: Vec<_> =
                answer.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            return respond(&mut stream, answer.status, &headers, answer.body.as_bytes()).await;
        }
        if path.starts_with(&format!("/api/models/{REPO}/revision/")) {
            let body = self.state().listing().to_string();
            return respond(&mut stream, 200, &[], body.as_bytes()).await;
        }
        if let Some(file) = path.strip_prefix(&resolve) {
            return self.resolve(&mut stream, file).await;
        }
        if let Some(file) = path.strip_prefix("/bytes/") {
            return self.send_bytes(&mut stream, file, &request).await;
        }
        respond(&mut stream, 404, &[("x-error-code", "RepoNotFound".to_string())], b"").await
    }

    /// As the hub does: large files lie elsewhere, small ones a relative redirect away.
    async fn resolve(&self, stream: &mut TcpStream, path: &str) -> std::io::Result<()> {
        let fault = self.state().next_fault(path, true);
        match fault {
            Fault::Status(status, headers) => {
                let headers: Vec<_> = headers.iter().map(|(a, b)| (*a, b.to_string())).collect();
                return respond(stream, status, &headers, b"").await;
            }
            Fault::Redirect(location) => {
                return respond(stream, 302, &[("location", location.to_string())], b"").await;
            }
            _ => {}
        }
        let Some(file) = self.state().file(path).cloned() else {
            return respond(stream, 404, &[("x-error-code", "EntryNotFound".to_string())], b"").await;
        };
        let commit = ("x-repo-commit", COMMIT.to_string());
        let etag = format!("\"{}\"", file.etag());
        if file.is_large {
            let headers = [
                ("location", format!("http://{}/bytes/{path}", self.cdn)),
                ("x-linked-etag", etag),
                ("x-linked-size", file.content.len().to_string()),
                commit,
            ];
            respond(stream, 302, &headers, b"").await
        } else {
            let headers = [("location", format!("/bytes/{path}")), ("etag", etag), commit];
            respond(stream, 307, &headers, b"").await
        }
    }

    async fn send_bytes(&self, stream: &mut TcpStream, path: &str, request: &Seen) -> std::io::Result<()> {
        let Some(file) = self.state().file(path).cloned() else {
            return respond(stream, 404, &[], b"").await;
        };
        let fault = self.state().next_fault(path, false);
        let etag = format!("\"{}\"", file.etag());
        let is_same = request.header("if-range").is_none_or(|wanted| wanted == etag);
        let start = request
            .header("range")
            .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
        let start = start.filter(|_| is_same && !matches!(fault, Fault::IgnoreRange));
        let total = file.content.len();
        if start.is_some_and(|start: usize| start >= total) {
            return respond(stream, 416, &[("content-range", format!("bytes */{total}"))], b"").await;
        }
        let start = start
            .map(|start| if matches!(fault, Fault::OtherRange) { start.min(total - 8) + 7 } else { start });
        let mut body = file.content[start.unwrap_or(0)..].to_vec();
        let mut headers = vec![("etag", etag), ("x-repo-commit", COMMIT.to_string())];
        let status = match start {
            Some(start) => {
                headers.push(("content-range", format!("bytes {start}-{}/{total}", total - 1)));
                206
            }
            None => 200,
        };
        if let Fault::Short(bytes) = fault {
            body.truncate(bytes);
        }
        write_head(stream, status, &headers, body.len()).await?;
        if request.method == "HEAD" {
            return Ok(());
        }
        match fault {
            Fault::Cut(bytes) => return self.send_body(stream, &body[..bytes.min(body.len())]).await,
            Fault::CutAndReplace(bytes, content) => {
                self.send_body(stream, &body[..bytes.min(body.len())]).await?;
                self.state().replace(path, &content);
                return Ok(());
            }
            Fault::Stall(bytes) => {
                self.send_body(stream, &body[..bytes.min(body.len())]).await?;
                return wait_for_close(stream).await;
            }
            Fault::Hold(bytes) => {
                let (first, rest) = body.split_at(bytes.min(body.len()));
                self.send_body(stream, first).await?;
                self.released.notified().await;
                return self.send_body(stream, rest).await;
            }
            Fault::Corrupt(at) => {
                let at = at % body.len();
                body[at] ^= 0x40;
            }
            _ => {}
        }
        self.send_body(stream, &body).await
    }

    /// Sends as much as the budget allows; stalls when it is spent.
    async fn send_body(&self, stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
        for chunk in body.chunks(4096) {
            let allowed = {
                let mut state = self.state();
                let allowed = state.budget.map_or(chunk.len(), |budget| budget.min(chunk.len()));
                state.budget = state.budget.map(|budget| budget - allowed);
                if allowed < chunk.len() {
                    state.spent.notify_one();
                }
                allowed
            };
            stream.write_all(&chunk[..allowed]).await?;
            if allowed < chunk.len() {
                return wait_for_close(stream).await;
            }
        }
        stream.flush().await
    }
}

async fn wait_for_close(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

async fn read_request(stream: &mut TcpStream, is_cdn: bool) -> std::io::Result<Option<Seen>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
        if !head[0].is_ascii_alphabetic() {
            // A client that begins to encrypt is told off, as web servers do.
            respond(stream, 400, &[], b"").await?;
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_string);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_string()))
        .collect();
    Ok(Some(Seen { is_cdn, method, target, headers }))
}

async fn write_head(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    length: usize,
) -> std::io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {length}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await
}

async fn respond(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
) -> std::io::Result<()> {
    write_head(stream, status, headers, body.len()).await?;
    stream.write_all(body).await?;
    stream.flush().await
}
