//! A server that says what a test wrote down, byte for byte.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// What the server does, in order.
#[derive(Clone)]
pub enum Act {
    /// Sends bytes.
    Say(Vec<u8>),
    /// Says nothing for ever, the connection open.
    Hang,
}

pub fn say(text: impl Into<Vec<u8>>) -> Act {
    Act::Say(text.into())
}

/// The head of a streamed answer whose end is the end of the connection.
pub const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// A whole response.
pub fn response(status: &str, headers: &str, body: &str) -> Act {
    let length = body.len();
    say(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"))
}

/// What one client did.
#[derive(Debug, PartialEq)]
pub enum Seen {
    /// A whole request, head and body.
    Request(String),
    /// The client closed the connection although the server had not.
    Gone,
}

/// A server on loopback; every connection gets the next script, the last one again and again.
pub struct Scripted {
    pub address: String,
    pub seen: mpsc::UnboundedReceiver<Seen>,
}

impl Scripted {
    pub async fn start(scripts: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (sender, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let scripts = Arc::new(scripts);
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let script = scripts[connection.min(scripts.len() - 1)].clone();
                tokio::spawn(perform(stream, script, sender.clone()));
            }
        });
        Self { address, seen }
    }

    pub async fn request(&mut self) -> String {
        match self.next().await {
            Seen::Request(request) => request,
            Seen::Gone => panic!("no request came"),
        }
    }

    pub async fn next(&mut self) -> Seen {
        let next = tokio::time::timeout(Duration::from_secs(10), self.seen.recv());
        next.await.expect("the client does something").expect("the server runs")
    }
}

async fn perform(mut stream: TcpStream, script: Vec<Act>, seen: mpsc::UnboundedSender<Seen>) {
    let request = read_request(&mut stream).await;
    // A test that looked enough is gone.
    let _ = seen.send(Seen::Request(request));
    for act in script {
        match act {
            Act::Say(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    let _ = seen.send(Seen::Gone);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Act::Hang => {
                let mut byte = [0];
                if matches!(stream.read(&mut byte).await, Ok(0) | Err(_)) {
                    let _ = seen.send(Seen::Gone);
                }
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text.into_owned();
            }
        }
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            _ => return String::from_utf8_lossy(&bytes).into_owned(),
        }
    }
}
