//! Counts MLX's own entry points at link time (`build.rs` wraps them), so that `mx`'s counters cannot under-report.

use crate::starter;
use engine::backend::{Backend, Counters, RowSampling};
use engine::sampling::noise::row_base;
use mlx_sys::{mlx_array, mlx_stream, mlx_vector_array};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! wrapped {
    ($($counter:ident: $wrap:ident, $real:ident($($argument:ident: $kind:ty),*);)*) => {$(
        static $counter: AtomicU64 = AtomicU64::new(0);
        unsafe extern "C" {
            fn $real($($argument: $kind),*) -> c_int;
        }
        /// Counts and passes on.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $wrap($($argument: $kind),*) -> c_int {
            $counter.fetch_add(1, Relaxed);
            // SAFETY: the arguments are the caller's, unchanged.
            unsafe { $real($($argument),*) }
        }
    )*};
}

wrapped! {
    EVAL: __wrap_mlx_eval, __real_mlx_eval(arrays: mlx_vector_array);
    ASYNC_EVAL: __wrap_mlx_async_eval, __real_mlx_async_eval(arrays: mlx_vector_array);
    ARRAY_EVAL: __wrap_mlx_array_eval, __real_mlx_array_eval(array: mlx_array);
    ITEM_U32: __wrap_mlx_array_item_uint32, __real_mlx_array_item_uint32(out: *mut c_void, array: mlx_array);
    ITEM_I32: __wrap_mlx_array_item_int32, __real_mlx_array_item_int32(out: *mut c_void, array: mlx_array);
    ITEM_F32: __wrap_mlx_array_item_float32, __real_mlx_array_item_float32(out: *mut c_void, array: mlx_array);
    ITEM_BOOL: __wrap_mlx_array_item_bool, __real_mlx_array_item_bool(out: *mut c_void, array: mlx_array);
    TO_STRING: __wrap_mlx_array_tostring, __real_mlx_array_tostring(out: *mut c_void, array: mlx_array);
    SYNCHRONIZE: __wrap_mlx_synchronize, __real_mlx_synchronize(stream: mlx_stream);
}

/// Calls of MLX that evaluate or wait.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Native {
    submitted: u64,
    waited: u64,
    copied: u64,
    hidden: u64,
}

fn native() -> Native {
    let sum = |counters: &[&AtomicU64]| counters.iter().map(|counter| counter.load(Relaxed)).sum();
    Native {
        submitted: sum(&[&ASYNC_EVAL]),
        waited: sum(&[&EVAL]),
        copied: sum(&[&ARRAY_EVAL]),
        hidden: sum(&[&ITEM_U32, &ITEM_I32, &ITEM_F32, &ITEM_BOOL, &TO_STRING, &SYNCHRONIZE]),
    }
}

/// What a step cost by our count and by MLX's.
fn step(
    backend: &mut mlx_backend::MlxBackend,
    run: impl FnOnce(&mut mlx_backend::MlxBackend),
) -> (Counters, Native) {
    let (ours, theirs) = (backend.counters(), native());
    run(backend);
    let now = native();
    let theirs = Native {
        submitted: now.submitted - theirs.submitted,
        waited: now.waited - theirs.waited,
        copied: now.copied - theirs.copied,
        hidden: now.hidden - theirs.hidden,
    };
    (backend.counters().since(ours), theirs)
}

#[test]
fn mlx_counts_the_evaluations_waits_and_reads_that_the_backend_counts() {
    let mut backend = starter::load();
    let mut inputs = Vec::new();
    for rows in 1..=16u64 {
        inputs.push(starter::join(&mut backend, rows, &starter::prompt(5, rows as u32)));
        let sampling: Vec<RowSampling<'_>> = (0..rows)
            .map(|row| RowSampling {
                temperature: 0.8,
                is_greedy: row % 2 == 0,
                top_p: 0.99,
                noise_base: row_base(row, 10),
                shortlist_width: u32::MAX,
                logprobs: (row % 3 == 0).then_some(2),
                ..RowSampling::GREEDY
            })
            .collect();
        let all: Vec<usize> = (0..rows as usize).collect();
        let (ours, theirs) = step(&mut backend, |backend| {
            backend.forward(&inputs).expect("forward runs");
            starter::sample_fused(backend, &all, &sampling);
        });
        assert_eq!((ours.evals, ours.waits, ours.host_reads), (1, 1, 1), "B = {rows}");
        assert_eq!(theirs, Native { submitted: 1, waited: 1, copied: 1, hidden: 0 }, "B = {rows}");
        let (ours, theirs) = step(&mut backend, |backend| {
            backend.forward(&inputs).expect("forward runs");
            for (row, settings) in sampling.iter().enumerate() {
                backend.sample_row(row, settings).expect("sampling runs");
            }
        });
        assert_eq!((ours.waits, ours.host_reads), (rows, rows), "per row, B = {rows}");
        assert_eq!((theirs.waited, theirs.copied, theirs.hidden), (rows, rows, 0), "per row, B = {rows}");
    }
}
