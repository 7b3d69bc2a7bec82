//! Being a server, for programs of this computer.
//!
//! Listens on loopback only, wants a key with every request for models or answers, and takes no request that a web
//! page could have sent: see [`guard`]. What answers is an [`Answerer`]; dropping its stream of events is a client
//! that went away.

mod asked;
mod body;
mod guard;
mod refusal;
mod routes;
mod shapes;

use std::{
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, watch},
    task::JoinSet,
};

pub use asked::{Asked, AskedMessage, AskedRole, JsonOutput};
pub use refusal::Refusal;

use crate::{Secret, response::Usage};

/// Connections at a time; more wait.
const CONNECTIONS_MAX: usize = 128;
/// Wait for the head of a request, and for the next one on a connection.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Wait for answers to end when the server stops.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Pause after the system gave no connection, for example because there are too many files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A model that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedModel {
    /// What requests call it.
    pub id: String,
    /// Context window.
    pub context_tokens: Option<u32>,
}

/// An answer under way.
#[derive(Debug)]
pub struct Answer {
    /// Names it towards the client.
    pub id: String,
    /// What the model that answers is called.
    pub model: String,
    /// What it says; the last event is [`AnswerEvent::Finished`] or [`AnswerEvent::Failed`]. Dropped when the client is
    /// gone.
    pub events: mpsc::Receiver<AnswerEvent>,
}

/// Something that an answer says.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerEvent {
    /// More of it.
    More {
        /// Appended to the thinking.
        thinking: String,
        /// Appended to the answer.
        text: String,
        /// Of the tokens that came, when asked for.
        logprobs: Vec<TokenLogprob>,
    },
    /// The end.
    Finished {
        /// Why.
        reason: AnswerEnd,
        /// Counts of tokens.
        usage: Usage,
    },
    /// The end of one that failed.
    Failed(Refusal),
}

/// Why an answer ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The model ended its turn, or a stop sequence appeared.
    Stop,
    /// The limit of tokens, or the context window.
    Length,
}

/// A token and how likely it was.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// Its text.
    pub text: String,
    /// Its bytes, which may be half a character.
    pub bytes: Vec<u8>,
    /// Its log-probability; `None` for negative infinity.
    pub logprob: Option<f32>,
    /// The likeliest tokens in its place; none have alternatives of their own.
    pub alternatives: Vec<TokenLogprob>,
}

/// What answers requests.
pub trait Answerer: Send + Sync + 'static {
    /// Models that can answer now.
    fn models(&self) -> Vec<ServedModel>;

    /// Starts an answer. Returns once it is certain that the request can be answered.
    fn answer(&self, asked: Asked) -> impl Future<Output = Result<Answer, Refusal>> + Send;
}

/// Places on loopback where a server can listen.
#[derive(Debug)]
pub struct Listeners(Vec<TcpListener>);

impl Listeners {
    /// Takes a port on 127.0.0.1, and on ::1 if the computer has it. Port 0 takes any.
    ///
    /// # Errors
    /// The system's, for example that another program has the port.
    pub async fn bind(port: u16) -> io::Result<Self> {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = first.local_addr()?.port();
        let mut listeners = vec![first];
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
            Ok(second) => listeners.push(second),
            // Programs that say "localhost" would reach whoever has it.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            Err(_) => {}
        }
        Ok(Self(listeners))
    }

    /// The first place.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.first().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?.local_addr()
    }
}

/// What every connection reaches.
pub(crate) struct Shared<A> {
    answerer: A,
    key: RwLock<Secret>,
}

impl<A> Shared<A> {
    fn is_key(&self, given: &str) -> bool {
        let key = self.key.read().unwrap_or_else(PoisonError::into_inner);
        guard::is_equal(key.expose(), given)
    }
}

/// A running server.
pub struct Server {
    stop: watch::Sender<bool>,
    set_key: Box<dyn Fn(Secret) + Send + Sync>,
    accepting: JoinSet<()>,
}

impl Server {
    /// Begins to serve.
    pub fn start<A: Answerer>(listeners: Listeners, key: Secret, answerer: A) -> Self {
        let shared = Arc::new(Shared { answerer, key: RwLock::new(key) });
        let (stop, stopped) = watch::channel(false);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut accepting = JoinSet::new();
        for listener in listeners.0 {
            accepting.spawn(accept(listener, shared.clone(), permits.clone(), stopped.clone()));
        }
        let set_key = Box::new(move |key| {
            *shared.key.write().unwrap_or_else(PoisonError::into_inner) = key;
        });
        Self { stop, set_key, accepting }
    }

    /// Takes another key from now on, and the one before no longer.
    pub fn set_key(&self, key: Secret) {
        (self.set_key)(key);
    }

    /// Takes no more requests, gives answers under way a moment to end, then drops them.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.accepting.join_next().await.is_some() {}
    }
}

async fn accept<A: Answerer>(
    listener: TcpListener,
    shared: Arc<Shared<A>>,
    permits: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let is_stopped = stopped.clone();
    let serve = async {
        loop {
            // Never closed.
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            let (shared, stopped) = (shared.clone(), is_stopped.clone());
            connections.spawn(async move {
                serve_connection(stream, shared, stopped).await;
                drop(permit);
            });
        }
    };
    tokio::select! {
        () = serve => {}
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    // What has not ended by then is dropped with the set.
    let _ = tokio::time::timeout(STOP_LIMIT, ended).await;
}

async fn serve_connection<A: Answerer>(
    stream: TcpStream,
    shared: Arc<Shared<A>>,
    mut stopped: watch::Receiver<bool>,
) {
    // Pieces of an answer are small and must not wait for each other.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, std::convert::Infallible>(routes::respond(&*shared, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // A client that broke off has nobody left to tell.
        _ = connection.as_mut() => return,
        _ = stopped.wait_for(|is_stopped| *is_stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
