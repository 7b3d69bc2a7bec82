//! Rows before they decode: the queue, and prompts being read.

mod pacing;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{RequestId, row::Row};
use pacing::{Pacer, Parked};

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

/// Queue and prefill. A row is admitted when a slot of the batch is free for it, first come, first served.
#[derive(Debug)]
pub(crate) struct Scheduler {
    queue: VecDeque<Row>,
    prefilling: Vec<Row>,
    pacer: Pacer,
}

impl Scheduler {
    pub(crate) fn new(prefill_budget: Duration) -> Self {
        Self { queue: VecDeque::new(), prefilling: Vec::new(), pacer: Pacer::new(prefill_budget) }
    }

    pub(crate) fn enqueue(&mut self, row: Row) {
        self.queue.push_back(row);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.prefilling.is_empty()
    }

    /// Whether any prompt is being read, or is read and waits to join.
    pub(crate) fn is_reading(&self) -> bool {
        !self.prefilling.is_empty()
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = &Row> {
        self.queue.iter()
    }

    pub(crate) fn prefilling(&self) -> &[Row] {
        &self.prefilling
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Row> {
        self.queue.iter_mut().chain(&mut self.prefilling).find(|row| row.id == id)
    }

    /// Starts the prefill of queued rows while fewer than `max_rows` hold a slot, `decoding_rows` of them in the
    /// batch. Returns whether any was admitted.
    pub(crate) fn admit(&mut self, decoding_rows: usize, max_rows: usize, now: Instant) -> bool {
        let mut has_admitted = false;
        while decoding_rows + self.prefilling.len() < max_rows {
            let Some(mut row) = self.queue.pop_front() else { break };
            row.start_prefill(now);
            self.prefilling.push(row);
            has_admitted = true;
        }
        for (ahead, row) in self.queue.iter_mut().enumerate() {
            row.tell_ahead(ahead);
        }
        has_admitted
    }

    /// Removes the rows whose prompt is read, in the order in which they were admitted.
    pub(crate) fn take_ready(&mut self) -> Vec<Row> {
        self.prefilling.extract_if(.., |row| row.prefill_remaining() == 0).collect()
    }

    /// Removes the rows whose caller no longer wants them.
    pub(crate) fn take_cancelled(&mut self) -> Vec<Row> {
        let (mut gone, kept): (Vec<_>, Vec<_>) = self.queue.drain(..).partition(Row::is_cancelled);
        self.queue.extend(kept);
        gone.extend(self.prefilling.extract_if(.., |row| row.is_cancelled()));
        gone
    }

    /// Removes a row that is being read.
    pub(crate) fn take_prefilling(&mut self, id: RequestId) -> Option<Row> {
        let index = self.prefilling.iter().position(|row| row.id == id)?;
        Some(self.prefilling.remove(index))
    }

    /// Removes every row.
    pub(crate) fn take_all(&mut self) -> Vec<Row> {
        self.prefilling.drain(..).chain(self.queue.drain(..)).collect()
    }

    /// Puts every row that is being read back at the head of the queue: its private KV cache is gone.
    pub(crate) fn restart_reading(&mut self) {
        for mut row in self.prefilling.drain(..).rev() {
            row.restart_prefill();
            self.queue.push_front(row);
        }
    }

    /// Decides what comes next.
    pub(crate) fn next_work(&self, decoding_rows: usize, now: Instant) -> Work {
        let parked = |row: &Row| Parked {
            remaining_tokens: row.prefill_remaining(),
            rank_tokens: row.prefill_remaining(),
            since: row.parked_since,
        };
        // Rows whose prompt is read may have to wait for the boundary at which they can join.
        let reading: Vec<_> = self.prefilling.iter().filter(|row| row.prefill_remaining() > 0).collect();
        let parked: Vec<_> = reading.iter().map(|row| parked(row)).collect();
        match self.pacer.next_chunk(now, decoding_rows, &parked) {
            Some(chunk) => Work::Prefill { id: reading[chunk.parked].id, tokens: chunk.tokens },
            None if decoding_rows > 0 => Work::Decode,
            None => Work::Idle,
        }
    }

    pub(crate) fn record_chunk(&mut self, tokens: usize, decoding_rows: usize, took: Duration) {
        self.pacer.record_chunk(tokens, decoding_rows, took);
    }

    pub(crate) fn record_step(&mut self, took: Duration) {
        self.pacer.record_step(took);
    }
}
