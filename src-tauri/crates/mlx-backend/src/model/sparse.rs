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
use crate::mx::ops::PickOrder;
use crate::mx::{Array, Dtype, ops};

/// Products of a prompt from which on they are computed expert by expert. As mlx-lm has it: below, few tokens share one.
const SORTED_PRODUCTS: i32 = 64;

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
        let (count, hidden, picked) = (x.dim(0) * x.dim(1), x.dim(2), self.design.picked);
        let tokens = ops::reshape(x, &[count, hidden])?;
        let (picks, shares) = self.route(&tokens)?;
        // By the tokens of a prompt, not by the rows of a step: those are computed alike however many there are.
        let outputs = match x.dim(1) * picked {
            few if few < SORTED_PRODUCTS => {
                let inputs = ops::reshape(&tokens, &[count, 1, 1, hidden])?;
                self.outputs(&inputs, &picks, PickOrder::Any)?
            }
            _ => self.outputs_by_expert(&tokens, &picks)?,
        };
        let outputs = ops::reshape(&outputs, &[count, picked, hidden])?;
        let shares = ops::reshape(&ops::cast(&shares, outputs.dtype())?, &[count, picked, 1])?;
        ops::reshape(&ops::sum(&ops::multiply(&outputs, &shares)?, 1)?, x.shape())
    }

    /// Outputs `[…, n, 1, hidden]` of picked experts, with inputs and picks as [`Experts::apply`] takes them.
    fn outputs(&self, inputs: &Array, picks: &Array, order: PickOrder) -> Result<Array> {
        let gate = self.gate.apply(inputs, picks, order)?;
        let up = self.up.apply(inputs, picks, order)?;
        self.down.apply(&self.design.activation.gated(&gate, &up)?, picks, order)
    }

    /// The same for tokens `[tokens, hidden]` and picks `[tokens, picked]`, computed expert by expert and brought back
    /// into the order of the picks, `[tokens·picked, 1, hidden]`.
    fn outputs_by_expert(&self, tokens: &Array, picks: &Array) -> Result<Array> {
        let (count, hidden, picked) = (tokens.dim(0), tokens.dim(1), self.design.picked);
        let products = count * picked;
        let picks = ops::reshape(picks, &[products])?;
        let order = ops::argsort(&picks, 0)?;
        let token_of: Vec<i32> = (0..products).map(|product| product / picked).collect();
        let token_of = ops::take_axis(&Array::from_slice(&token_of, &[products]), &order, 0)?;
        let inputs = ops::reshape(&ops::take_axis(tokens, &token_of, 0)?, &[products, 1, hidden])?;
        let outputs = self.outputs(&inputs, &ops::take_axis(&picks, &order, 0)?, PickOrder::Ascending)?;
        ops::take_axis(&outputs, &ops::argsort(&order, 0)?, 0)
    }

    /// Experts of each token `[tokens, hidden]`, likeliest first, `[tokens, picked]` u32, and what each counts, f32.
    fn route(&self, x: &Array) -> Result<(Array, Array)> {
        let scores = ops::cast(&self.router.apply(x)?, Dtype::Float32)?;
        // Sorted as a whole, and stably: equal scores must not be picked by their place in memory.
        let order = ops::argsort(&ops::negative(&scores)?, -1)?;
        let picks = ops::slice_axis(&order, 1, 0, self.design.picked)?;
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
