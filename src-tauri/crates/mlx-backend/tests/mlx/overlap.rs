//! Forward passes submitted before the tokens that precede them are read.

use crate::starter;
use engine::TokenId;
use engine::backend::{Backend, Counters, RowSampling, StepInput};
use engine::sampling::noise::row_base;
use mlx_backend::MlxBackend;

/// Whether the next forward pass is submitted before the tokens are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlap {
    Off,
    On,
}

/// Greedy, temperature alone and top-k side by side.
fn mixed(rows: usize, position: u32) -> Vec<RowSampling<'static>> {
    (0..rows)
        .map(|row| RowSampling {
            temperature: 0.8,
            is_greedy: row % 3 == 0,
            top_k: if row % 3 == 1 { 40 } else { 0 },
            noise_base: row_base(row as u64, position),
            ..RowSampling::GREEDY
        })
        .collect()
}

fn join_all(backend: &mut MlxBackend, lens: &[usize]) -> Vec<StepInput> {
    let prompts = lens.iter().zip(0..).map(|(len, salt)| starter::prompt(*len, salt));
    prompts.enumerate().map(|(id, prompt)| starter::join(backend, id as u64, &prompt)).collect()
}

/// A batch that decodes, as the engine drives it.
struct Loop {
    backend: MlxBackend,
    inputs: Vec<StepInput>,
    is_ahead: bool,
    steps: u32,
}

impl Loop {
    fn new(lens: &[usize]) -> Loop {
        let mut backend = starter::load();
        let inputs = join_all(&mut backend, lens);
        Loop { backend, inputs, is_ahead: false, steps: 0 }
    }

    /// One step with the settings of [`mixed`]; the tokens, and what the step cost.
    fn step(&mut self, overlap: Overlap) -> (Vec<TokenId>, Counters) {
        let sampling = mixed(self.inputs.len(), self.steps);
        self.step_with(overlap, &sampling)
    }

    fn step_with(&mut self, overlap: Overlap, sampling: &[RowSampling<'_>]) -> (Vec<TokenId>, Counters) {
        let before = self.backend.counters();
        let rows: Vec<usize> = (0..self.inputs.len()).collect();
        if !std::mem::take(&mut self.is_ahead) {
            self.backend.forward(&self.inputs).expect("forward runs");
        }
        self.backend.submit_fused(&rows, sampling).expect("sampling is submitted");
        if overlap == Overlap::On {
            let columns: Vec<u32> = self.inputs.iter().map(|input| input.kv_cache_tokens + 1).collect();
            self.backend.forward_ahead(&columns).expect("the next forward pass is submitted");
        }
        let read = self.backend.read_fused(&rows, sampling).expect("sampling runs");
        self.is_ahead = overlap == Overlap::On && !read.is_ahead_stale;
        let tokens: Vec<TokenId> =
            read.sampled.iter().map(|row| row.token.expect("the rows are good")).collect();
        for (input, token) in self.inputs.iter_mut().zip(&tokens) {
            *input = StepInput { token: *token, kv_cache_tokens: input.kv_cache_tokens + 1 };
        }
        self.steps += 1;
        (tokens, self.backend.counters().since(before))
    }
}

#[test]
fn overlapped_steps_give_the_tokens_of_plain_ones_for_two_submissions_one_wait_one_read() {
    let lens = [5, 11, 1, 20];
    let (mut plain, mut overlapped) = (Loop::new(&lens), Loop::new(&lens));
    for step in 0..24 {
        let (expected, sync) = plain.step(Overlap::Off);
        let (tokens, pipelined) = overlapped.step(Overlap::On);
        assert_eq!(tokens, expected, "step {step}");
        assert_eq!((sync.evals, sync.waits, sync.host_reads), (1, 1, 1), "plain step {step}");
        assert_eq!(
            (pipelined.evals, pipelined.waits, pipelined.host_reads, pipelined.forwards_ahead),
            (2, 1, 1, 1),
            "overlapped step {step}"
        );
    }
}

#[test]
fn most_forward_passes_ahead_still_run_when_the_tokens_before_them_are_read() {
    let mut batch = Loop::new(&[40, 40]);
    let before = batch.backend.counters();
    for _ in 0..24 {
        batch.step(Overlap::On);
    }
    let counters = batch.backend.counters().since(before);
    assert_eq!(counters.forwards_ahead, 24);
    // A busy machine may stop this thread long enough for a forward pass to end; it cannot do so every time.
    assert!(counters.forwards_overlapped > 12, "overlapped: {}", counters.forwards_overlapped);
}

#[test]
fn submitting_never_waits() {
    let mut backend = starter::load();
    let inputs = join_all(&mut backend, &[30, 30, 30]);
    let before = backend.counters();
    backend.forward(&inputs).expect("forward runs");
    backend.submit_fused(&[0, 1, 2], &mixed(3, 0)).expect("sampling is submitted");
    backend.forward_ahead(&[30, 30, 30]).expect("the next forward pass is submitted");
    let counters = backend.counters().since(before);
    assert_eq!(
        (counters.waits, counters.host_reads),
        (0, 0),
        "two forward passes and a sampler are under way"
    );
}

#[test]
fn rows_leave_between_a_forward_pass_ahead_and_its_sampling() {
    let lens = [9, 3, 14, 6];
    let (mut plain, mut overlapped) = (Loop::new(&lens), Loop::new(&lens));
    for keep in [vec![0, 1, 3], vec![1, 2], vec![0]] {
        for batch in [&mut plain, &mut overlapped] {
            batch.backend.keep_rows(&keep).expect("a row leaves");
            batch.inputs = keep.iter().map(|row| batch.inputs[*row]).collect();
        }
        for _ in 0..3 {
            assert_eq!(overlapped.step(Overlap::On).0, plain.step(Overlap::Off).0, "rows {keep:?} stay");
        }
    }
}

#[test]
fn a_forward_pass_ahead_of_a_too_narrow_shortlist_is_stale_and_its_replay_is_right() {
    let lens = [12, 7];
    let (mut plain, mut overlapped) = (Loop::new(&lens), Loop::new(&lens));
    let (mut stale, mut misses) = (0, 0);
    for step in 0..24 {
        // Nearly all of the mass of a flat row: 256 ids do not hold it.
        let sampling: Vec<RowSampling<'_>> = (0..2)
            .map(|row| RowSampling {
                temperature: 3.0,
                top_p: 0.98,
                is_greedy: false,
                noise_base: row_base(row, step),
                ..RowSampling::GREEDY
            })
            .collect();
        let (expected, _) = plain.step_with(Overlap::Off, &sampling);
        let (tokens, cost) = overlapped.step_with(Overlap::On, &sampling);
        assert_eq!(tokens, expected, "step {step}");
        misses += cost.width_misses;
        stale += u32::from(!overlapped.is_ahead);
    }
    assert!(misses > 0 && stale > 0, "{misses} misses, {stale} stale: the case did not occur");
}
