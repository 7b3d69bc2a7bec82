//! Rows come and go; the others do not notice.

use crate::support::{Answer, Bench, Rng, expected_text, params};
use engine::{
    EnginePhase, FinishReason, GateMode, OverlapMode, Reason, RowPhase, SamplingPath,
    params::SamplingParams,
    testing::{Answer as Says, Call, Script},
};
use std::time::Duration;

/// A request of a random history, and what it may say.
struct Tracked {
    answer: Answer,
    prompt: String,
    params: SamplingParams,
    is_cancelled: bool,
}

struct History {
    rng: Rng,
    script: Script,
    bench: Bench,
    tracked: Vec<Tracked>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let script = Script {
            max_rows: 1 + rng.below(5),
            needed_width: if rng.below(4) == 0 { 256 } else { 0 },
            prefill_per_token: Duration::from_millis(1),
            step: Duration::from_millis(20),
            context_tokens: if rng.below(8) == 0 { 60 } else { 4096 },
            ..Script::default()
        };
        Self { rng, bench: Bench::new(script.clone()), script, tracked: Vec::new() }
    }

    fn random_params(&mut self) -> SamplingParams {
        let rng = &mut self.rng;
        SamplingParams {
            temperature: rng.pick(&[0.0, 0.7, 1.0, 1.3]),
            top_p: rng.pick(&[1.0, 0.9, 0.5]),
            top_k: rng.pick(&[0, 0, 1, 5, 40]),
            min_p: rng.pick(&[0.0, 0.05]),
            seed: Some(rng.below(1000) as u64),
            max_tokens: 1 + rng.below(12) as u32,
            logprobs: rng.pick(&[None, None, None, Some(0), Some(3)]),
            logit_bias: rng.pick(&[vec![], vec![], vec![], vec![(101, 3.0), (115, -6.0)]]),
            repetition_penalty: rng.pick(&[1.0, 1.0, 1.0, 1.2]),
            presence_penalty: rng.pick(&[0.0, 0.0, 0.0, 0.7]),
            stop: rng.pick(&[vec![], vec![], vec!["e".into()], vec!["ab".into(), "q".into()]]),
            ..SamplingParams::default()
        }
    }

    fn act(&mut self) {
        match self.rng.below(10) {
            0..4 => {
                let prompt_tokens = 1 + self.rng.below(50);
                let letters = (0..prompt_tokens).map(|_| char::from(b'A' + self.rng.below(26) as u8));
                let prompt: String = letters.collect();
                let params = self.random_params();
                let answer = self.bench.submit(&prompt, params.clone());
                self.tracked.push(Tracked { answer, prompt, params, is_cancelled: false });
            }
            4 if !self.tracked.is_empty() => {
                let victim = self.rng.below(self.tracked.len());
                let victim = &mut self.tracked[victim];
                victim.is_cancelled = true;
                self.bench.engine.cancel(victim.answer.id);
            }
            5 if self.rng.below(3) == 0 => {
                let mode = self.rng.pick(&[GateMode::Strict, GateMode::Split, GateMode::Folded]);
                self.bench.engine.set_gate_mode(mode);
                let overlap = self.rng.pick(&[OverlapMode::Off, OverlapMode::On, OverlapMode::Adaptive]);
                self.bench.engine.set_overlap(overlap);
            }
            _ => {
                self.bench.steps(1);
                self.check_rows();
            }
        }
    }

    /// Ids, histories and KV cache of the backend are those of the engine's rows.
    fn check_rows(&mut self) {
        let snapshot = self.bench.engine.snapshot(EnginePhase::Ready);
        let decoding: Vec<_> = snapshot.rows.iter().filter(|row| row.phase == RowPhase::Decoding).collect();
        let backend = self.bench.engine.backend();
        assert_eq!(backend.batch().len(), decoding.len());
        assert!(snapshot.rows.iter().filter(|r| r.phase != RowPhase::Queued).count() <= self.script.max_rows);
        for (id, held) in backend.batch() {
            let row = decoding.iter().find(|row| row.id == *id).expect("the batch has this row");
            let kept = held.tokens.len() - usize::from(backend.is_ahead());
            assert_eq!(row.kv_cache_tokens as usize, kept, "request {id}");
            let tracked = self.tracked.iter_mut().find(|tracked| tracked.answer.id == *id).unwrap();
            assert_eq!(held.prompt_tokens, tracked.prompt.len());
            if tracked.params.stop.is_empty() {
                let written = tracked.prompt.clone() + &tracked.answer.read().text;
                let written = &written.as_bytes()[..kept];
                assert!(held.tokens.iter().zip(written).all(|(a, b)| *a == u32::from(*b)), "request {id}");
            }
        }
    }

    fn check_end(&mut self) {
        self.bench.run();
        let backend = self.bench.engine.backend();
        assert_eq!((backend.batch().len(), backend.private_rows()), (0, 0), "nothing is left behind");
        assert_eq!(self.bench.stats().unplanned_waits, 0, "the gate's plan is what happened");
        for tracked in &mut self.tracked {
            assert_eq!(tracked.answer.endings(), 1, "exactly one terminal event");
            let (reason, summary) = tracked.answer.finished();
            let expected = expected_text(&self.script, &tracked.prompt, &tracked.params);
            let said = &tracked.answer.text;
            if reason == FinishReason::Cancelled {
                assert!(tracked.is_cancelled && expected.starts_with(said), "{said:?} of {expected:?}");
            } else {
                assert_eq!(*said, expected, "{:?}", tracked.params);
            }
            assert!(summary.answer_tokens <= tracked.params.max_tokens);
            let steps = summary.fused_steps + summary.per_row_steps;
            assert!(steps == summary.answer_tokens || steps == summary.answer_tokens + 1);
        }
    }
}

#[test]
fn thousands_of_random_histories_leave_every_row_as_if_alone() {
    for seed in 0..2000 {
        let mut history = History::new(seed);
        for _ in 0..40 {
            history.act();
        }
        history.check_end();
    }
}

#[test]
fn a_row_that_leaves_takes_its_reason_with_it() {
    let mut bench = Bench::new(endless());
    bench.engine.set_gate_mode(GateMode::Strict);
    let mut answers: Vec<_> = (0..3).map(|i| bench.submit(&format!("plain {i}"), long())).collect();
    let odd = bench.submit("odd", SamplingParams { logprobs: Some(5), max_tokens: 4, ..params() });
    while !bench.engine.is_idle() {
        bench.steps(1);
        answers.iter_mut().for_each(|answer| _ = answer.read());
    }
    let bars: Vec<_> = bench.stats().recent.iter().map(|bar| (bar.batch_rows, bar.per_row_rows)).collect();
    let together =
        bars.iter().rposition(|bar| *bar == (4, 4)).expect("with the odd row, each waits for itself");
    assert_eq!(bars[together + 1], (3, 0), "the step after it left is fused again");
    assert!(bars[together + 1..].iter().all(|(_, per_row)| *per_row == 0), "and so are all that follow");
    assert_eq!(bench.stats().unplanned_waits, 0);
    for answer in &mut answers {
        let paths: Vec<_> = answer.paths();
        let shared = paths.iter().find(|path| path.path == SamplingPath::PerRow).expect("it was slowed");
        assert_eq!((shared.reasons.as_slice(), shared.caused_by), (&[Reason::Logprobs(5)][..], Some(odd.id)));
        let last = paths.last().expect("there were steps");
        assert_eq!((last.path, last.reasons.len(), last.caused_by), (SamplingPath::Fused, 0, None));
    }
}

fn endless() -> Script {
    Script { answer: Says::Hashed { eos_one_in: 0 }, ..Script::default() }
}

fn long() -> SamplingParams {
    SamplingParams { max_tokens: 20, stop: Vec::new(), ..params() }
}

#[test]
fn strict_with_mixed_settings_waits_once_per_row_and_split_once() {
    for (mode, expected) in [(GateMode::Strict, 4), (GateMode::Split, 1)] {
        let mut bench = Bench::new(endless());
        bench.engine.set_gate_mode(mode);
        for i in 0..4 {
            let temperature = 0.5 + i as f32 / 10.0;
            std::mem::forget(
                bench.submit("same", SamplingParams { temperature, max_tokens: 40, ..params() }),
            );
        }
        let is_full = |bench: &Bench| bench.stats().batch_rows == 4;
        while !is_full(&bench) {
            bench.steps(1);
        }
        for _ in 0..5 {
            let before = bench.engine.counters();
            bench.steps(1);
            let after = bench.engine.counters();
            assert_eq!(after.waits - before.waits, expected, "{mode:?}");
            assert_eq!(after.host_reads - before.host_reads, expected, "{mode:?}");
        }
        assert_eq!(bench.stats().unplanned_waits, 0);
    }
}

#[test]
fn fused_steps_wait_once_whatever_the_batch_size() {
    for rows in 1..=16 {
        let mut bench = Bench::new(Script { max_rows: 16, ..Script::default() });
        let answers: Vec<_> = (0..rows).map(|i| bench.submit(&format!("prompt {i}"), params())).collect();
        bench.run();
        drop(answers);
        let stats = bench.stats();
        assert_eq!(bench.engine.counters().waits, stats.decode_steps, "{rows} rows");
        assert_eq!((stats.fused_steps, stats.per_row_steps), (stats.decode_steps, 0));
    }
}

#[test]
fn the_kv_cache_is_told_exactly_which_rows_stay() {
    let mut bench = Bench::new(endless());
    let log = bench.engine.backend().log();
    let answers: Vec<_> = ["a", "b", "c"].map(|prompt| bench.submit(prompt, long())).into();
    bench.steps(1);
    bench.engine.cancel(answers[1].id);
    bench.steps(1);
    let keeps: Vec<_> = log
        .lock()
        .unwrap()
        .iter()
        .filter(|logged| matches!(logged.call, Call::KeepRows(_)))
        .cloned()
        .collect();
    assert_eq!(keeps[0].call, Call::KeepRows(vec![0, 2]));
}

#[test]
fn a_one_token_prompt_joins_without_prefill() {
    let mut bench = Bench::new(Script::default());
    let log = bench.engine.backend().log();
    let mut answer = bench.submit("x", params());
    bench.run();
    assert_eq!(answer.read().text, expected_text(&Script::default(), "x", &params()));
    assert!(!log.lock().unwrap().iter().any(|logged| matches!(logged.call, Call::Prefill(..))));
}
