//! Rotary embeddings on the device: tables from the host on the CPU, MLX's kernel on a GPU.

use crate::error::Result;
use crate::load::Numerics;
use crate::model::rope::{RopeDesign, Scaling};
use crate::mx::ops::{self, Frequencies};
use crate::mx::{Array, heads};

/// A rotary embedding of a model, with what the device needs of it.
pub struct Rope {
    design: RopeDesign,
    numerics: Numerics,
    /// Tokens per radian of each pair, `[turned/2]`, where MLX's kernel does not know them from the base.
    periods: Option<Array>,
    /// `[head_dim]`, where what is turned has a factor.
    magnitudes: Option<Array>,
}

/// How queries and keys are rotated in one forward pass.
pub enum Rotation {
    /// `cos` and signed `sin`, `[B, 1, T, turned]`.
    Tables { cos: Array, sin: Array, numerics: Numerics },
    /// MLX's kernel; `offsets` `[B]` i32.
    Kernel { offsets: Array, turned: i32, base: f32, periods: Option<Array>, magnitudes: Option<Array> },
}

impl Rope {
    /// For heads `head_dim` wide.
    pub fn new(design: RopeDesign, head_dim: i32, numerics: Numerics) -> Rope {
        let inverse = &design.inverse_frequencies;
        let periods = (design.scaling == Scaling::ByFrequency).then(|| {
            let periods: Vec<f32> = inverse.iter().map(|inverse| inverse.recip()).collect();
            Array::from_slice(&periods, &[periods.len() as i32])
        });
        let magnitudes = (design.magnitude != 1.0).then(|| {
            let turned = design.turned();
            let magnitudes: Vec<f32> =
                (0..head_dim).map(|i| if i < turned { design.magnitude } else { 1.0 }).collect();
            Array::from_slice(&magnitudes, &[head_dim])
        });
        Rope { design, numerics, periods, magnitudes }
    }

    /// Computes as a device with these numerics would, from the next rotation on.
    pub fn set_numerics(&mut self, numerics: Numerics) {
        self.numerics = numerics;
    }

    /// Rotation for rows that start at `offsets`, `tokens` long each.
    pub fn rotation(&self, offsets: &[i32], tokens: i32) -> Rotation {
        let is_dynamic = offsets.iter().any(|offset| self.design.is_dynamic_at(offset + tokens - 1));
        if self.numerics == Numerics::Checkpoint && !is_dynamic {
            return Rotation::Kernel {
                offsets: Array::from_slice(offsets, &[offsets.len() as i32]),
                turned: self.design.turned(),
                base: self.design.base,
                periods: self.periods.clone(),
                magnitudes: self.magnitudes.clone(),
            };
        }
        let turned = self.design.turned();
        let magnitude = f64::from(self.design.magnitude);
        let count = offsets.len() * (tokens * turned) as usize;
        let (mut cos, mut sin) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for position in offsets.iter().flat_map(|offset| *offset..*offset + tokens) {
            let inverse = self.design.inverse_frequencies_at(position);
            // Angles in f32, as every other implementation: at far positions the rounding is part of the model.
            let angles = inverse.iter().map(|inverse| f64::from(position as f32 * inverse));
            cos.extend(angles.clone().chain(angles.clone()).map(|angle| (magnitude * angle.cos()) as f32));
            sin.extend(angles.clone().map(|angle| (-magnitude * angle.sin()) as f32));
            sin.extend(angles.map(|angle| (magnitude * angle.sin()) as f32));
        }
        let shape = [offsets.len() as i32, 1, tokens, turned];
        let (cos, sin) = (Array::from_slice(&cos, &shape), Array::from_slice(&sin, &shape));
        Rotation::Tables { cos, sin, numerics: self.numerics }
    }
}

impl Rotation {
    /// Rotates `[B, H, T, head_dim]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn apply(&self, x: &Array) -> Result<Array> {
        match self {
            Rotation::Kernel { offsets, turned, base, periods, magnitudes } => {
                let frequencies = match periods {
                    Some(periods) => Frequencies::Periods(periods),
                    None => Frequencies::Base(*base),
                };
                let Some(magnitudes) = magnitudes else {
                    return ops::rope(x, *turned, frequencies, offsets);
                };
                let grown = ops::multiply(x, &ops::cast(magnitudes, x.dtype())?)?;
                ops::rope(&grown, *turned, frequencies, offsets)
            }
            Rotation::Tables { cos, sin, numerics: Numerics::FullPrecision } if heads::supports(x.dim(3)) => {
                heads::turn(x, cos, sin)
            }
            Rotation::Tables { cos, sin, .. } => {
                let (turned, width) = (cos.dim(3), x.dim(3));
                let part = |from: i32, to: i32| ops::slice_axis(x, 3, from, to);
                let (low, high) = (part(0, turned / 2)?, part(turned / 2, turned)?);
                let swapped = ops::concatenate(&[&high, &low], 3)?;
                let there = ops::multiply(&part(0, turned)?, cos)?;
                let rotated = ops::cast(&ops::add(&there, &ops::multiply(&swapped, sin)?)?, x.dtype())?;
                if turned == width {
                    return Ok(rotated);
                }
                ops::concatenate(&[&rotated, &part(turned, width)?], 3)
            }
        }
    }
}
