//! The gate, for every subset of the reasons.

use crate::support::params;
use engine::{
    GateMode, Reason, RequestId, SamplerKind, SamplingPath,
    gate::{EnvFacts, GatePlan, RowFacts, RowPlan, plan},
    params::SamplingParams,
};

const MODES: [GateMode; 3] = [GateMode::Strict, GateMode::Split, GateMode::Folded];

/// The nine reasons of a row in their order, and whether the fused graph can carry them.
const ROW_REASONS: [(Reason, bool); 9] = [
    (Reason::StructuredMask, true),
    (Reason::ThinkingOverride, true),
    (Reason::Logprobs(3), true),
    (Reason::TokenBias, true),
    (Reason::BiasTrace, true),
    (Reason::HistoryPenalty, true),
    (Reason::UnsupportedSampler(SamplerKind::Dry), false),
    (Reason::CustomProcessor, false),
    (Reason::Quarantined, false),
];

fn plain(id: u64, temperature: f32) -> RowFacts {
    let params = SamplingParams { temperature, ..params() }.validate().unwrap();
    RowFacts::plain(RequestId(id), params.class())
}

/// A row with exactly the reasons of [`ROW_REASONS`] whose bits `subset` holds.
fn row(id: u64, subset: usize) -> RowFacts {
    let has = |bit: usize| subset >> bit & 1 == 1;
    RowFacts {
        has_mask: has(0),
        is_overridden: has(1),
        logprobs: has(2).then_some(3),
        has_bias: has(3),
        wants_bias_trace: has(4),
        has_penalties: has(5),
        unsupported_sampler: has(6).then_some(SamplerKind::Dry),
        has_custom_processor: has(7),
        is_quarantined: has(8),
        ..plain(id, 0.8)
    }
}

fn reasons_of(subset: usize) -> Vec<Reason> {
    let has = |bit: &usize| subset >> bit & 1 == 1;
    (0..ROW_REASONS.len()).filter(has).map(|bit| ROW_REASONS[bit].0).collect()
}

fn unfoldable_of(subset: usize) -> Vec<Reason> {
    let has = |bit: &usize| subset >> bit & 1 == 1 && !ROW_REASONS[*bit].1;
    (0..ROW_REASONS.len()).filter(has).map(|bit| ROW_REASONS[bit].0).collect()
}

/// Neighbours of the row in question, as subsets and temperatures.
const NEIGHBOURS: [&[(usize, f32)]; 6] =
    [&[], &[(0, 0.8)], &[(0, 1.3)], &[(1, 0.8)], &[(1 << 7, 0.8), (0, 0.8)], &[(1 << 2, 0.9), (1 << 8, 1.1)]];

const ENVS: [EnvFacts; 4] = [
    EnvFacts { is_reference_forced: false, has_failed_eval: false },
    EnvFacts { is_reference_forced: true, has_failed_eval: false },
    EnvFacts { is_reference_forced: false, has_failed_eval: true },
    EnvFacts { is_reference_forced: true, has_failed_eval: true },
];

fn batch(subset: usize, neighbours: &[(usize, f32)]) -> Vec<(RowFacts, usize)> {
    let mut rows = vec![(row(0, subset), subset)];
    for (id, (subset, temperature)) in (1..).zip(neighbours) {
        let facts = RowFacts { class: plain(id, *temperature).class, ..row(id, *subset) };
        rows.push((facts, *subset));
    }
    rows
}

fn distinct_classes(rows: &[(RowFacts, usize)]) -> usize {
    (0..rows.len()).filter(|&i| rows[..i].iter().all(|other| other.0.class != rows[i].0.class)).count()
}

/// What the table of the design says of row `index`, worked out without the gate.
fn expected(mode: GateMode, rows: &[(RowFacts, usize)], env: EnvFacts, index: usize) -> RowPlan {
    let own = reasons_of(rows[index].1);
    let mut why = if mode == GateMode::Folded { unfoldable_of(rows[index].1) } else { own.clone() };
    let classes = distinct_classes(rows);
    if mode == GateMode::Strict && classes > 1 {
        why.push(Reason::MixedSettings { classes });
    }
    if env.is_reference_forced {
        why.push(Reason::ForcedReference);
    }
    if env.has_failed_eval {
        why.push(Reason::RepeatedEvalFailure);
    }
    if !why.is_empty() {
        return RowPlan { path: SamplingPath::PerRow, reasons: why, caused_by: None };
    }
    match rows.iter().find(|other| mode == GateMode::Strict && other.1 != 0) {
        Some((cause, subset)) => {
            RowPlan { path: SamplingPath::PerRow, reasons: reasons_of(*subset), caused_by: Some(cause.id) }
        }
        None => RowPlan { path: SamplingPath::Fused, reasons: own, caused_by: None },
    }
}

fn check_whole(found: &GatePlan, facts: &[RowFacts]) {
    let per_row = found.rows_on(SamplingPath::PerRow).len();
    let fused = found.rows_on(SamplingPath::Fused).len();
    assert_eq!(found.expected_waits, (per_row + fused.min(1)) as u64);
    assert_eq!(found.is_all_fused(), per_row == 0);
    assert!(found.is_for(facts.iter().map(|row| row.id)));
    for row in found.rows.iter().filter(|row| row.path == SamplingPath::PerRow) {
        assert!(!row.reasons.is_empty(), "a row never leaves the fused path without a reason");
    }
    let mut riding: Vec<_> = Vec::new();
    let fused = found.rows.iter().filter(|row| row.path == SamplingPath::Fused);
    for reason in fused.flat_map(|row| &row.reasons) {
        assert!(reason.is_foldable(), "{reason:?} rides in the fused graph");
        if !riding.contains(reason) {
            riding.push(*reason);
        }
    }
    assert_eq!(found.features, riding);
}

#[test]
fn every_subset_of_reasons_is_planned_as_the_table_says() {
    for subset in 0..1 << ROW_REASONS.len() {
        for neighbours in NEIGHBOURS {
            let rows = batch(subset, neighbours);
            let facts: Vec<_> = rows.iter().map(|row| row.0).collect();
            for (mode, env) in MODES.iter().flat_map(|mode| ENVS.map(|env| (*mode, env))) {
                let found = plan(mode, &facts, env);
                check_whole(&found, &facts);
                assert_eq!(found.classes, distinct_classes(&rows));
                for (index, plan) in found.rows.iter().enumerate() {
                    let expected = expected(mode, &rows, env, index);
                    assert_eq!(*plan, expected, "{mode:?}, {subset:#b} beside {neighbours:?}, row {index}");
                }
            }
        }
    }
}

#[test]
fn only_rows_in_need_go_per_row_unless_the_mode_is_strict() {
    let rows = [plain(0, 0.8), row(1, 1), plain(2, 0.8), row(3, 1 << 7)];
    let paths =
        |mode| -> Vec<_> { plan(mode, &rows, EnvFacts::default()).rows.iter().map(|row| row.path).collect() };
    use SamplingPath::{Fused, PerRow};
    assert_eq!(paths(GateMode::Strict), [PerRow, PerRow, PerRow, PerRow]);
    assert_eq!(paths(GateMode::Split), [Fused, PerRow, Fused, PerRow]);
    assert_eq!(paths(GateMode::Folded), [Fused, Fused, Fused, PerRow]);
}

#[test]
fn nothing_sticks_once_a_row_has_left() {
    // Whatever the gate was asked before, the same rows get the same plan.
    for mode in MODES {
        let alone = [plain(1, 0.8), plain(2, 0.8), plain(3, 0.8)];
        let before = plan(mode, &alone, EnvFacts::default());
        for subset in 0..1 << ROW_REASONS.len() {
            let mut with_odd = alone.to_vec();
            with_odd.insert(subset % 4, row(9, subset));
            plan(mode, &with_odd, EnvFacts { has_failed_eval: subset % 2 == 0, ..EnvFacts::default() });
            assert_eq!(plan(mode, &alone, EnvFacts::default()), before);
        }
        assert_eq!((before.expected_waits, before.features.len()), (1, 0));
        assert!(before.rows.iter().all(|row| row.path == SamplingPath::Fused && row.reasons.is_empty()));
    }
}

#[test]
fn what_is_true_of_the_batch_is_told_without_moving_anyone() {
    let batch_reasons = |mode, rows: &[RowFacts]| plan(mode, rows, EnvFacts::default()).batch_reasons;
    for mode in MODES {
        assert_eq!(batch_reasons(mode, &[plain(1, 0.8)]), [Reason::SingleRow]);
        let wide = RowFacts { needs_full_width: true, ..plain(2, 0.8) };
        assert_eq!(batch_reasons(mode, &[plain(1, 0.8), wide]), [Reason::WidthOverflow]);
        let found = plan(mode, &[plain(1, 0.8), wide], EnvFacts::default());
        assert!(found.is_all_fused(), "a wide shortlist is still one graph");
        assert!(batch_reasons(mode, &[plain(1, 0.8), plain(2, 0.8)]).is_empty());
    }
    let mixed = [plain(1, 0.8), plain(2, 0.9), plain(3, 0.9)];
    for mode in [GateMode::Split, GateMode::Folded] {
        assert_eq!(batch_reasons(mode, &mixed), [Reason::MixedSettings { classes: 2 }]);
        assert!(plan(mode, &mixed, EnvFacts::default()).is_all_fused());
    }
}

#[test]
fn a_full_width_row_that_goes_per_row_leaves_the_fused_graph_narrow() {
    let rows = [plain(1, 0.8), RowFacts { needs_full_width: true, ..row(2, 1 << 7) }];
    let found = plan(GateMode::Folded, &rows, EnvFacts::default());
    assert!(!found.batch_reasons.contains(&Reason::WidthOverflow));
}

#[test]
fn a_plan_knows_for_which_rows_it_was_made() {
    let rows = [plain(4, 0.8), plain(7, 0.8)];
    let found = plan(GateMode::Split, &rows, EnvFacts::default());
    let is_for = |ids: &[u64]| found.is_for(ids.iter().copied().map(RequestId));
    assert!(is_for(&[4, 7]));
    for others in [&[7, 4][..], &[4], &[4, 7, 8], &[]] {
        assert!(!is_for(others), "{others:?}");
    }
}

#[test]
fn an_empty_batch_needs_nothing() {
    for (mode, env) in MODES.iter().flat_map(|mode| ENVS.map(|env| (*mode, env))) {
        let found = plan(mode, &[], env);
        assert_eq!((found.rows.len(), found.expected_waits, found.features.len()), (0, 0, 0));
    }
}

#[test]
fn only_what_shapes_the_sampler_makes_a_class() {
    let class = |params: SamplingParams| params.validate().unwrap().class();
    let same = [
        SamplingParams { seed: None, ..params() },
        SamplingParams { seed: Some(u64::MAX), ..params() },
        SamplingParams { max_tokens: 9, ..params() },
        SamplingParams { stop: vec!["x".into()], ..params() },
        SamplingParams { logprobs: Some(5), ..params() },
    ];
    for other in same {
        assert_eq!(class(other.clone()), class(params()), "{other:?}");
    }
    let different = [
        SamplingParams { temperature: 0.81, ..params() },
        SamplingParams { top_p: 0.9, ..params() },
        SamplingParams { top_k: 40, ..params() },
        SamplingParams { min_p: 0.1, ..params() },
        SamplingParams { temperature: 0.0, ..params() },
    ];
    for other in different {
        assert_ne!(class(other.clone()), class(params()), "{other:?}");
    }
    let greedy = class(SamplingParams { temperature: 0.0, ..params() });
    assert_eq!(class(SamplingParams { top_k: 1, temperature: 3.0, ..params() }), greedy, "greedy is greedy");
}
