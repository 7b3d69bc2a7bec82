//! MLPs, run as their design says.

use super::decoder::{Addition, Naming};
use super::design::{Activation, GatedDesign, MlpDesign, Storage};
use super::linear::{Bias, Linear};
use super::sparse::Sparse;
use crate::error::Result;
use crate::load::Weights;
use crate::mx::packed::{Gate, Input};
use crate::mx::{Array, ops};

/// The MLP of a layer.
pub enum Mlp {
    /// As [`MlpDesign::Gated`].
    Gated(Gated),
    /// As [`MlpDesign::Sparse`].
    Sparse(Sparse),
}

impl Mlp {
    /// Takes the tensors of `name.mlp`.
    ///
    /// # Errors
    /// [`crate::MlxError::Shape`], [`crate::MlxError::Op`].
    pub fn load(weights: &mut Weights<'_>, naming: &Naming<'_>, design: &MlpDesign) -> Result<Mlp> {
        match design {
            MlpDesign::Gated(design) => Ok(Mlp::Gated(Gated::load(weights, naming, *design)?)),
            MlpDesign::Sparse(design) => Ok(Mlp::Sparse(Sparse::load(weights, naming, *design)?)),
        }
    }

    /// The MLP of `input` `[B, T, hidden]`, added to the residual stream.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn add_to(&self, addition: Addition<'_>, input: Input<'_>) -> Result<Array> {
        match self {
            Mlp::Gated(gated) => gated.add_to(addition, input),
            Mlp::Sparse(sparse) => addition.of_array(sparse.apply(&input.computed()?)?),
        }
    }

    /// Every array.
    pub fn arrays(&self) -> Vec<&Array> {
        match self {
            Mlp::Gated(gated) => [&gated.gate_up, &gated.down].into_iter().flat_map(Linear::arrays).collect(),
            Mlp::Sparse(sparse) => sparse.arrays(),
        }
    }
}

/// down(activation(gate(x)) · up(x)).
pub struct Gated {
    activation: Activation,
    gate_up: Linear,
    down: Linear,
}

impl Gated {
    fn load(weights: &mut Weights<'_>, naming: &Naming<'_>, design: GatedDesign) -> Result<Gated> {
        let GatedDesign { intermediate, activation, gate_up, has_bias } = design;
        let (name, bias) = (format!("{}.mlp", naming.layer), Bias::of(has_bias));
        let gate_up = match gate_up {
            Storage::Together => {
                weights.linear(&format!("{name}.gate_up_proj"), 2 * intermediate, naming.hidden, bias)?
            }
            Storage::Apart => {
                let parts = [("gate_proj", intermediate), ("up_proj", intermediate)];
                weights.merged(&name, &parts, naming.hidden, bias)?
            }
        };
        let down = weights.linear(&format!("{name}.down_proj"), naming.hidden, intermediate, bias)?;
        Ok(Gated { activation, gate_up, down })
    }

    fn add_to(&self, addition: Addition<'_>, input: Input<'_>) -> Result<Array> {
        let gate_up = self.gate_up.apply_to(input, None)?;
        if let Some(gate) = self.activation.gate() {
            return addition.of(&self.down, Input::Gated(&gate_up, gate));
        }
        let (axis, both) = (gate_up.ndim() - 1, gate_up.dim(-1));
        let gate = ops::slice_axis(&gate_up, axis, 0, both / 2)?;
        let up = ops::slice_axis(&gate_up, axis, both / 2, both)?;
        addition.of(&self.down, Input::Plain(&self.activation.gated(&gate, &up)?))
    }
}

impl Activation {
    /// The activation as products know it, if they do.
    fn gate(self) -> Option<Gate> {
        match self {
            Activation::Silu => Some(Gate::Silu),
            Activation::GeluTanh => Some(Gate::GeluTanh),
            Activation::SiluClamped { .. } => None,
        }
    }

    /// The activation of `gate` times `up`, of one shape.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn gated(self, gate: &Array, up: &Array) -> Result<Array> {
        let number = |value: f32| ops::cast(&Array::from_f32(value), gate.dtype());
        match self {
            Activation::Silu => ops::multiply(&Gate::Silu.of(gate)?, up),
            Activation::GeluTanh => ops::multiply(&Gate::GeluTanh.of(gate)?, up),
            Activation::SiluClamped { limit } => {
                let (most, least) = (number(limit)?, number(-limit)?);
                let gate = ops::minimum(gate, &most)?;
                let up = ops::maximum(&ops::minimum(up, &most)?, &least)?;
                let opened = ops::sigmoid(&ops::multiply(&gate, &number(1.702)?)?)?;
                ops::multiply(&ops::multiply(&gate, &opened)?, &ops::add(&up, &number(1.0)?)?)
            }
        }
    }
}
