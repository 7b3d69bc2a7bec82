//! Matrices of which every row picks a few: the experts of a sparse MLP.

use crate::error::Result;
use crate::mx::ops::PickOrder;
use crate::mx::quantised::{self, Packed};
use crate::mx::{Array, ops};

/// How a stack of matrices is stored.
pub enum Stack {
    /// `[experts, out, in]`.
    Dense(Array),
    /// Packed `[experts, out, in]`.
    Packed(Packed),
}

/// Matrices `[experts, out, in]`, and what each adds to its outputs.
pub struct Experts {
    stack: Stack,
    /// `[experts, out]`.
    bias: Option<Array>,
}

impl Experts {
    /// Of a stack and its vectors.
    pub fn new(stack: Stack, bias: Option<Array>) -> Experts {
        Experts { stack, bias }
    }

    /// Products with picked matrices: x `[…, 1 or n, 1, in]` with `picks` `[…, n]` u32 gives `[…, n, 1, out]`. Each
    /// product is computed alone, so that a row's outputs do not depend on its neighbours.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn apply(&self, x: &Array, picks: &Array, order: PickOrder) -> Result<Array> {
        let products = match &self.stack {
            Stack::Dense(weight) => ops::gather_matmul(x, &ops::swap_last_axes(weight)?, picks, order)?,
            Stack::Packed(packed) => quantised::gather_matmul(x, packed, picks, order)?,
        };
        match &self.bias {
            None => Ok(products),
            Some(bias) => {
                let picked = ops::take_axis(bias, picks, 0)?;
                ops::add(&products, &ops::reshape(&picked, &with_one_before_last(picked.shape()))?)
            }
        }
    }

    /// Every array of the stack.
    pub fn arrays(&self) -> Vec<&Array> {
        match &self.stack {
            Stack::Dense(weight) => [weight].into_iter().chain(&self.bias).collect(),
            Stack::Packed(packed) => packed.arrays().chain(&self.bias).collect(),
        }
    }
}

fn with_one_before_last(shape: &[i32]) -> Vec<i32> {
    let mut shape = shape.to_vec();
    shape.insert(shape.len().saturating_sub(1), 1);
    shape
}
