//! Sparse MLP: a router picks a few experts for each token, and their outputs are mixed.
//!
//! Shazeer et al. 2017, arXiv:1701.06538. Every token's experts are multiplied by themselves, so that a row's outputs
//! do not depend on what its neighbours pick.

use super::decoder::Naming;
use super::design::{Shares, SparseDesign};
use super::experts::Experts;
use super::linear::{Bias, Linear};
use crate::error::Result;
use crate::load::Weights;
use crate::mx::{Array, Dtype, ops};

/// A loaded sparse MLP.
pub struct Sparse {
    design: SparseDesign,
    router: Linear,
    gate: Experts,
    up: Experts,
    down: Experts,
}

impl Sparse {
    /// Takes the tensors of `name.mlp`.
    ///
    /// # Errors
    /// As [`Weights::linear`].
    pub fn load(weights: &mut Weights<'_>, naming: &Naming<'_>, design: SparseDesign) -> Result<Sparse> {
        let SparseDesign { experts, intermediate, .. } = design;
        let (prefix, hidden, bias) =
            (format!("{}.mlp", naming.layer), naming.hidden, Bias::of(design.has_bias));
        let mut stack = |part, rows, columns| {
            weights.experts(&format!("{prefix}.{}.{part}", design.stack), [experts, rows, columns], bias)
        };
        let gate = stack("gate_proj", intermediate, hidden)?;
        let up = stack("up_proj", intermediate, hidden)?;
        let down = stack("down_proj", hidden, intermediate)?;
        let router = weights.linear(&format!("{prefix}.{}", design.router), experts, hidden, bias)?;
        Ok(Sparse { design, router, gate, up, down })
    }

    /// `[B, T, hidden]` to `[B, T, hidden]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn apply(&self, x: &Array) -> Result<Array> {
        let (rows, tokens, hidden) = (x.dim(0), x.dim(1), x.dim(2));
        let (picks, shares) = self.route(x)?;
        let inputs = ops::reshape(x, &[rows, tokens, 1, 1, hidden])?;
        let gate = self.gate.apply(&inputs, &picks)?;
        let up = self.up.apply(&inputs, &picks)?;
        let outputs = self.down.apply(&self.design.activation.gated(&gate, &up)?, &picks)?;
        let picked = self.design.picked;
        let outputs = ops::reshape(&outputs, &[rows, tokens, picked, hidden])?;
        let shares = ops::reshape(&ops::cast(&shares, outputs.dtype())?, &[rows, tokens, picked, 1])?;
        ops::reshape(&ops::sum(&ops::multiply(&outputs, &shares)?, 2)?, &[rows, tokens, hidden])
    }

    /// Experts of each token, likeliest first, `[B, T, picked]` u32, and what each counts, f32.
    fn route(&self, x: &Array) -> Result<(Array, Array)> {
        let scores = ops::cast(&self.router.apply(x)?, Dtype::Float32)?;
        // Sorted as a whole, and stably: equal scores must not be picked by their place in memory.
        let order = ops::argsort(&ops::negative(&scores)?, -1)?;
        let picks = ops::slice_axis(&order, 2, 0, self.design.picked)?;
        let shares = match self.design.shares {
            Shares::OfPicked => ops::softmax(&ops::take_along_axis(&scores, &picks, -1)?, -1)?,
            Shares::OfAll => ops::take_along_axis(&ops::softmax(&scores, -1)?, &picks, -1)?,
        };
        Ok((picks, shares))
    }

    /// Every array of the MLP.
    pub fn arrays(&self) -> Vec<&Array> {
        let stacks = [&self.gate, &self.up, &self.down].into_iter().flat_map(Experts::arrays);
        self.router.arrays().into_iter().chain(stacks).collect()
    }
}
