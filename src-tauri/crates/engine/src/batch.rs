//! The rows that run together. The only code that reorders them.

use crate::{
    RequestId,
    backend::{RowSampling, StepInput},
    gate::RowFacts,
    row::{Ending, Row},
};

/// Rows in the order of the backend's KV cache.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: Vec<Row>,
}

/// Rows that left, and what the KV cache must keep to follow.
#[derive(Debug)]
pub(crate) struct Departure {
    /// With how each ends, in batch order.
    pub(crate) gone: Vec<(Row, Ending)>,
    /// Former indices of the surviving rows, ascending.
    pub(crate) keep: Vec<usize>,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut()
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut Row {
        &mut self.rows[row]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = RequestId> {
        self.rows.iter().map(|row| row.id)
    }

    pub(crate) fn longest_kv_cache_tokens(&self) -> u32 {
        self.rows.iter().map(Row::kv_cache_tokens).max().unwrap_or(0)
    }

    pub(crate) fn get_mut(&mut self, id: RequestId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.id == id)
    }

    /// Appends a row whose KV cache the backend has just appended.
    pub(crate) fn join(&mut self, row: Row) {
        self.rows.push(row);
        self.assert_whole();
    }

    /// Removes every row that `ending` gives an end.
    pub(crate) fn leave(&mut self, mut ending: impl FnMut(&Row) -> Option<Ending>) -> Departure {
        let mut departure = Departure { gone: Vec::new(), keep: Vec::new() };
        for (index, row) in std::mem::take(&mut self.rows).into_iter().enumerate() {
            match ending(&row) {
                Some(ending) => departure.gone.push((row, ending)),
                None => {
                    departure.keep.push(index);
                    self.rows.push(row);
                }
            }
        }
        self.assert_whole();
        departure
    }

    pub(crate) fn facts(&self) -> Vec<RowFacts> {
        self.rows.iter().map(Row::facts).collect()
    }

    pub(crate) fn step_inputs(&self) -> Vec<StepInput> {
        self.rows.iter().map(Row::step_input).collect()
    }

    /// Sampling of the rows at `indices`, in that order.
    pub(crate) fn sampling(&self, indices: &[usize]) -> Vec<RowSampling<'_>> {
        indices.iter().map(|&row| self.rows[row].sampling()).collect()
    }

    /// Works out what the rows' grammars allow next, side by side, since that can take longer than the rest of the
    /// bookkeeping. `endings`, by row: rows that end are left out, and rows that cannot go on get their end.
    pub(crate) fn prepare(&mut self, endings: &mut [Option<Ending>]) {
        let rows = self.rows.iter_mut().zip(endings);
        let mut waiting: Vec<_> =
            rows.filter(|(row, ending)| ending.is_none() && row.needs_preparing()).collect();
        let Some((last, others)) = waiting.split_last_mut() else { return };
        std::thread::scope(|scope| {
            for (row, ending) in others {
                scope.spawn(|| **ending = row.prepare());
            }
            *last.1 = last.0.prepare();
        });
    }

    fn assert_whole(&self) {
        self.rows.iter().for_each(Row::assert_decoding);
        let is_again = |at: usize| self.rows[..at].iter().any(|other| other.id == self.rows[at].id);
        debug_assert!(!(1..self.rows.len()).any(is_again), "a row joined twice");
    }
}
