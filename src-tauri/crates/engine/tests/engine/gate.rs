//! The gate, for every subset of the reasons.

use crate::support::params;
use engine::{
    GateMode, Reason, RequestId, SamplingPath,
    gate::{GatePlan, RowFacts, RowPlan, plan},
    params::SamplingParams,
};

fn facts(id: u64, params: SamplingParams) -> RowFacts {
    let params = params.validate().unwrap();
    RowFacts { id: RequestId(id), class: params.class(), logprobs: params.logprobs }
}

/// Three rows; each wants logprobs, has settings of its own, both or neither, as the bits of `subset` say.
fn rows(subset: u32) -> Vec<RowFacts> {
    let row = |id: u64| {
        let bits = subset >> (2 * id);
        let logprobs = (bits & 1 == 1).then_some(3 + id as u8);
        let temperature = if bits & 2 == 2 { 1.0 + id as f32 } else { 0.8 };
        facts(id, SamplingParams { logprobs, temperature, ..params() })
    };
    (0..3).map(row).collect()
}

fn classes(rows: &[RowFacts]) -> usize {
    (0..rows.len()).filter(|&i| rows[..i].iter().all(|other| other.class != rows[i].class)).count()
}

fn check_waits(found: &GatePlan) {
    let per_row = found.rows_on(SamplingPath::PerRow).len();
    let fused = found.rows_on(SamplingPath::Fused).len();
    assert_eq!(found.expected_waits, (per_row + fused.min(1)) as u64);
    for row in &found.rows {
        assert_eq!(row.reasons.is_empty(), row.path == SamplingPath::Fused, "{row:?}");
    }
}

#[test]
fn split_sends_exactly_the_rows_that_want_logprobs_per_row() {
    for subset in 0..64 {
        let rows = rows(subset);
        let found = plan(GateMode::Split, &rows);
        check_waits(&found);
        for (row, plan) in rows.iter().zip(&found.rows) {
            let expected: Vec<_> = row.logprobs.map(Reason::Logprobs).into_iter().collect();
            assert_eq!((&plan.reasons, plan.caused_by), (&expected, None), "subset {subset:#b}");
        }
    }
}

#[test]
fn strict_sends_all_rows_per_row_when_any_has_a_reason() {
    for subset in 0..64 {
        let rows = rows(subset);
        let found = plan(GateMode::Strict, &rows);
        check_waits(&found);
        let classes = classes(&rows);
        let mixed = (classes > 1).then_some(Reason::MixedSettings { classes });
        let cause = rows.iter().find(|row| row.logprobs.is_some());
        let is_fused = mixed.is_none() && cause.is_none();
        assert_eq!(found.expected_waits, if is_fused { 1 } else { 3 }, "subset {subset:#b}");
        for (row, plan) in rows.iter().zip(&found.rows) {
            let own: Vec<_> = row.logprobs.map(Reason::Logprobs).into_iter().chain(mixed).collect();
            match cause {
                Some(cause) if own.is_empty() => {
                    assert_eq!(plan.caused_by, Some(cause.id), "it had no reason of its own");
                    assert_eq!(plan.reasons, [Reason::Logprobs(cause.logprobs.unwrap())]);
                }
                _ => assert_eq!((&plan.reasons, plan.caused_by), (&own, None), "subset {subset:#b}"),
            }
        }
    }
}

#[test]
fn a_row_alone_is_fused_unless_it_needs_more() {
    let fused = RowPlan { path: SamplingPath::Fused, reasons: Vec::new(), caused_by: None };
    for mode in [GateMode::Strict, GateMode::Split] {
        assert_eq!(plan(mode, &[facts(1, params())]).rows, std::slice::from_ref(&fused));
        let wants = facts(1, SamplingParams { logprobs: Some(0), ..params() });
        assert_eq!(plan(mode, &[wants]).rows[0].reasons, [Reason::Logprobs(0)]);
        assert_eq!(plan(mode, &[]), GatePlan { rows: Vec::new(), expected_waits: 0 });
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
