//! How the tensors of one matrix are packed, and whether they are what the config says.

use super::{Weights, is_float};
use crate::config::quantisation::Stated;
use crate::error::{MlxError, Result};
use crate::mx::Dtype;
use crate::mx::quantised::{Mode, Packed, Quantisation};

impl Weights<'_> {
    /// How the matrix `prefix` is packed, `None` for floats, by the config and by what the files hold.
    pub(super) fn quantisation_of(&self, prefix: &str, columns: i32) -> Result<Option<Quantisation>> {
        let spelt = self.spelling.in_files(prefix);
        let weight = format!("{spelt}.weight");
        let has_scales = self.tensors.contains_key(&format!("{spelt}.scales"));
        let has_weight = self.tensors.contains_key(&weight);
        let mismatch = |mismatch| Err(MlxError::Quantisation { name: weight, mismatch });
        match (self.config.quantisation.of(&spelt), has_scales) {
            (Stated::ByName(Some(_)), false) if has_weight => {
                mismatch("config.json says that it is quantised, but the files hold no scales of it")
            }
            (Stated::ByName(Some(own)), _) => Ok(Some(own)),
            (Stated::AsMost(most), true) => Ok(Some(self.evident(&spelt, columns).unwrap_or(most))),
            (Stated::ByName(None), true) => {
                mismatch("config.json says that it is not quantised, but the files hold scales of it")
            }
            (Stated::Floats, true) => {
                mismatch("the files hold scales of it, but config.json has no quantization entry")
            }
            (_, false) => Ok(None),
        }
    }

    /// What the shapes of a packed matrix say by themselves. Converters give some matrices more bits than most, and not
    /// all of them write that down.
    fn evident(&self, spelt: &str, columns: i32) -> Option<Quantisation> {
        let last = |part: &str| {
            let tensor = self.tensors.get(&format!("{spelt}.{part}"))?;
            Some((tensor.shape().last().copied().filter(|width| *width > 0)?, tensor.dtype()))
        };
        let ((words, _), (groups, scales)) = (last("weight")?, last("scales")?);
        let bits = i32::try_from(i64::from(words) * 32 / i64::from(columns.max(1))).ok()?;
        let group_size = columns / groups;
        let mode = match (scales, bits, group_size) {
            (Dtype::Uint8, 8, _) => Mode::Mxfp8,
            (Dtype::Uint8, _, 16) => Mode::Nvfp4,
            (Dtype::Uint8, ..) => Mode::Mxfp4,
            _ => Mode::Affine,
        };
        Some(Quantisation { mode, group_size, bits }).filter(|found| found.exists())
    }

    /// Takes the tensors of a packed matrix, scales in the dtype that floats are computed in. `shape`: that of the
    /// matrix, or of a stack of them, with inputs last.
    pub(super) fn packed(
        &mut self,
        prefix: &str,
        shape: &[i32],
        quantisation: Quantisation,
    ) -> Result<Packed> {
        let weight = format!("{prefix}.weight");
        let columns = shape.last().copied().unwrap_or_default();
        if columns % quantisation.group_size != 0 {
            return Err(self.mismatch(&weight, "its inputs do not divide into groups"));
        }
        let of_width = |width: i32| {
            let mut shape = shape.to_vec();
            shape.pop();
            shape.push(width);
            shape
        };
        let groups = of_width(columns / quantisation.group_size);
        let is_affine = quantisation.mode == Mode::Affine;
        let scale_dtype = if is_affine { self.dtype } else { Dtype::Uint8 };
        let packed = Packed {
            weight: self.take(&weight, &of_width(quantisation.words_of(columns)), Dtype::Uint32)?,
            scales: self.take(&format!("{prefix}.scales"), &groups, scale_dtype)?,
            biases: match is_affine {
                true => Some(self.take(&format!("{prefix}.biases"), &groups, scale_dtype)?),
                false => None,
            },
            quantisation,
        };
        let has_scales = packed.scales_and_biases().all(|array| match is_affine {
            true => is_float(array.dtype()),
            false => array.dtype() == Dtype::Uint8,
        });
        if !has_scales || packed.weight.dtype() != Dtype::Uint32 {
            return Err(
                self.mismatch(&weight, "its codes or scales have another dtype than its quantisation")
            );
        }
        match is_affine {
            // Before anything is computed: MLX computes in the dtype of the scales, and f16 would round.
            true => packed.with_scales_as(self.dtype),
            false => Ok(packed),
        }
    }

    pub(super) fn mismatch(&self, name: &str, mismatch: &'static str) -> MlxError {
        MlxError::Quantisation { name: self.spelling.in_files(name), mismatch }
    }
}
