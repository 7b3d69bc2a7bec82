//! Batches the text deltas of one streaming answer into few writes, never more than a second behind.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::{AnswerEnd, AnswerPiece, FinishState, History, HistoryError, MessageId};

/// Longest time a delta waits for its flush to begin; also the pause before a failed flush is tried again.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(500);

/// Writes one streaming answer in the background.
///
/// A delta is on its way to the file at most [`FLUSH_INTERVAL`] after [`push`](Self::push), also if no other follows.
/// Text whose flush failed is kept and tried again, so a full disk costs nothing once there is space. Dropping the
/// writer without [`finish`](Self::finish) flushes and marks the answer interrupted, as far as the runtime still runs.
#[derive(Debug)]
pub struct AnswerWriter {
    commands: mpsc::UnboundedSender<Command>,
    failure: FailureSlot,
}

/// The newest failure of a background flush that nobody has been told of yet.
type FailureSlot = Arc<Mutex<Option<HistoryError>>>;

#[derive(Debug)]
enum Command {
    Push(AnswerPiece),
    Flush { reply: oneshot::Sender<Result<(), HistoryError>> },
    Finish { end: AnswerEnd, reply: oneshot::Sender<Result<(), HistoryError>> },
}

impl AnswerWriter {
    /// Starts a writer for an answer that is streaming.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn(history: &History, answer: MessageId) -> Self {
        Self::spawn_on(HistorySink { history: history.clone(), answer })
    }

    fn spawn_on(sink: impl Sink) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let failure = FailureSlot::default();
        tokio::spawn(Flusher { sink, failure: failure.clone(), pending: Pending::default() }.run(inbox));
        Self { commands, failure }
    }

    /// Takes the next text of the answer; never waits. `output_tokens`: tokens of the whole answer up to here.
    ///
    /// # Errors
    /// As [`AnswerWriter::push_piece`].
    pub fn push(&self, delta: &str, output_tokens: u32) -> Result<(), HistoryError> {
        self.push_piece(AnswerPiece { text: delta.to_owned(), output_tokens, ..AnswerPiece::default() })
    }

    /// Takes what comes next; never waits.
    ///
    /// # Errors
    /// The failure of an earlier flush, reported once. The piece is taken all the same; if
    /// [`HistoryError::is_transient`], all text so far will be tried again, otherwise the answer can no longer be
    /// written and text is discarded.
    pub fn push_piece(&self, piece: AnswerPiece) -> Result<(), HistoryError> {
        self.commands.send(Command::Push(piece)).map_err(|_| HistoryError::WriterStopped)?;
        self.take_failure().map_or(Ok(()), Err)
    }

    /// Takes the failure of an earlier flush, if there is an unreported one.
    pub fn take_failure(&self) -> Option<HistoryError> {
        self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Writes everything pushed so far now.
    ///
    /// # Errors
    /// As [`History::append_answer_piece`]. The text is kept for another try.
    pub async fn flush(&self) -> Result<(), HistoryError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Flush { reply }, answer).await
    }

    /// Writes what is left and ends the answer, in one transaction.
    ///
    /// # Errors
    /// As [`History::finish_answer`]. After a transient failure nothing is lost: call it again.
    pub async fn finish(&self, end: AnswerEnd) -> Result<(), HistoryError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::Finish { end, reply }, answer).await
    }

    async fn ask(
        &self,
        command: Command,
        answer: oneshot::Receiver<Result<(), HistoryError>>,
    ) -> Result<(), HistoryError> {
        self.commands.send(command).map_err(|_| HistoryError::WriterStopped)?;
        answer.await.map_err(|_| HistoryError::WriterStopped)?
    }
}

/// Where flushes go: the history, or a recorder in tests of the timing.
trait Sink: Send + 'static {
    fn append(&self, piece: &AnswerPiece) -> impl Future<Output = Result<(), HistoryError>> + Send;

    fn finish(
        &self,
        tail: &AnswerPiece,
        end: &AnswerEnd,
    ) -> impl Future<Output = Result<(), HistoryError>> + Send;
}

struct HistorySink {
    history: History,
    answer: MessageId,
}

impl Sink for HistorySink {
    async fn append(&self, piece: &AnswerPiece) -> Result<(), HistoryError> {
        self.history.append_answer_piece(self.answer, piece).await
    }

    async fn finish(&self, tail: &AnswerPiece, end: &AnswerEnd) -> Result<(), HistoryError> {
        self.history.finish_answer_with(self.answer, tail, end).await
    }
}

/// Text pushed and not yet written.
#[derive(Default)]
struct Pending {
    piece: AnswerPiece,
    /// When it must be flushed; `None` if there is nothing to flush.
    due: Option<Instant>,
}

struct Flusher<S> {
    sink: S,
    failure: FailureSlot,
    pending: Pending,
}

impl<S: Sink> Flusher<S> {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut is_finished = false;
        loop {
            let command = tokio::select! {
                command = inbox.recv() => command,
                () = until(self.pending.due) => {
                    if let Err(error) = self.flush().await {
                        self.report(error);
                    }
                    continue;
                }
            };
            match command {
                Some(Command::Push(piece)) => self.take(&piece),
                Some(Command::Flush { reply }) => drop(reply.send(self.flush().await)),
                Some(Command::Finish { end, reply }) => {
                    let result = self.finish(&end).await;
                    is_finished |= result.is_ok();
                    drop(reply.send(result));
                }
                None => break,
            }
        }
        if !is_finished {
            self.finish_dropped().await;
        }
    }

    fn take(&mut self, piece: &AnswerPiece) {
        self.pending.piece.extend(piece);
        self.pending.due.get_or_insert_with(|| Instant::now() + FLUSH_INTERVAL);
    }

    async fn flush(&mut self) -> Result<(), HistoryError> {
        if self.pending.due.is_none() {
            return Ok(());
        }
        let result = self.sink.append(&self.pending.piece).await;
        self.settle(&result);
        result
    }

    async fn finish(&mut self, end: &AnswerEnd) -> Result<(), HistoryError> {
        let result = self.sink.finish(&self.pending.piece, end).await;
        self.settle(&result);
        result
    }

    /// Forgets pending text that is written or can never be; otherwise waits before the next try.
    fn settle(&mut self, result: &Result<(), HistoryError>) {
        match result {
            Err(error) if error.is_transient() => {
                if self.pending.due.is_some() {
                    self.pending.due = Some(Instant::now() + FLUSH_INTERVAL);
                }
            }
            Err(HistoryError::InvalidJson { .. }) => {}
            Ok(()) | Err(_) => {
                self.pending.piece.clear();
                self.pending.due = None;
            }
        }
    }

    fn report(&self, error: HistoryError) {
        *self.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
    }

    async fn finish_dropped(&mut self) {
        let end = AnswerEnd {
            state: FinishState::Interrupted,
            finish_reason: None,
            receipt_json: None,
            error_code: None,
            token_details_json: None,
        };
        match self.finish(&end).await {
            // The answer was finished or purged by another hand: nothing of it is lost here.
            Ok(()) | Err(HistoryError::AnswerNotStreaming { .. } | HistoryError::MessageNotFound(_)) => {}
            Err(error) => tracing::warn!(%error, "an abandoned answer could not be saved to its end"),
        }
    }
}

/// Waits until `due`, or for ever.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records each write with its time since the start; fails while `failures` lasts.
    #[derive(Clone)]
    struct Recorder {
        start: Instant,
        writes: Arc<Mutex<Vec<(Duration, String)>>>,
        failures: Arc<Mutex<u32>>,
    }

    impl Recorder {
        fn failing(failures: u32) -> Self {
            Self { start: Instant::now(), writes: Arc::default(), failures: Arc::new(Mutex::new(failures)) }
        }

        fn write(&self, text: &str) -> Result<(), HistoryError> {
            let mut failures = self.failures.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(HistoryError::DiskFull);
            }
            self.writes.lock().unwrap().push((self.start.elapsed(), text.to_owned()));
            Ok(())
        }

        fn written(&self) -> Vec<(Duration, String)> {
            self.writes.lock().unwrap().clone()
        }
    }

    impl Sink for Recorder {
        async fn append(&self, piece: &AnswerPiece) -> Result<(), HistoryError> {
            self.write(&piece.text)
        }

        async fn finish(&self, tail: &AnswerPiece, end: &AnswerEnd) -> Result<(), HistoryError> {
            self.write(&format!("{}|{}|{:?}", tail.text, tail.output_tokens, end.state))
        }
    }

    const ALMOST: Duration = Duration::from_millis(499);
    const STEP: Duration = Duration::from_millis(1);

    fn complete() -> AnswerEnd {
        AnswerEnd {
            state: FinishState::Complete,
            finish_reason: None,
            receipt_json: None,
            error_code: None,
            token_details_json: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deltas_of_one_interval_are_one_write_and_later_deltas_do_not_delay_it() {
        let recorder = Recorder::failing(0);
        let writer = AnswerWriter::spawn_on(recorder.clone());
        for _ in 0..100 {
            writer.push("a", 1).unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        writer.finish(complete()).await.unwrap();
        let written = recorder.written();
        // An interval starts with the first delta after a flush: at 0, then at 500 (or 510) ms.
        assert_eq!(written[0].0, FLUSH_INTERVAL);
        assert!(written.len() <= 3, "{written:?}");
        let letters: usize = written.iter().map(|(_, text)| text.matches('a').count()).sum();
        assert_eq!(letters, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_delta_is_written_after_the_interval_and_finish_writes_the_rest_at_once() {
        let recorder = Recorder::failing(0);
        let writer = AnswerWriter::spawn_on(recorder.clone());
        writer.push("lone", 1).unwrap();
        tokio::time::sleep(ALMOST).await;
        assert!(recorder.written().is_empty());
        tokio::time::sleep(STEP * 2).await;
        assert_eq!(recorder.written(), [(FLUSH_INTERVAL, "lone".to_owned())]);
        writer.push(" rest", 2).unwrap();
        writer.finish(complete()).await.unwrap();
        assert_eq!(recorder.written()[1], (FLUSH_INTERVAL + STEP, " rest|2|Complete".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_flush_is_reported_once_and_its_text_is_written_later() {
        let recorder = Recorder::failing(2);
        let writer = AnswerWriter::spawn_on(recorder.clone());
        writer.push("first", 1).unwrap();
        tokio::time::sleep(FLUSH_INTERVAL + STEP).await;
        let reported = writer.push(" second", 2);
        assert!(matches!(reported, Err(HistoryError::DiskFull)), "{reported:?}");
        writer.push(" third", 3).unwrap();
        let finished = writer.finish(complete()).await;
        assert!(matches!(finished, Err(HistoryError::DiskFull)), "{finished:?}");
        writer.finish(complete()).await.unwrap();
        assert_eq!(recorder.written()[0].1, "first second third|3|Complete");
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_writer_flushes_and_marks_interrupted() {
        let recorder = Recorder::failing(0);
        let writer = AnswerWriter::spawn_on(recorder.clone());
        writer.push("half", 1).unwrap();
        drop(writer);
        tokio::time::sleep(STEP).await;
        assert_eq!(recorder.written()[0].1, "half|1|Interrupted");
    }
}
