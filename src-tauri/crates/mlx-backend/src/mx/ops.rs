//! MLX operations that can fail without panicking, on one cached stream.
//!
//! mlx-rs clones a stream handle for every operation and its operators panic; a decode step builds over a
//! thousand operations, so these call mlx-sys with the thread's stream. Names and axes are MLX's.

use crate::error::{MlxError, Result};
use mlx_rs::{Array, Device, Dtype, Stream, error::Exception};
use mlx_sys as sys;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Once;

thread_local! {
    static STREAM: RefCell<Option<Stream>> = const { RefCell::new(None) };
    static LAST_ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
}

unsafe extern "C" fn keep_error(message: *const c_char, _: *mut c_void) {
    // SAFETY: MLX passes a NUL-terminated string that lives for the call.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    LAST_ERROR.with_borrow_mut(|last| *last = Some(text));
}

/// Installs the error handler after mlx-rs has installed its own, which would end the process.
pub(super) fn install_error_handler() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Any mlx-rs operation makes it register its handler, once; ours must come later.
        drop(mlx_rs::ops::zeros::<f32>(&[1]));
        // SAFETY: the handler has the signature MLX asks for and needs no data.
        unsafe { sys::mlx_set_error_handler(Some(keep_error), std::ptr::null_mut(), None) };
    });
}

/// The error MLX raised last on this thread, as this crate's.
pub(crate) fn failure(op: &'static str, fallback: Option<Exception>) -> MlxError {
    let what = LAST_ERROR
        .take()
        .or_else(|| fallback.map(|error| error.what().to_owned()))
        .unwrap_or_else(|| "no reason given".into());
    MlxError::of_mlx(op, what)
}

pub(super) fn call(
    op: &'static str,
    build: impl FnOnce(*mut sys::mlx_array, sys::mlx_stream) -> c_int,
) -> Result<Array> {
    STREAM.with_borrow_mut(|slot| {
        let stream = match slot {
            Some(stream) => stream,
            None => {
                install_error_handler();
                let stream = Stream::try_default_on_device(&default_device()?)
                    .map_err(|error| failure("default stream", Some(error)))?;
                slot.insert(stream)
            }
        };
        // SAFETY: a fresh handle is written by the call, and owned by the Array from here on.
        unsafe {
            let mut result = sys::mlx_array_new();
            let status = build(&mut result, stream.as_ptr());
            let array = Array::from_ptr(result);
            if status == 0 { Ok(array) } else { Err(failure(op, None)) }
        }
    })
}

fn default_device() -> Result<Device> {
    Device::try_default().map_err(|error| failure("default device", Some(error)))
}

/// Leaves this thread's stream, which a failed evaluation may have made unusable, for a new one, and forgets the
/// error it raised.
///
/// # Errors
/// [`MlxError::Op`].
pub fn renew_stream() -> Result<()> {
    install_error_handler();
    LAST_ERROR.take();
    let stream = Stream::new_with_device(&default_device()?);
    // SAFETY: the handle is valid for the call. Arrays without a primitive are evaluated on the default stream.
    if unsafe { sys::mlx_set_default_stream(stream.as_ptr()) } != 0 {
        return Err(failure("default stream", None));
    }
    STREAM.set(Some(stream));
    Ok(())
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $ffi:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: &Array) -> Result<Array> {
            // SAFETY: handles are valid for the call.
            call(stringify!($name), |out, stream| unsafe { sys::$ffi(out, a.as_ptr(), stream) })
        }
    )*};
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $ffi:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: &Array, b: &Array) -> Result<Array> {
            // SAFETY: handles are valid for the call.
            call(stringify!($name), |out, stream| unsafe { sys::$ffi(out, a.as_ptr(), b.as_ptr(), stream) })
        }
    )*};
}

unary! {
    /// Natural logarithm.
    log = mlx_log;
    /// ln(1 + a).
    log1p = mlx_log1p;
    /// e^a.
    exp = mlx_exp;
    /// Hyperbolic tangent.
    tanh = mlx_tanh;
    /// −a.
    negative = mlx_negative;
    /// a².
    square = mlx_square;
    /// 1/√a.
    rsqrt = mlx_rsqrt;
    /// 1/(1 + e^−a).
    sigmoid = mlx_sigmoid;
    /// Whether each element is NaN.
    is_nan = mlx_isnan;
    /// Reverses the axes; a view.
    transpose = mlx_transpose;
}

binary! {
    /// a + b, broadcast.
    add = mlx_add;
    /// a − b, broadcast.
    subtract = mlx_subtract;
    /// a · b element by element, broadcast.
    multiply = mlx_multiply;
    /// a / b, broadcast.
    divide = mlx_divide;
    /// Larger of the two.
    maximum = mlx_maximum;
    /// Smaller of the two.
    minimum = mlx_minimum;
    /// Matrix product over the last two axes.
    matmul = mlx_matmul;
    /// a < b.
    less = mlx_less;
    /// a ≤ b.
    less_equal = mlx_less_equal;
    /// a ≥ b.
    greater_equal = mlx_greater_equal;
    /// a = b.
    equal = mlx_equal;
    /// a and b, of booleans.
    logical_and = mlx_logical_and;
    /// a or b, of booleans.
    logical_or = mlx_logical_or;
    /// Bitwise exclusive or.
    bitwise_xor = mlx_bitwise_xor;
    /// Bitwise or.
    bitwise_or = mlx_bitwise_or;
    /// a << b.
    left_shift = mlx_left_shift;
    /// a >> b.
    right_shift = mlx_right_shift;
}

/// `where(condition, a, b)`, broadcast; `a` and `b` of one dtype.
pub fn select(condition: &Array, a: &Array, b: &Array) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("where", |out, stream| unsafe {
        sys::mlx_where(out, condition.as_ptr(), a.as_ptr(), b.as_ptr(), stream)
    })
}

/// Casts; no copy when the dtype is the same.
pub fn cast(a: &Array, dtype: Dtype) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("astype", |out, stream| unsafe { sys::mlx_astype(out, a.as_ptr(), dtype as sys::mlx_dtype, stream) })
}

/// The same bytes as another dtype; the last axis grows or shrinks with the width of an element.
pub fn view(a: &Array, dtype: Dtype) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("view", |out, stream| unsafe { sys::mlx_view(out, a.as_ptr(), dtype as sys::mlx_dtype, stream) })
}

/// Copies into row-major order unless it is already.
pub fn contiguous(a: &Array) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("contiguous", |out, stream| unsafe { sys::mlx_contiguous(out, a.as_ptr(), false, stream) })
}

/// Same elements in another shape; −1 is inferred.
pub fn reshape(a: &Array, shape: &[i32]) -> Result<Array> {
    // SAFETY: `shape` outlives the call.
    call("reshape", |out, stream| unsafe {
        sys::mlx_reshape(out, a.as_ptr(), shape.as_ptr(), shape.len(), stream)
    })
}

/// Reorders the axes; a view.
pub fn transpose_axes(a: &Array, axes: &[i32]) -> Result<Array> {
    // SAFETY: `axes` outlives the call.
    call("transpose", |out, stream| unsafe {
        sys::mlx_transpose_axes(out, a.as_ptr(), axes.as_ptr(), axes.len(), stream)
    })
}

/// Swaps the last two axes; a view.
pub fn swap_last_axes(a: &Array) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("swapaxes", |out, stream| unsafe { sys::mlx_swapaxes(out, a.as_ptr(), -1, -2, stream) })
}

/// How the matrices that products pick from a stack follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickOrder {
    /// In any way.
    Any,
    /// By their index: a GPU reads a matrix once for all that pick it.
    Ascending,
}

/// Products with matrices picked from a stack: a `[…, 1 or n, T, in]`, b `[experts, in, out]`, `picks` `[…, n]` u32, to
/// `[…, n, T, out]`.
pub fn gather_matmul(a: &Array, b: &Array, picks: &Array, order: PickOrder) -> Result<Array> {
    let none = sys::mlx_array { ctx: std::ptr::null_mut() };
    // SAFETY: handles are valid for the call; the null one stands for "the matrices of `a` in order".
    call("gather_mm", |out, stream| unsafe {
        let is_sorted = order == PickOrder::Ascending;
        sys::mlx_gather_mm(out, a.as_ptr(), b.as_ptr(), none, picks.as_ptr(), is_sorted, stream)
    })
}

/// Repeats along axes of length 1; a view.
pub fn broadcast_to(a: &Array, shape: &[i32]) -> Result<Array> {
    // SAFETY: `shape` outlives the call.
    call("broadcast_to", |out, stream| unsafe {
        sys::mlx_broadcast_to(out, a.as_ptr(), shape.as_ptr(), shape.len(), stream)
    })
}

/// Elements `start..stop` of `axis`; a view.
pub fn slice_axis(a: &Array, axis: usize, start: i32, stop: i32) -> Result<Array> {
    let mut from = vec![0; a.ndim()];
    let mut to = a.shape().to_vec();
    let steps = vec![1; a.ndim()];
    (from[axis], to[axis]) = (start, stop);
    // SAFETY: the three lists outlive the call.
    call("slice", |out, stream| unsafe {
        let ndim = from.len();
        sys::mlx_slice(out, a.as_ptr(), from.as_ptr(), ndim, to.as_ptr(), ndim, steps.as_ptr(), ndim, stream)
    })
}

/// `a` with `update` written from `start` on, in place where MLX can donate `a`.
pub fn slice_update(a: &Array, update: &Array, start: &[i32]) -> Result<Array> {
    let stop: Vec<i32> = start.iter().zip(update.shape()).map(|(from, len)| from + len).collect();
    let steps = vec![1; start.len()];
    // SAFETY: the three lists outlive the call.
    call("slice_update", |out, stream| unsafe {
        let ndim = start.len();
        sys::mlx_slice_update(
            out,
            a.as_ptr(),
            update.as_ptr(),
            start.as_ptr(),
            ndim,
            stop.as_ptr(),
            ndim,
            steps.as_ptr(),
            ndim,
            stream,
        )
    })
}

/// Joins arrays along `axis`.
pub fn concatenate(arrays: &[&Array], axis: i32) -> Result<Array> {
    // SAFETY: the vector owns copies of the handles and is freed after the call.
    unsafe {
        let list = sys::mlx_vector_array_new();
        for array in arrays {
            sys::mlx_vector_array_append_value(list, array.as_ptr());
        }
        let joined = call("concatenate", |out, stream| sys::mlx_concatenate_axis(out, list, axis, stream));
        sys::mlx_vector_array_free(list);
        joined
    }
}

/// Elements of `axis` at `indices`.
pub fn take_axis(a: &Array, indices: &Array, axis: i32) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("take", |out, stream| unsafe { sys::mlx_take_axis(out, a.as_ptr(), indices.as_ptr(), axis, stream) })
}

/// Elements of `axis` at `indices`, one list per position of the other axes.
pub fn take_along_axis(a: &Array, indices: &Array, axis: i32) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("take_along_axis", |out, stream| unsafe {
        sys::mlx_take_along_axis(out, a.as_ptr(), indices.as_ptr(), axis, stream)
    })
}

/// `a` with `values` written along `axis` at `indices`, in place where MLX can donate `a`.
pub fn put_along_axis(a: &Array, indices: &Array, values: &Array, axis: i32) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("put_along_axis", |out, stream| unsafe {
        sys::mlx_put_along_axis(out, a.as_ptr(), indices.as_ptr(), values.as_ptr(), axis, stream)
    })
}

macro_rules! reduction {
    ($($(#[$doc:meta])* $name:ident = $ffi:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(a: &Array, axis: i32) -> Result<Array> {
            // SAFETY: handles are valid for the call.
            call(stringify!($name), |out, stream| unsafe { sys::$ffi(out, a.as_ptr(), axis, true, stream) })
        }
    )*};
}

reduction! {
    /// Sum over `axis`, which stays with length 1.
    sum = mlx_sum_axis;
    /// Mean over `axis`, which stays with length 1.
    mean = mlx_mean_axis;
    /// Largest over `axis`, which stays with length 1.
    max = mlx_max_axis;
    /// Index of the largest over `axis`, lowest on ties; u32; the axis stays with length 1.
    argmax = mlx_argmax_axis;
    /// ln Σ e^a over `axis`, which stays with length 1.
    logsumexp = mlx_logsumexp_axis;
}

/// Softmax over `axis`.
pub fn softmax(a: &Array, axis: i32) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("softmax", |out, stream| unsafe { sys::mlx_softmax_axis(out, a.as_ptr(), axis, true, stream) })
}

/// Indices that sort `axis` ascending; stable.
pub fn argsort(a: &Array, axis: i32) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("argsort", |out, stream| unsafe { sys::mlx_argsort_axis(out, a.as_ptr(), axis, stream) })
}

/// Sorts `axis` ascending.
pub fn sort(a: &Array, axis: i32) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("sort", |out, stream| unsafe { sys::mlx_sort_axis(out, a.as_ptr(), axis, stream) })
}

/// Running sums over `axis`, each including its own element.
pub fn cumsum(a: &Array, axis: i32) -> Result<Array> {
    let dtype = sys::mlx_optional_dtype { value: Dtype::Float32 as sys::mlx_dtype, has_value: false };
    // SAFETY: handles are valid for the call.
    call("cumsum", |out, stream| unsafe {
        sys::mlx_cumsum_axis(out, a.as_ptr(), axis, false, true, dtype, stream)
    })
}

/// Zeros.
pub fn zeros(shape: &[i32], dtype: Dtype) -> Result<Array> {
    // SAFETY: `shape` outlives the call.
    call("zeros", |out, stream| unsafe {
        sys::mlx_zeros(out, shape.as_ptr(), shape.len(), dtype as sys::mlx_dtype, stream)
    })
}

/// 0, 1, … below `end`, as i32.
pub fn arange(end: i32) -> Result<Array> {
    // SAFETY: no handles.
    call("arange", |out, stream| unsafe {
        sys::mlx_arange(out, 0.0, f64::from(end), 1.0, Dtype::Int32 as sys::mlx_dtype, stream)
    })
}

/// RMS norm over the last axis, times `weight`.
pub fn rms_norm(x: &Array, weight: &Array, eps: f32) -> Result<Array> {
    // SAFETY: handles are valid for the call.
    call("rms_norm", |out, stream| unsafe {
        sys::mlx_fast_rms_norm(out, x.as_ptr(), weight.as_ptr(), eps, stream)
    })
}

/// RMS norm over the last axis, without a weight.
pub fn rms_unit(x: &Array, eps: f32) -> Result<Array> {
    // SAFETY: handles are valid for the call; the empty array stands for "no weight".
    call("rms_norm", |out, stream| unsafe {
        let none = Array::from_ptr(sys::mlx_array_new());
        sys::mlx_fast_rms_norm(out, x.as_ptr(), none.as_ptr(), eps, stream)
    })
}

/// Where a rotary embedding's frequencies come from.
#[derive(Clone, Copy)]
pub enum Frequencies<'a> {
    /// base^(−2i/dims).
    Base(f32),
    /// Tokens per radian of each pair, `[dims/2]` f32.
    Periods(&'a Array),
}

/// Rotary embedding of halves over the first `dims` of the last axis of `[B, H, T, D]`; `offsets` `[B]` i32 or a scalar.
pub fn rope(x: &Array, dims: i32, frequencies: Frequencies<'_>, offsets: &Array) -> Result<Array> {
    // SAFETY: handles are valid for the call; the empty array stands for "frequencies from the base".
    call("rope", |out, stream| unsafe {
        let none = Array::from_ptr(sys::mlx_array_new());
        let (base, periods) = match frequencies {
            Frequencies::Base(base) => (sys::mlx_optional_float { value: base, has_value: true }, &none),
            Frequencies::Periods(periods) => {
                (sys::mlx_optional_float { value: 0.0, has_value: false }, periods)
            }
        };
        sys::mlx_fast_rope_dynamic(
            out,
            x.as_ptr(),
            dims,
            false,
            base,
            1.0,
            offsets.as_ptr(),
            periods.as_ptr(),
            stream,
        )
    })
}

/// Which keys each query sees.
#[derive(Clone, Copy)]
pub enum Mask<'a> {
    /// Those at or before it; the last query stands at the last key.
    Causal,
    /// Those where a boolean array, broadcast to `[B, H, Tq, Tk]`, is true.
    Keep(&'a Array),
    /// All of them.
    Everything,
}

/// softmax(q·kᵀ·scale)·v for q `[B, H, Tq, D]` and k, v `[B, Hkv, Tk, D]`. `sinks`: one score per query head, `[H]`, that
/// takes part in its softmax and has no value.
pub fn attention(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: f32,
    mask: Mask<'_>,
    sinks: Option<&Array>,
) -> Result<Array> {
    // SAFETY: handles are valid for the call; empty arrays stand for "no mask" and "no sinks".
    call("attention", |out, stream| unsafe {
        let none = Array::from_ptr(sys::mlx_array_new());
        let (mode, array) = match mask {
            Mask::Causal => (c"causal", none.as_ptr()),
            Mask::Keep(keep) => (c"array", keep.as_ptr()),
            Mask::Everything => (c"", none.as_ptr()),
        };
        sys::mlx_fast_scaled_dot_product_attention(
            out,
            q.as_ptr(),
            k.as_ptr(),
            v.as_ptr(),
            scale,
            mode.as_ptr(),
            array,
            sinks.unwrap_or(&none).as_ptr(),
            false,
            stream,
        )
    })
}

/// Turns graph compilation off in this process: on the CPU it would call a C++ compiler at run time.
pub fn disable_compile() {
    // SAFETY: sets a process-wide flag.
    unsafe { sys::mlx_disable_compile() };
}
