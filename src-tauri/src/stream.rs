//! Engine events -> frames for the UI's channel.
//!
//! A frame is one channel message: the events of at most [`frame_interval`], text merged, usually a few hundred bytes.
//! Numbers count up without gaps from 0 within a request, whatever the split into frames.

use std::{sync::Arc, time::Duration};

use protocol::{StreamEvent, StreamEventBody};

/// Least time between two frames of one request; the first one goes out at once. Where the model runs on the CPU,
/// frames are fewer: the window is drawn on the same cores, and every frame takes time from the tokens.
pub fn frame_interval(device: Option<&str>) -> Duration {
    let is_cpu = device.is_some_and(|device| device.starts_with("cpu"));
    Duration::from_millis(if is_cpu { 66 } else { 30 })
}

/// Text of one event at most, in bytes of JSON: with the rest of the event it stays below the 8,192 bytes that
/// the webview takes in one direct call.
const TEXT_JSON_BYTES: usize = 6_000;

/// Receiver of frames: the UI's channel, or a recorder in tests.
pub trait FrameSink: Send + Sync + 'static {
    /// Hands a frame over; never waits for the UI.
    ///
    /// # Errors
    /// [`SinkClosed`] once nobody can receive any more.
    fn send(&self, frame: Vec<StreamEvent>) -> Result<(), SinkClosed>;
}

/// A receiver of frames that several answers share.
pub type SharedSink = Arc<dyn FrameSink>;

/// The window that listened is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkClosed;

impl FrameSink for tauri::ipc::Channel<Vec<StreamEvent>> {
    fn send(&self, frame: Vec<StreamEvent>) -> Result<(), SinkClosed> {
        tauri::ipc::Channel::send(self, frame).map_err(|error| {
            tracing::debug!(%error, "a window no longer receives its answer");
            SinkClosed
        })
    }
}

/// Numbers the events of one request and splits them into frames.
pub struct Framer {
    request_id: String,
    next_sequence: u32,
}

impl Framer {
    /// Starts a request's stream.
    pub fn new(request_id: String) -> Self {
        Self { request_id, next_sequence: 0 }
    }

    /// Turns what happened since the last call into frames, usually one.
    pub fn frames(&mut self, bodies: impl IntoIterator<Item = StreamEventBody>) -> Vec<Vec<StreamEvent>> {
        let mut frames = vec![Vec::new()];
        let mut text_bytes = 0;
        for body in bodies.into_iter().flat_map(split_text) {
            let bytes = if let StreamEventBody::Text { delta, .. } = &body { json_bytes(delta) } else { 0 };
            if text_bytes + bytes > TEXT_JSON_BYTES {
                frames.push(Vec::new());
                text_bytes = 0;
            }
            text_bytes += bytes;
            let event = self.number(body);
            if let Some(frame) = frames.last_mut() {
                frame.push(event);
            }
        }
        frames.retain(|frame| !frame.is_empty());
        frames
    }

    fn number(&mut self, body: StreamEventBody) -> StreamEvent {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        StreamEvent { request_id: self.request_id.clone(), sequence, body }
    }
}

/// Splits a text event that is too long for one frame; others pass.
fn split_text(body: StreamEventBody) -> Vec<StreamEventBody> {
    let StreamEventBody::Text { part, delta, answer_tokens, thinking_tokens } = body else {
        return vec![body];
    };
    let event = |delta| StreamEventBody::Text { part, delta, answer_tokens, thinking_tokens };
    if json_bytes(&delta) <= TEXT_JSON_BYTES {
        return vec![event(delta)];
    }
    let mut pieces = vec![String::new()];
    let mut bytes = 0;
    for character in delta.chars() {
        let more = char_json_bytes(character);
        if bytes + more > TEXT_JSON_BYTES {
            pieces.push(String::new());
            bytes = 0;
        }
        bytes += more;
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
    }
    pieces.into_iter().map(event).collect()
}

fn json_bytes(text: &str) -> usize {
    text.chars().map(char_json_bytes).sum()
}

/// Bytes of a character in a JSON string, rounded up for control characters.
fn char_json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        control if control < ' ' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::TextPart;

    fn text(delta: &str) -> StreamEventBody {
        StreamEventBody::Text {
            part: TextPart::Answer,
            delta: delta.into(),
            answer_tokens: 1,
            thinking_tokens: 0,
        }
    }

    fn joined(frames: &[Vec<StreamEvent>]) -> String {
        let deltas = frames.iter().flatten().filter_map(|event| match &event.body {
            StreamEventBody::Text { delta, .. } => Some(delta.as_str()),
            _ => None,
        });
        deltas.collect()
    }

    #[test]
    fn numbers_count_up_without_gaps_across_frames() {
        let mut framer = Framer::new("r".into());
        let mut frames = framer.frames([StreamEventBody::Queued { ahead: 1 }, text("a")]);
        assert!(framer.frames([]).is_empty(), "nothing happened, nothing is sent");
        frames.extend(framer.frames([text("b"), text(&"c".repeat(20_000))]));
        let numbers: Vec<u32> = frames.iter().flatten().map(|event| event.sequence).collect();
        assert_eq!(numbers, (0..numbers.len() as u32).collect::<Vec<_>>());
        assert!(frames.iter().flatten().all(|event| event.request_id == "r"));
    }

    #[test]
    fn every_frame_stays_below_the_direct_limit_and_no_text_is_lost() {
        let samples = ["plain ", "\u{1}\u{2}\n", "\"\\", "漢字", "👩‍👩‍👧 ", "é"];
        for sample in samples {
            let long = sample.repeat(30_000 / sample.len());
            let frames = Framer::new("0".repeat(36)).frames([text("before"), text(&long), text("after")]);
            assert_eq!(joined(&frames), format!("before{long}after"));
            for frame in &frames {
                let bytes = serde_json::to_string(frame).expect("plain data").len();
                assert!(bytes < 8_192, "{bytes} bytes for {sample:?}");
            }
        }
    }

    #[test]
    fn ordinary_events_of_a_frame_travel_in_one_message() {
        let bodies = [StreamEventBody::Prefilling { done_tokens: 3, total_tokens: 3 }, text("Hello")];
        assert_eq!(Framer::new("r".into()).frames(bodies).len(), 1);
    }
}
