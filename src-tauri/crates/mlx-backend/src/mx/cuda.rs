//! Kernels of our own for NVIDIA GPUs: `cuda/*.cu`, compiled by MLX when a shape first needs them.
//!
//! MLX's quantised product slows down with every row up to eight, and one-token attention with a mask is a chain of
//! operations there. A decode step of a batch is mostly these two. See ADR 0009.

use super::heads::Scores;
use super::ops::{self, failure};
use super::packed::Gate;
use super::quantised::{Mode, Quantisation};
use super::{Array, Dtype};
use crate::error::Result;
use mlx_sys as sys;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::sync::OnceLock;

/// Most rows that one product takes.
const MAX_ROWS: i32 = 8;
/// Weights from which on MLX's product is slower at two rows already; below, from five.
const LARGE_WEIGHTS: i64 = 16 << 20;
/// Outputs from which on one block computes four; below, warps share the inputs of two.
const MANY_OUTPUTS: i32 = 4096;
/// Most columns that one block attends to; past them, MLX's chain of operations keeps the whole GPU busy.
pub const MAX_ATTENDED_TOKENS: usize = 2048;

const WARP: i32 = 32;
const ATTENTION_WARPS: i32 = 8;
const GATE_THREADS: i32 = 256;

/// Whether MLX computes on an NVIDIA GPU.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let mut available = false;
        // SAFETY: writes one flag.
        unsafe { sys::mlx_cuda_is_available(&mut available) == 0 && available }
    })
}

/// Whether [`rows_matmul`] takes weights packed this way.
pub fn supports(packed: [&Array; 3], quantisation: Quantisation) -> bool {
    let inputs = packed[0].dim(1) * 8;
    let is_four_bit = quantisation.mode == Mode::Affine && quantisation.bits == 4;
    is_available() && is_four_bit && inputs % 16 == 0 && packed[1].dtype() == Dtype::Bfloat16
}

/// Whether [`rows_matmul`] beats MLX's product for `rows` inputs of `packed`.
pub fn pays(packed: [&Array; 3], rows: i32) -> bool {
    let weights = i64::from(packed[0].dim(0)) * i64::from(packed[0].dim(1)) * 8;
    let least = if weights >= LARGE_WEIGHTS { 2 } else { 5 };
    (least..=MAX_ROWS).contains(&rows)
}

/// Whether [`attend`] takes heads of this kind, `group` query heads to a key head: a block shares what each of its warps
/// found in 48 KiB.
pub fn attends(head_dim: i32, group: i32, dtype: Dtype) -> bool {
    let shared_bytes = ATTENTION_WARPS * group * (head_dim + 2) * 4;
    let fits = head_dim % WARP == 0 && head_dim <= 256 && shared_bytes <= 48 << 10;
    is_available() && fits && dtype == Dtype::Bfloat16
}

enum Template {
    Int(&'static CStr, i32),
    Flag(&'static CStr, bool),
    Dtype(&'static CStr, Dtype),
}

struct Launch<'a> {
    inputs: &'a [&'a Array],
    template: &'a [Template],
    /// Threads in all, and in a block, along the first axis.
    threads: [i32; 2],
    shape: &'a [i32],
    dtype: Dtype,
}

struct Kernel(sys::mlx_fast_cuda_kernel);

impl Kernel {
    fn new(name: &CStr, inputs: &[&CStr], source: &str) -> Kernel {
        let source = CString::new(source).expect("kernel sources hold no NUL");
        // SAFETY: MLX copies the texts; the lists are freed here.
        unsafe {
            let list = |names: &[&CStr]| {
                let list = sys::mlx_vector_string_new();
                for name in names {
                    sys::mlx_vector_string_append_value(list, name.as_ptr());
                }
                list
            };
            let (inputs, outputs) = (list(inputs), list(&[c"out"]));
            let source = source.as_ptr();
            let kernel =
                sys::mlx_fast_cuda_kernel_new(name.as_ptr(), inputs, outputs, source, c"".as_ptr(), true, 0);
            sys::mlx_vector_string_free(inputs);
            sys::mlx_vector_string_free(outputs);
            Kernel(kernel)
        }
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Array> {
        // SAFETY: every handle made here is freed here; the result is owned by the array.
        ops::call("cuda kernel", |out, stream| unsafe {
            let config = sys::mlx_fast_cuda_kernel_config_new();
            let (shape, [threads, block]) = (launch.shape, launch.threads);
            sys::mlx_fast_cuda_kernel_config_add_output_arg(
                config,
                shape.as_ptr(),
                shape.len(),
                launch.dtype as sys::mlx_dtype,
            );
            sys::mlx_fast_cuda_kernel_config_set_grid(config, threads, 1, 1);
            sys::mlx_fast_cuda_kernel_config_set_thread_group(config, block, 1, 1);
            for argument in launch.template {
                match argument {
                    Template::Int(name, value) => {
                        sys::mlx_fast_cuda_kernel_config_add_template_arg_int(config, name.as_ptr(), *value)
                    }
                    Template::Flag(name, value) => {
                        sys::mlx_fast_cuda_kernel_config_add_template_arg_bool(config, name.as_ptr(), *value)
                    }
                    Template::Dtype(name, dtype) => sys::mlx_fast_cuda_kernel_config_add_template_arg_dtype(
                        config,
                        name.as_ptr(),
                        *dtype as sys::mlx_dtype,
                    ),
                };
            }
            let inputs = sys::mlx_vector_array_new();
            for input in launch.inputs {
                sys::mlx_vector_array_append_value(inputs, input.as_ptr());
            }
            let mut outputs = sys::mlx_vector_array_new();
            let mut status: c_int =
                sys::mlx_fast_cuda_kernel_apply(&mut outputs, self.0, inputs, config, stream);
            if status == 0 {
                status = sys::mlx_vector_array_get(out, outputs, 0);
            }
            sys::mlx_vector_array_free(outputs);
            sys::mlx_vector_array_free(inputs);
            sys::mlx_fast_cuda_kernel_config_free(config);
            status
        })
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the handle is owned and freed once.
        unsafe { sys::mlx_fast_cuda_kernel_free(self.0) };
    }
}

struct Kernels {
    rows: Kernel,
    attend: Kernel,
    gate: Kernel,
    /// Sizes that kernels read, by value: one upload each instead of one per launch.
    sizes: RefCell<HashMap<[i32; 3], Array>>,
    /// The same for factors, by their bits.
    factors: RefCell<HashMap<[u32; 2], Array>>,
}

thread_local! {
    static KERNELS: OnceCell<Kernels> = const { OnceCell::new() };
}

fn with_kernels<T>(run: impl FnOnce(&Kernels) -> Result<T>) -> Result<T> {
    if !is_available() {
        return Err(failure("cuda kernel", None));
    }
    KERNELS.with(|kernels| {
        run(kernels.get_or_init(|| Kernels {
            rows: Kernel::new(
                c"braid_rows",
                &[c"x", c"weights", c"scales", c"offsets", c"residual", c"dims"],
                include_str!("../../cuda/rows.cu"),
            ),
            attend: Kernel::new(
                c"braid_attend",
                &[c"q", c"k", c"v", c"shape", c"factor", c"sinks"],
                include_str!("../../cuda/attend.cu"),
            ),
            gate: Kernel::new(c"braid_gate", &[c"x", c"dims"], include_str!("../../cuda/gate.cu")),
            sizes: RefCell::default(),
            factors: RefCell::default(),
        }))
    })
}

impl Kernels {
    fn sizes(&self, sizes: [i32; 3]) -> Array {
        self.sizes.borrow_mut().entry(sizes).or_insert_with(|| Array::from_slice(&sizes, &[3])).clone()
    }

    fn factors(&self, factors: [f32; 2]) -> Array {
        let array = || Array::from_slice(&factors, &[2]);
        self.factors.borrow_mut().entry(factors.map(f32::to_bits)).or_insert_with(array).clone()
    }
}

/// `x · wᵀ` for two to eight rows of `x` `[…, in]` bf16, plus `residual` `[…, out]`; `packed` as
/// [`super::quantised::Packed::affine`] gives it, 4 bits. Each row is summed in f32, in one order whatever the number of rows.
///
/// # Errors
/// [`crate::MlxError::Op`], also on other devices.
pub fn rows_matmul(
    x: &Array,
    residual: Option<&Array>,
    packed: [&Array; 3],
    quantisation: Quantisation,
) -> Result<Array> {
    let (inputs, outputs) = (x.dim(-1), packed[0].dim(0));
    let rows = (x.size() / inputs as usize) as i32;
    let (columns, warps) = if outputs >= MANY_OUTPUTS { (4, if rows > 4 { 1 } else { 2 }) } else { (2, 4) };
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    let [weights, scales, offsets] = packed;
    with_kernels(|kernels| {
        kernels.rows.launch(&Launch {
            inputs: &[
                x,
                weights,
                scales,
                offsets,
                residual.unwrap_or(x),
                &kernels.sizes([inputs, outputs, rows]),
            ],
            template: &[
                Template::Dtype(c"T", x.dtype()),
                Template::Int(c"ROWS", rows.max(2).unsigned_abs().next_power_of_two() as i32),
                Template::Int(c"C", columns),
                Template::Int(c"W", warps),
                Template::Int(c"GROUP", quantisation.group_size),
                Template::Flag(c"ADDS", residual.is_some()),
            ],
            threads: [(outputs + columns - 1) / columns * WARP * warps, WARP * warps],
            shape: &shape,
            dtype: x.dtype(),
        })
    })
}

/// What [`attend`] has to know of a step, once for all layers that attend alike: capacity, key heads, then the first
/// column of each row and the one after its last, i32.
pub struct Spans(Array);

impl Spans {
    /// `columns`: those that each row sees, at least one.
    pub fn new(capacity: i32, kv_heads: i32, columns: impl Iterator<Item = std::ops::Range<i32>>) -> Spans {
        let ends = columns.flat_map(|columns| [columns.start, columns.end]);
        let shape: Vec<i32> = [capacity, kv_heads].into_iter().chain(ends).collect();
        Spans(Array::from_slice(&shape, &[shape.len() as i32]))
    }
}

/// softmax(scores of q·kᵀ)·v for one token per row: q `[B, H, 1, D]`, keys and values `[B, Hkv, capacity, D]`, bf16.
/// Returns `[B, H, 1, D]`.
///
/// # Errors
/// As [`rows_matmul`].
pub fn attend(q: &Array, keys: &Array, values: &Array, spans: &Spans, scores: Scores<'_>) -> Result<Array> {
    let kv_heads = keys.dim(1);
    let block = WARP * ATTENTION_WARPS;
    with_kernels(|kernels| {
        let factors = kernels.factors([scores.scale, scores.softcap.unwrap_or_default()]);
        kernels.attend.launch(&Launch {
            inputs: &[q, keys, values, &spans.0, &factors, scores.sinks.unwrap_or(&factors)],
            template: &[
                Template::Dtype(c"T", q.dtype()),
                Template::Int(c"D", q.dim(3)),
                Template::Int(c"G", q.dim(1) / kv_heads),
                Template::Flag(c"CAPS", scores.softcap.is_some()),
                Template::Flag(c"SINKS", scores.sinks.is_some()),
            ],
            threads: [q.dim(0) * kv_heads * block, block],
            shape: q.shape(),
            dtype: q.dtype(),
        })
    })
}

/// The activation of the gate times up, of `[…, 2·width]`, gate before up.
///
/// # Errors
/// As [`rows_matmul`].
pub fn gate(x: &Array, gate: Gate) -> Result<Array> {
    let width = x.dim(-1) / 2;
    let elements = (x.size() / 2) as i32;
    let mut shape = x.shape().to_vec();
    if let Some(last) = shape.last_mut() {
        *last = width;
    }
    with_kernels(|kernels| {
        kernels.gate.launch(&Launch {
            inputs: &[x, &kernels.sizes([width, elements, 0])],
            template: &[Template::Dtype(c"T", x.dtype()), Template::Flag(c"GELU", gate == Gate::GeluTanh)],
            threads: [(elements + GATE_THREADS - 1) / GATE_THREADS * GATE_THREADS, GATE_THREADS],
            shape: &shape,
            dtype: x.dtype(),
        })
    })
}
