//! Decides, from plain facts and for one step only, how each row is sampled and why.
//!
//! Nothing here remembers the last step, so no row can keep a path for the sake of one that has left.

use std::collections::HashSet;

use crate::{RequestId, params::SamplingClass};

/// How rows that need something special share the step with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GateMode {
    /// One row in need sends the whole batch down the per-row path.
    Strict,
    /// Only the rows in need go per row; mixed sampling settings stay fused.
    #[default]
    Split,
    /// Masks, forced tokens, logprobs, bias and penalties ride inside the fused graph; only what cannot goes per row.
    Folded,
}

/// How a row is sampled on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingPath {
    /// In the one graph of the batch.
    Fused,
    /// In a graph of its own, with its own wait.
    PerRow,
}

/// Samplers that cannot share a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplerKind {
    /// Feeds back how surprising its last token was.
    Mirostat,
    /// Compares the answer's end with everything before it.
    Dry,
    /// Verifies several tokens of a draft in one step.
    Speculative,
}

/// What a row or a batch needs that plain fused sampling does not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A grammar restricts the token of this step. Of the row.
    StructuredMask,
    /// The row's token is forced, or could be, whatever its logits say. Of the row.
    ThinkingOverride,
    /// The row wants the logprobs of this many alternatives per token. Of the row.
    Logprobs(u8),
    /// The row biases tokens. Of the row.
    TokenBias,
    /// The row wants to know what its bias changed. Of the row.
    BiasTrace,
    /// The row penalises tokens that occurred. Of the row.
    HistoryPenalty,
    /// The row's sampler cannot share a graph. Of the row; never fused.
    UnsupportedSampler(SamplerKind),
    /// The host edits the row's logits. Of the row; never fused.
    CustomProcessor,
    /// The row survived an error of its own on the last step. Of the row; never fused.
    Quarantined,
    /// The batch holds this many sampling classes. Of the batch; leaves the fused path in [`GateMode::Strict`] only.
    MixedSettings {
        /// Distinct classes, at least 2.
        classes: usize,
    },
    /// The batch has one row: the fused graph saves nothing. Of the batch; never leaves the fused path.
    SingleRow,
    /// A shortlist proved too narrow, so the fused graph runs at full width. Of the batch; never leaves the fused
    /// path.
    WidthOverflow,
    /// The per-row path was asked for, to compare with. Of the batch; never fused.
    ForcedReference,
    /// The last evaluation failed and none has succeeded since. Of the batch; never fused.
    RepeatedEvalFailure,
}

impl Reason {
    /// Whether the fused graph can carry it.
    pub fn is_foldable(self) -> bool {
        match self {
            Self::StructuredMask
            | Self::ThinkingOverride
            | Self::Logprobs(_)
            | Self::TokenBias
            | Self::BiasTrace
            | Self::HistoryPenalty
            | Self::MixedSettings { .. }
            | Self::SingleRow
            | Self::WidthOverflow => true,
            Self::UnsupportedSampler(_)
            | Self::CustomProcessor
            | Self::Quarantined
            | Self::ForcedReference
            | Self::RepeatedEvalFailure => false,
        }
    }
}

/// What the gate has to know of one row on this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFacts {
    /// The row's request.
    pub id: RequestId,
    /// Settings that shape the sampler; see [`crate::params::ValidParams::class`].
    pub class: SamplingClass,
    /// Whether a grammar restricts the token.
    pub has_mask: bool,
    /// Whether the token is forced, or could be.
    pub is_overridden: bool,
    /// Alternatives to report per token, if any are wanted.
    pub logprobs: Option<u8>,
    /// Whether any token is biased.
    pub has_bias: bool,
    /// Whether to report what the bias changed.
    pub wants_bias_trace: bool,
    /// Whether tokens that occurred are penalised.
    pub has_penalties: bool,
    /// The row's sampler, if it cannot share a graph.
    pub unsupported_sampler: Option<SamplerKind>,
    /// Whether the host edits the logits.
    pub has_custom_processor: bool,
    /// Whether the row survived an error of its own on the last step.
    pub is_quarantined: bool,
    /// Whether an earlier step showed that no shortlist is wide enough.
    pub needs_full_width: bool,
}

impl RowFacts {
    /// A row that needs nothing special.
    pub fn plain(id: RequestId, class: SamplingClass) -> Self {
        Self {
            id,
            class,
            has_mask: false,
            is_overridden: false,
            logprobs: None,
            has_bias: false,
            wants_bias_trace: false,
            has_penalties: false,
            unsupported_sampler: None,
            has_custom_processor: false,
            is_quarantined: false,
            needs_full_width: false,
        }
    }

    /// Reasons that lie in the row itself, whatever its neighbours are.
    pub fn reasons(&self) -> Vec<Reason> {
        let when = |holds: bool, reason| holds.then_some(reason);
        [
            when(self.has_mask, Reason::StructuredMask),
            when(self.is_overridden, Reason::ThinkingOverride),
            self.logprobs.map(Reason::Logprobs),
            when(self.has_bias, Reason::TokenBias),
            when(self.wants_bias_trace, Reason::BiasTrace),
            when(self.has_penalties, Reason::HistoryPenalty),
            self.unsupported_sampler.map(Reason::UnsupportedSampler),
            when(self.has_custom_processor, Reason::CustomProcessor),
            when(self.is_quarantined, Reason::Quarantined),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Whether every row is to take the per-row path, so that other paths can be compared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForcedReference {
    /// The gate decides.
    #[default]
    Off,
    /// Every row goes per row.
    On,
}

/// What the gate has to know besides the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EnvFacts {
    /// Whether somebody asked for the per-row path.
    pub is_reference_forced: bool,
    /// Whether the last evaluation failed and none has succeeded since.
    pub has_failed_eval: bool,
}

/// What the gate decided for one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlan {
    /// Path to take.
    pub path: SamplingPath,
    /// On the per-row path why: reasons of the row and of the batch, or with `caused_by` those of that row. On the
    /// fused path what of the row rides inside the graph; empty if it is plainly fused.
    pub reasons: Vec<Reason>,
    /// The row that forced this one, when neither it nor the batch as a whole gave a reason.
    pub caused_by: Option<RequestId>,
}

impl RowPlan {
    fn fused(reasons: Vec<Reason>) -> Self {
        Self { path: SamplingPath::Fused, reasons, caused_by: None }
    }

    fn per_row(reasons: Vec<Reason>) -> Self {
        Self { path: SamplingPath::PerRow, reasons, caused_by: None }
    }
}

/// What the gate decided for one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatePlan {
    /// Rows that the plan was made for, in the order of the batch.
    pub ids: Vec<RequestId>,
    /// One plan per row, in the order of the facts.
    pub rows: Vec<RowPlan>,
    /// What is true of the batch as a whole, whether or not it changed a path.
    pub batch_reasons: Vec<Reason>,
    /// Distinct sampling classes.
    pub classes: usize,
    /// What rides inside the fused graph, each once.
    pub features: Vec<Reason>,
    /// Blocking waits that the step makes: one for the fused rows, one for each other row. A shortlist that proves
    /// too narrow adds one, counted apart as a width miss.
    pub expected_waits: u64,
}

impl GatePlan {
    /// Indices of the rows on `path`, ascending.
    pub fn rows_on(&self, path: SamplingPath) -> Vec<usize> {
        (0..self.rows.len()).filter(|&row| self.rows[row].path == path).collect()
    }

    /// Whether every row is in the fused graph.
    pub fn is_all_fused(&self) -> bool {
        self.rows.iter().all(|row| row.path == SamplingPath::Fused)
    }

    /// Whether the plan was made for these rows in this order. A plan for others must be made again.
    pub fn is_for(&self, ids: impl Iterator<Item = RequestId>) -> bool {
        self.ids.iter().copied().eq(ids)
    }
}

/// Plans the sampling of one step. Pure: the same facts give the same plan.
pub fn plan(mode: GateMode, rows: &[RowFacts], env: EnvFacts) -> GatePlan {
    let classes = rows.iter().map(|row| row.class).collect::<HashSet<_>>().len();
    let mixed = (classes > 1).then_some(Reason::MixedSettings { classes });
    let forcing = forcing_reasons(mode, mixed, env);
    let cause = rows.iter().find(|row| mode == GateMode::Strict && !row.reasons().is_empty());
    let plan_row = |row: &RowFacts| {
        let own = row.reasons();
        let leaves = |reason: &Reason| mode != GateMode::Folded || !reason.is_foldable();
        let mut why: Vec<_> = own.iter().copied().filter(leaves).collect();
        why.extend(&forcing);
        match cause {
            _ if !why.is_empty() => RowPlan::per_row(why),
            Some(cause) => RowPlan { caused_by: Some(cause.id), ..RowPlan::per_row(cause.reasons()) },
            None => RowPlan::fused(own),
        }
    };
    let plans: Vec<_> = rows.iter().map(plan_row).collect();
    let fused = |(row, plan): (&RowFacts, &RowPlan)| plan.path == SamplingPath::Fused && row.needs_full_width;
    let is_full_width = rows.iter().zip(&plans).any(fused);
    let batch_reasons = [
        mixed,
        (rows.len() == 1).then_some(Reason::SingleRow),
        is_full_width.then_some(Reason::WidthOverflow),
        env.is_reference_forced.then_some(Reason::ForcedReference),
        env.has_failed_eval.then_some(Reason::RepeatedEvalFailure),
    ];
    let per_row = plans.iter().filter(|row| row.path == SamplingPath::PerRow).count();
    GatePlan {
        ids: rows.iter().map(|row| row.id).collect(),
        features: features(&plans),
        batch_reasons: batch_reasons.into_iter().flatten().collect(),
        classes,
        expected_waits: (per_row + usize::from(per_row < plans.len())) as u64,
        rows: plans,
    }
}

/// Reasons of the batch that send every row down the per-row path.
fn forcing_reasons(mode: GateMode, mixed: Option<Reason>, env: EnvFacts) -> Vec<Reason> {
    let forcing = [
        mixed.filter(|_| mode == GateMode::Strict),
        env.is_reference_forced.then_some(Reason::ForcedReference),
        env.has_failed_eval.then_some(Reason::RepeatedEvalFailure),
    ];
    forcing.into_iter().flatten().collect()
}

fn features(plans: &[RowPlan]) -> Vec<Reason> {
    let fused = plans.iter().filter(|row| row.path == SamplingPath::Fused);
    let mut features = Vec::new();
    for reason in fused.flat_map(|row| &row.reasons) {
        if !features.contains(reason) {
            features.push(*reason);
        }
    }
    features
}
