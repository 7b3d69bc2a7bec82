//! An answer of a server: from the request to the server's last word.

use std::time::{Duration, Instant};

use engine::event::TextPart;
use protocol::{FinishReason, Receipt, RemoteTarget, SamplingSettings, StreamEventBody};
use tokio::sync::mpsc;

use super::answering::{Answering, Ending};
use crate::{
    convert::{answer, milliseconds, rounded},
    error::AppError,
    remote::{RemoteEvent, Usage},
    state::AppState,
    stream::frame_interval,
};

impl Answering {
    /// Lets a server answer. Dropping its receiver, which every return does, ends the connection.
    pub(super) async fn answer_there(&mut self, state: &AppState, target: RemoteTarget) -> Ending {
        self.send([StreamEventBody::Queued { ahead: 0 }]);
        let (messages, settings) = (self.asked.messages.clone(), self.asked.settings.clone());
        let mut receiver = state.remotes.stream(target, messages, settings);
        let mut heard = Heard::new(self.asked.arrived_at);
        let interval = frame_interval(None);
        loop {
            let first = tokio::select! {
                // Else a server that never pauses could not be stopped.
                biased;
                _ = self.ticket.stopped() => return self.cut_off(&heard),
                event = receiver.recv() => event,
            };
            let sent_at = tokio::time::Instant::now();
            let (said, end) = gather(first, &mut receiver);
            let mut bodies = Vec::with_capacity(said.len());
            for (part, delta, pieces) in said {
                heard.note(part, pieces);
                let (answer_tokens, thinking_tokens) = (heard.answer_pieces, heard.thinking_pieces);
                self.write(part, &delta, answer_tokens, thinking_tokens);
                let part = answer::text_part(part);
                bodies.push(StreamEventBody::Text { part, delta, answer_tokens, thinking_tokens });
            }
            self.send(bodies);
            self.check_saved();
            match end {
                Some(End::Finished(reason, usage)) => {
                    let receipt = heard.receipt(usage, &self.asked.settings);
                    return match self.take_failure() {
                        Some(error) => Ending::Failed(error, receipt),
                        None => Ending::Finished(reason, receipt),
                    };
                }
                Some(End::Failed(error)) => {
                    let receipt = heard.receipt(None, &self.asked.settings);
                    return Ending::Failed(self.take_failure().unwrap_or(error), receipt);
                }
                None => tokio::time::sleep_until(sent_at + interval).await,
            }
        }
    }

    fn cut_off(&mut self, heard: &Heard) -> Ending {
        let receipt = heard.receipt(None, &self.asked.settings);
        match self.take_failure() {
            Some(error) => Ending::Failed(error, receipt),
            None => Ending::Finished(answer::cancelled(self.ticket.stop_cause()), receipt),
        }
    }
}

/// How the events of a server ended.
enum End {
    Finished(FinishReason, Option<Usage>),
    Failed(AppError),
}

/// Texts in order, neighbours of one part joined, each with the number of pieces it came in.
type Said = Vec<(TextPart, String, u32)>;

/// Everything that a server has said by now.
fn gather(first: Option<RemoteEvent>, receiver: &mut mpsc::Receiver<RemoteEvent>) -> (Said, Option<End>) {
    let mut said = Said::new();
    // A task that ends without a last event has panicked.
    let mut next = first.or(Some(RemoteEvent::Failed(AppError::TaskPanicked)));
    while let Some(event) = next {
        let (part, delta) = match event {
            RemoteEvent::Thinking(delta) => (TextPart::Thinking, delta),
            RemoteEvent::Text(delta) => (TextPart::Answer, delta),
            RemoteEvent::Finished { reason, usage } => return (said, Some(End::Finished(reason, usage))),
            RemoteEvent::Failed(error) => return (said, Some(End::Failed(error))),
        };
        match said.last_mut() {
            Some((latest, text, pieces)) if *latest == part => {
                text.push_str(&delta);
                *pieces += 1;
            }
            _ => said.push((part, delta, 1)),
        }
        next = receiver.try_recv().ok();
    }
    (said, None)
}

/// What was measured of a server's answer, on this side of the network.
struct Heard {
    arrived_at: Instant,
    first: Option<Instant>,
    latest: Option<Instant>,
    /// Texts received: most servers send one a token.
    answer_pieces: u32,
    thinking_pieces: u32,
}

impl Heard {
    fn new(arrived_at: Instant) -> Self {
        Self { arrived_at, first: None, latest: None, answer_pieces: 0, thinking_pieces: 0 }
    }

    fn note(&mut self, part: TextPart, pieces: u32) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.latest = Some(now);
        match part {
            TextPart::Answer => self.answer_pieces += pieces,
            TextPart::Thinking => self.thinking_pieces += pieces,
        }
    }

    fn receipt(&self, usage: Option<Usage>, settings: &SamplingSettings) -> Receipt {
        let (answer_tokens, thinking_tokens) = self.tokens(usage);
        let decode_time = match (self.first, self.latest) {
            (Some(first), Some(latest)) => latest - first,
            _ => Duration::ZERO,
        };
        let gaps = (answer_tokens + thinking_tokens).saturating_sub(1);
        let is_measured = gaps > 0 && !decode_time.is_zero();
        let ttft = self.first.map(|first| first - self.arrived_at);
        Receipt {
            ttft_ms: ttft.map(milliseconds),
            decode_tok_s: is_measured.then(|| rounded(f64::from(gaps) / decode_time.as_secs_f64())),
            prompt_tokens: usage.map_or(0, |usage| usage.prompt_tokens),
            cached_tokens: usage.map_or(0, |usage| usage.prompt_tokens_details.cached_tokens),
            answer_tokens,
            thinking_tokens,
            ..answer::empty_receipt(&sent(settings))
        }
    }

    /// Tokens of answer and thinking: what the server counted, else the pieces they came in.
    fn tokens(&self, usage: Option<Usage>) -> (u32, u32) {
        let Some(usage) = usage.filter(|usage| usage.completion_tokens > 0) else {
            return (self.answer_pieces, self.thinking_pieces);
        };
        let counted = usage.completion_tokens_details.reasoning_tokens;
        let thinking = if counted > 0 { counted } else { self.thinking_pieces };
        let thinking = thinking.min(usage.completion_tokens);
        (usage.completion_tokens - thinking, thinking)
    }
}

/// The settings as a server gets them: without those that only the local engine has.
fn sent(settings: &SamplingSettings) -> SamplingSettings {
    SamplingSettings { logprobs: None, wants_bias_trace: false, thinking_budget: None, ..settings.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling_settings::defaults;

    fn heard(answer_pieces: u32, thinking_pieces: u32, decode_ms: u64) -> Heard {
        let arrived_at = Instant::now();
        let at = |ms| Some(arrived_at + Duration::from_millis(ms));
        Heard { arrived_at, first: at(40), latest: at(40 + decode_ms), answer_pieces, thinking_pieces }
    }

    #[test]
    fn a_receipt_has_the_servers_counts_and_the_apps_clock() {
        let mut usage = Usage { prompt_tokens: 12, completion_tokens: 21, ..Usage::default() };
        let receipt = heard(10, 3, 1_000).receipt(Some(usage), &defaults());
        assert_eq!((receipt.ttft_ms, receipt.decode_tok_s), (Some(40.0), Some(20.0)));
        assert_eq!((receipt.prompt_tokens, receipt.answer_tokens, receipt.thinking_tokens), (12, 18, 3));
        assert_eq!((receipt.fused_steps, receipt.per_row_steps, receipt.itl_ms_p50), (0, 0, None));
        usage.completion_tokens_details.reasoning_tokens = 6;
        let receipt = heard(10, 3, 1_000).receipt(Some(usage), &defaults());
        assert_eq!((receipt.answer_tokens, receipt.thinking_tokens), (15, 6));
    }

    #[test]
    fn without_the_servers_counts_pieces_stand_for_tokens() {
        let receipt = heard(9, 2, 500).receipt(None, &defaults());
        assert_eq!((receipt.answer_tokens, receipt.thinking_tokens), (9, 2));
        assert_eq!(receipt.decode_tok_s, Some(20.0));
        let whole = heard(1, 0, 0).receipt(None, &defaults());
        assert_eq!(whole.decode_tok_s, None, "one piece has no speed");
        let nothing = Heard::new(Instant::now()).receipt(None, &defaults());
        assert_eq!((nothing.ttft_ms, nothing.answer_tokens), (None, 0));
    }

    #[test]
    fn settings_that_no_server_was_asked_for_are_not_in_the_receipt() {
        let asked = SamplingSettings {
            logprobs: Some(5),
            wants_bias_trace: true,
            thinking_budget: Some(100),
            top_k: 7,
            ..defaults()
        };
        let settings = heard(1, 0, 0).receipt(None, &asked).settings;
        assert_eq!(settings, SamplingSettings { top_k: 7, ..defaults() });
    }
}
