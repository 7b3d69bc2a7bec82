//! Rows before they decode: the queue, and prompts being read.
//!
//! A prompt that begins like one being read follows it: it reads nothing itself until it can take over what the two
//! have in common. Leaders come before their followers in the list, so no two ever wait for each other.

mod pacing;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{RequestId, TokenId, prefix_cache::usable_tokens, row::Row};
use pacing::{Pacer, Parked};

/// Later requests that may start before one that waits for memory.
const MAX_PASSES: u32 = 4;

/// What the engine does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Read this many more prompt tokens of a row.
    Prefill { id: RequestId, tokens: usize },
    /// One decode step of the batch.
    Decode,
    /// Nothing to do until a command arrives.
    Idle,
}

/// A row being read whose first `tokens` another row will take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) id: RequestId,
    pub(crate) tokens: usize,
}

#[derive(Debug)]
struct Waiting {
    row: Row,
    /// Later requests that started before it.
    passed: u32,
}

/// How a prompt being read began, or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Undecided,
    Follows(Leader),
    Decided,
}

#[derive(Debug)]
struct Reading {
    row: Row,
    beginning: Beginning,
}

impl Reading {
    fn leader(&self) -> Option<Leader> {
        match self.beginning {
            Beginning::Follows(leader) => Some(leader),
            Beginning::Undecided | Beginning::Decided => None,
        }
    }
}

/// Queue and prefill.
#[derive(Debug)]
pub(crate) struct Scheduler {
    queue: VecDeque<Waiting>,
    readings: Vec<Reading>,
    pacer: Pacer,
}

impl Scheduler {
    pub(crate) fn new(prefill_budget: Duration) -> Self {
        Self { queue: VecDeque::new(), readings: Vec::new(), pacer: Pacer::new(prefill_budget) }
    }

    pub(crate) fn enqueue(&mut self, row: Row) {
        self.queue.push_back(Waiting { row, passed: 0 });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.readings.is_empty()
    }

    /// Whether any prompt is being read, or is read and waits to join.
    pub(crate) fn is_reading(&self) -> bool {
        !self.readings.is_empty()
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = &Row> {
        self.queue.iter().map(|waiting| &waiting.row)
    }

    pub(crate) fn prefilling(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.readings.iter().map(|reading| &reading.row)
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        let queued = self.queue.iter_mut().map(|waiting| &mut waiting.row);
        queued.chain(self.readings.iter_mut().map(|reading| &mut reading.row))
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Row> {
        self.rows_mut().find(|row| row.id == id)
    }

    // The queue, by place.

    pub(crate) fn waiting(&self, place: usize) -> Option<&Row> {
        self.queue.get(place).map(|waiting| &waiting.row)
    }

    /// Whether another request may start before the one at `place`.
    pub(crate) fn may_be_passed(&self, place: usize) -> bool {
        self.queue[place].passed < MAX_PASSES
    }

    /// Starts the prefill of the request at `place`.
    pub(crate) fn start(&mut self, place: usize, now: Instant) -> RequestId {
        self.queue.iter_mut().take(place).for_each(|waiting| waiting.passed += 1);
        let mut row = self.take_waiting(place);
        let id = row.id;
        row.start_prefill(now);
        self.readings.push(Reading { row, beginning: Beginning::Undecided });
        id
    }

    pub(crate) fn take_waiting(&mut self, place: usize) -> Row {
        self.queue.remove(place).expect("the place is taken").row
    }

    /// Tells those who wait how many are ahead of them, if that changed.
    pub(crate) fn tell_ahead(&mut self) {
        self.queue.iter_mut().enumerate().for_each(|(ahead, waiting)| waiting.row.tell_ahead(ahead));
    }

    // Prompts being read, by place.

    /// A row whose beginning is not decided, among those being read. Rows that lost their leader are so again.
    pub(crate) fn next_undecided(&mut self) -> Option<RequestId> {
        for place in 0..self.readings.len() {
            let is_leader = |leader: Leader| self.readings[..place].iter().any(|r| r.row.id == leader.id);
            if self.readings[place].leader().is_some_and(|leader| !is_leader(leader)) {
                self.readings[place].beginning = Beginning::Undecided;
            }
        }
        let undecided = self.readings.iter().find(|reading| reading.beginning == Beginning::Undecided);
        undecided.map(|reading| reading.row.id)
    }

    /// The row being read, ahead of `id` or all of them, that `prompt` has most in common with.
    pub(crate) fn best_leader(&self, prompt: &[TokenId], id: Option<RequestId>) -> Option<Leader> {
        let ahead = self.readings.iter().map(|reading| &reading.row).take_while(|row| Some(row.id) != id);
        let leader = |row: &Row| {
            let given = row.given();
            Leader { id: row.id, tokens: usable_tokens(prompt, &given[..given.len() - 1]) }
        };
        ahead.map(leader).filter(|leader| leader.tokens > 0).max_by_key(|leader| leader.tokens)
    }

    /// Lets a row follow `leader`, or read from where it is.
    pub(crate) fn decide(&mut self, id: RequestId, leader: Option<Leader>) {
        let reading = self.readings.iter_mut().find(|reading| reading.row.id == id);
        let beginning = leader.map_or(Beginning::Decided, Beginning::Follows);
        reading.into_iter().for_each(|reading| reading.beginning = beginning);
    }

    /// Followers that can take over what they share with `leader`, and how many tokens that is.
    pub(crate) fn due_followers(&self, leader: &Row) -> Vec<(RequestId, usize)> {
        let read = leader.kv_cache_tokens() as usize;
        let due = |reading: &Reading| {
            let followed = reading.leader().filter(|followed| followed.id == leader.id)?;
            (followed.tokens <= read).then_some((reading.row.id, followed.tokens))
        };
        self.readings.iter().filter_map(due).collect()
    }

    // Leaving.

    /// Removes the rows whose prompt is read, in the order in which they were admitted.
    pub(crate) fn take_ready(&mut self) -> Vec<Row> {
        let ready = self.readings.extract_if(.., |reading| reading.row.prefill_remaining() == 0);
        ready.map(|reading| reading.row).collect()
    }

    /// Removes the rows whose caller no longer wants them.
    pub(crate) fn take_cancelled(&mut self) -> Vec<Row> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|waiting| waiting.row.is_cancelled());
        self.queue.extend(kept);
        let read = self.readings.extract_if(.., |reading| reading.row.is_cancelled());
        gone.into_iter().map(|waiting| waiting.row).chain(read.map(|reading| reading.row)).collect()
    }

    /// Removes a row that is being read.
    pub(crate) fn take_prefilling(&mut self, id: RequestId) -> Option<Row> {
        let place = self.readings.iter().position(|reading| reading.row.id == id)?;
        Some(self.readings.remove(place).row)
    }

    /// Removes every row.
    pub(crate) fn take_all(&mut self) -> Vec<Row> {
        let read = self.readings.drain(..).map(|reading| reading.row);
        read.chain(self.queue.drain(..).map(|waiting| waiting.row)).collect()
    }

    /// Puts every row that is being read back at the head of the queue: its private KV cache is gone.
    pub(crate) fn restart_reading(&mut self) {
        for mut reading in self.readings.drain(..).rev() {
            reading.row.restart_prefill();
            self.queue.push_front(Waiting { row: reading.row, passed: 0 });
        }
    }

    // Pacing.

    /// Decides what comes next.
    pub(crate) fn next_work(&self, decoding_rows: usize, now: Instant) -> Work {
        let can_read = |reading: &&Reading| reading.leader().is_none() && reading.row.prefill_remaining() > 0;
        let reading: Vec<&Reading> = self.readings.iter().filter(can_read).collect();
        let parked: Vec<_> = reading.iter().map(|reading| self.parked(&reading.row)).collect();
        match self.pacer.next_chunk(now, decoding_rows, &parked) {
            Some(chunk) => Work::Prefill { id: reading[chunk.parked].row.id, tokens: chunk.tokens },
            None if decoding_rows > 0 => Work::Decode,
            None => Work::Idle,
        }
    }

    /// A row ranks like the shortest of those who wait for it, since they finish with it.
    fn parked(&self, row: &Row) -> Parked {
        let remaining_tokens = row.prefill_remaining();
        let mut parked = Parked { remaining_tokens, rank_tokens: remaining_tokens, since: row.parked_since };
        for reading in &self.readings {
            let Some(leader) = reading.leader().filter(|leader| leader.id == row.id) else { continue };
            let shared = leader.tokens.saturating_sub(row.kv_cache_tokens() as usize);
            let own = reading.row.prefill_remaining().saturating_sub(leader.tokens);
            parked.rank_tokens = parked.rank_tokens.min(shared + own);
        }
        parked
    }

    pub(crate) fn record_chunk(&mut self, tokens: usize, decoding_rows: usize, took: Duration) {
        self.pacer.record_chunk(tokens, decoding_rows, took);
    }

    pub(crate) fn record_step(&mut self, took: Duration) {
        self.pacer.record_step(took);
    }
}
