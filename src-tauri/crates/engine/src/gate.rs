//! Decides, from plain facts and for one step only, how each row is sampled and why.
//!
//! Nothing here remembers the last step, so no row can keep a path for the sake of one that has left.

use crate::{RequestId, params::SamplingClass};

/// How rows that need something special share the step with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateMode {
    /// One row in need sends the whole batch down the per-row path.
    Strict,
    /// Only the rows in need go per row; mixed sampling settings stay fused.
    #[default]
    Split,
}

/// How a row is sampled on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingPath {
    /// In the one graph of the batch.
    Fused,
    /// In a graph of its own, with its own wait.
    PerRow,
}

/// Why rows leave the fused path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The row wants the logprobs of this many alternatives per token. Of the row.
    Logprobs(u8),
    /// The batch holds this many sampling classes. Of the batch; [`GateMode::Strict`] only.
    MixedSettings {
        /// Distinct classes, at least 2.
        classes: usize,
    },
}

/// What the gate has to know of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFacts {
    /// The row's request.
    pub id: RequestId,
    /// Settings that shape the sampler; see [`crate::params::ValidParams::class`].
    pub class: SamplingClass,
    /// Alternatives to report per token, if any are wanted.
    pub logprobs: Option<u8>,
}

impl RowFacts {
    /// Reasons that lie in the row itself, whatever its neighbours are.
    fn reasons(&self) -> Vec<Reason> {
        self.logprobs.map(Reason::Logprobs).into_iter().collect()
    }
}

/// What the gate decided for one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlan {
    /// Path to take.
    pub path: SamplingPath,
    /// Reasons of the row and of the batch; with `caused_by`, the reasons of that row. Empty on the fused path.
    pub reasons: Vec<Reason>,
    /// The row that forced this one, when neither it nor the batch as a whole gave a reason.
    pub caused_by: Option<RequestId>,
}

impl RowPlan {
    fn fused() -> Self {
        Self { path: SamplingPath::Fused, reasons: Vec::new(), caused_by: None }
    }

    fn per_row(reasons: Vec<Reason>) -> Self {
        Self { path: SamplingPath::PerRow, reasons, caused_by: None }
    }
}

/// What the gate decided for one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatePlan {
    /// One plan per row, in the order of the facts.
    pub rows: Vec<RowPlan>,
    /// Blocking waits that the step makes: one for the fused rows, one for each other row. A shortlist that proves
    /// too narrow adds one, counted apart as a width miss.
    pub expected_waits: u64,
}

impl GatePlan {
    fn new(rows: Vec<RowPlan>) -> Self {
        let per_row = rows.iter().filter(|row| row.path == SamplingPath::PerRow).count();
        let fused_graphs = usize::from(per_row < rows.len());
        Self { rows, expected_waits: (per_row + fused_graphs) as u64 }
    }

    /// Indices of the rows on `path`, ascending.
    pub fn rows_on(&self, path: SamplingPath) -> Vec<usize> {
        (0..self.rows.len()).filter(|&row| self.rows[row].path == path).collect()
    }
}

/// Plans the sampling of one step. Pure: the same facts give the same plan.
pub fn plan(mode: GateMode, rows: &[RowFacts]) -> GatePlan {
    match mode {
        GateMode::Strict => plan_strict(rows),
        GateMode::Split => plan_split(rows),
    }
}

fn plan_split(rows: &[RowFacts]) -> GatePlan {
    let plan_row = |row: &RowFacts| match row.reasons() {
        reasons if reasons.is_empty() => RowPlan::fused(),
        reasons => RowPlan::per_row(reasons),
    };
    GatePlan::new(rows.iter().map(plan_row).collect())
}

fn plan_strict(rows: &[RowFacts]) -> GatePlan {
    let batch_reasons = mixed_settings(rows);
    let cause = rows.iter().find(|row| !row.reasons().is_empty());
    let plan_row = |row: &RowFacts| {
        let mut reasons = row.reasons();
        reasons.extend(batch_reasons);
        match cause {
            _ if !reasons.is_empty() => RowPlan::per_row(reasons),
            Some(cause) => RowPlan { caused_by: Some(cause.id), ..RowPlan::per_row(cause.reasons()) },
            None => RowPlan::fused(),
        }
    };
    GatePlan::new(rows.iter().map(plan_row).collect())
}

fn mixed_settings(rows: &[RowFacts]) -> Option<Reason> {
    let mut classes = std::collections::HashSet::new();
    classes.extend(rows.iter().map(|row| row.class));
    (classes.len() > 1).then_some(Reason::MixedSettings { classes: classes.len() })
}
