//! What a decode step costs in submissions, waits and reads.

use crate::starter;
use engine::backend::{Backend, Counters, RowSampling};
use engine::sampling::noise::row_base;

fn step_cost(
    backend: &mut mlx_backend::MlxBackend,
    run: impl FnOnce(&mut mlx_backend::MlxBackend),
) -> Counters {
    let before = backend.counters();
    run(backend);
    backend.counters().since(before)
}

#[test]
fn a_fused_step_waits_once_whatever_the_batch_and_per_row_waits_once_a_row() {
    let mut backend = starter::load();
    let mut inputs = Vec::new();
    for rows in 1..=16u64 {
        inputs.push(starter::join(&mut backend, rows, &starter::prompt(3 + rows as usize, rows as u32)));
        // Greedy, temperature alone and top-k in one batch: three families, one graph.
        let sampling: Vec<RowSampling<'_>> = (0..rows)
            .map(|row| RowSampling {
                temperature: 0.8,
                is_greedy: row % 3 == 0,
                top_k: if row % 3 == 1 { 40 } else { 0 },
                noise_base: row_base(row, 10),
                ..RowSampling::GREEDY
            })
            .collect();
        let all: Vec<usize> = (0..rows as usize).collect();
        let fused = step_cost(&mut backend, |backend| {
            backend.forward(&inputs).expect("forward runs");
            starter::sample_fused(backend, &all, &sampling);
        });
        assert_eq!((fused.evals, fused.waits, fused.host_reads), (1, 1, 1), "fused, B = {rows}");
        if rows == 4 {
            let strict = step_cost(&mut backend, |backend| {
                backend.forward(&inputs).expect("forward runs");
                for (row, settings) in sampling.iter().enumerate() {
                    backend.sample_row(row, settings).expect("sampling runs");
                }
            });
            assert_eq!((strict.evals, strict.waits, strict.host_reads), (4, 4, 4), "per row, B = 4");
        }
    }
}
