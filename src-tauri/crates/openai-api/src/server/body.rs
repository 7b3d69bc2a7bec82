//! A streamed answer as the body of a response.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{Interval, MissedTickBehavior, interval_at},
};

use super::{AnswerEvent, Refusal, shapes};
use shapes::Head;

/// Pause after which a comment says that the server is still there, while a long prompt is read.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// The body of a response: whole, or events as they come. Dropped when the client goes away.
pub(super) enum AnswerBody {
    Whole(Option<Bytes>),
    Events(Box<EventBody>),
}

impl AnswerBody {
    pub fn of_json(value: &Value) -> Self {
        Self::Whole(Some(value.to_string().into()))
    }
}

/// Events of an answer, encoded as they come.
pub(super) struct EventBody {
    head: Head,
    has_usage: bool,
    events: mpsc::Receiver<AnswerEvent>,
    ready: VecDeque<Bytes>,
    sign_of_life: Interval,
    is_over: bool,
}

impl EventBody {
    pub fn new(head: Head, has_usage: bool, events: mpsc::Receiver<AnswerEvent>) -> Self {
        let mut sign_of_life = interval_at(tokio::time::Instant::now() + SIGN_OF_LIFE, SIGN_OF_LIFE);
        sign_of_life.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut body = Self { head, has_usage, events, ready: VecDeque::new(), sign_of_life, is_over: false };
        body.push_delta(json!({ "role": "assistant", "content": "" }));
        body
    }

    fn push_delta(&mut self, delta: Value) {
        self.push_choice(shapes::delta(delta, &[], None));
    }

    fn push_choice(&mut self, choice: Value) {
        // The convention: every piece has the field if the last one is to fill it.
        let usage = self.has_usage.then_some(Value::Null);
        let chunk = shapes::chunk(&self.head, Some(choice), usage);
        self.push_data(&chunk);
    }

    fn push_data(&mut self, value: &Value) {
        self.ready.push_back(format!("data: {value}\n\n").into());
    }

    fn take(&mut self, event: AnswerEvent) {
        match event {
            AnswerEvent::More { thinking, text, logprobs } => {
                self.push_choice(shapes::delta(shapes::added(&thinking, &text), &logprobs, None));
            }
            AnswerEvent::Finished { reason, usage } => {
                self.push_choice(shapes::delta(json!({}), &[], Some(reason)));
                if self.has_usage {
                    let chunk = shapes::chunk(&self.head, None, Some(json!(usage)));
                    self.push_data(&chunk);
                }
                self.end();
            }
            AnswerEvent::Failed(refusal) => {
                self.push_data(&refusal.body());
                self.end();
            }
        }
    }

    fn end(&mut self) {
        self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        self.is_over = true;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(bytes));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match self.events.poll_recv(context) {
                Poll::Ready(Some(event)) => self.take(event),
                Poll::Ready(None) => {
                    self.take(AnswerEvent::Failed(Refusal::failed("the answer broke off")));
                }
                Poll::Pending => match self.sign_of_life.poll_tick(context) {
                    Poll::Ready(_) => self.ready.push_back(Bytes::from_static(b": still there\n\n")),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Events(events) => events.poll(context),
        };
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events(_) => hyper::body::SizeHint::default(),
        }
    }
}
