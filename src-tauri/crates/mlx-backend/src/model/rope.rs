//! Rotary positions and the ways to stretch them, as descriptions.
//!
//! Su et al. 2021, arXiv:2104.09864. Scalings as transformers 5.24 (`modeling_rope_utils.py`) and mlx-lm 0.32.2
//! (`rope_utils.py`) define them; where those differ, the function says which one is followed.

use crate::config::fields::Fields;
use crate::error::Result;
use std::f64::consts::TAU;

/// A rotary embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeDesign {
    /// Base of the frequencies before any scaling.
    pub base: f32,
    /// Radians per token of each pair of elements.
    pub inverse_frequencies: Vec<f32>,
    /// Factor of what is turned.
    pub magnitude: f32,
    /// How the frequencies relate to the base.
    pub scaling: Scaling,
}

/// How frequencies follow from the base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// base^(−2i/turned).
    Absent,
    /// Otherwise, but the same at every position.
    ByFrequency,
    /// By a base that grows with positions past `original_tokens`.
    Dynamic {
        /// How many times longer the context is to become.
        factor: f32,
        /// Context that needs no scaling.
        original_tokens: u32,
    },
}

impl RopeDesign {
    /// Turns the first `turned` elements of a head, without scaling.
    pub fn plain(base: f32, turned: i32) -> RopeDesign {
        let inverse_frequencies = inverse_frequencies(f64::from(base), turned);
        RopeDesign { base, inverse_frequencies, magnitude: 1.0, scaling: Scaling::Absent }
    }

    /// Turns a `part` of the pairs of a head, each with the frequency that it has where all of them turn, divided by
    /// `factor`; the others stand still.
    pub fn proportional(base: f32, head_dim: i32, part: f32, factor: f32) -> RopeDesign {
        let turning = (f64::from(head_dim) * f64::from(part)) as usize / 2;
        let whole = RopeDesign::plain(base, head_dim);
        whole.scaled(|pair, inverse| if pair < turning { inverse / f64::from(factor) } else { 0.0 })
    }

    /// Elements of a head that turn.
    pub fn turned(&self) -> i32 {
        2 * self.inverse_frequencies.len() as i32
    }

    /// Whether the frequencies at `position` are other ones than [`Self::inverse_frequencies`].
    pub fn is_dynamic_at(&self, position: i32) -> bool {
        match self.scaling {
            Scaling::Dynamic { original_tokens, .. } => i64::from(position) >= i64::from(original_tokens),
            _ => false,
        }
    }

    /// Radians per token at a position.
    ///
    /// Dynamic scaling lets the base follow the length of what has been read. Implementations take the length at the
    /// end of the chunk that they read, so that keys depend on how a prompt is cut; here each token takes the length
    /// up to itself, which is what they do when they read token by token.
    pub fn inverse_frequencies_at(&self, position: i32) -> std::borrow::Cow<'_, [f32]> {
        let Scaling::Dynamic { factor, original_tokens } = self.scaling else {
            return (&self.inverse_frequencies).into();
        };
        if !self.is_dynamic_at(position) {
            return (&self.inverse_frequencies).into();
        }
        let turned = f64::from(self.turned());
        let (factor, length) = (f64::from(factor), f64::from(position) + 1.0);
        let stretch = factor * length / f64::from(original_tokens) - (factor - 1.0);
        let base = f64::from(self.base) * stretch.powf(turned / (turned - 2.0));
        inverse_frequencies(base, self.turned()).into()
    }
}

fn inverse_frequencies(base: f64, turned: i32) -> Vec<f32> {
    let half = turned / 2;
    (0..half).map(|i| base.powf(-f64::from(i) / f64::from(half)) as f32).collect()
}

/// What a config says about positions beside the scaling itself.
#[derive(Debug, Clone, Copy)]
pub struct Positions {
    /// Width of a head.
    pub head_dim: i32,
    /// Part of a head that turns, above 0 and at most 1.
    pub part: f32,
    /// Base where the config has none.
    pub default_base: f32,
    /// `max_position_embeddings`.
    pub context_tokens: u32,
}

/// Part of a head that turns: `partial_rotary_factor`, of the config or of its `rope_parameters`.
///
/// # Errors
/// [`crate::MlxError::Config`] unless it is above 0 and at most 1.
pub fn part(fields: &Fields<'_>) -> Result<f32> {
    let nested = match fields.object("rope_parameters")? {
        Some(parameters) => parameters.positive("partial_rotary_factor")?,
        None => None,
    };
    let part = fields.positive("partial_rotary_factor")?.or(nested).unwrap_or(1.0);
    if part > 1.0 {
        return Err(fields.malformed(format!("partial_rotary_factor must be at most 1, but is {part}")));
    }
    Ok(part)
}

/// Reads `rope_theta` and `rope_scaling`, or `rope_parameters`, which holds both in newer configs. Returns the
/// embedding and the context window that it is good for.
///
/// # Errors
/// [`crate::MlxError::UnsupportedField`] for a scaling that Braid does not have, [`crate::MlxError::Config`].
pub fn read(fields: &Fields<'_>, positions: Positions) -> Result<(RopeDesign, u32)> {
    let parameters = fields.object("rope_parameters")?;
    let scaling = fields.object("rope_scaling")?;
    let own_base = match &parameters {
        Some(parameters) => parameters.positive("rope_theta")?,
        None => None,
    };
    let base = fields.positive("rope_theta")?.or(own_base).unwrap_or(positions.default_base);
    if fields.flag("rope_traditional")? {
        return Err(fields.unsupported("rope_traditional"));
    }
    if let (Some(parameters), Some(scaling)) = (&parameters, &scaling) {
        let kind = parameters.text("rope_type")?;
        if kind.is_some_and(|kind| kind != "default") && kind != scaling_type(scaling)? {
            return Err(fields.unsupported("rope_parameters"));
        }
    }
    let original = fields.optional_size("original_max_position_embeddings")?;
    match scaling.or(parameters) {
        None => Ok((RopeDesign::plain(base, positions.turned()), positions.context_tokens)),
        Some(scaling) => read_scaling(&scaling, base, original, positions),
    }
}

/// Reads the entry of `rope_parameters` for one type of layer; `None` where the config keeps no such entries.
///
/// # Errors
/// As [`read`].
pub fn of_layer_type(
    fields: &Fields<'_>,
    layer_type: &str,
    positions: Positions,
) -> Result<Option<(RopeDesign, u32)>> {
    let Some(parameters) = fields.object("rope_parameters")? else { return Ok(None) };
    match parameters.object(layer_type)? {
        Some(own) => read_scaling(&own, positions.default_base, None, positions).map(Some),
        None => Ok(None),
    }
}

/// Older configs say `type`, newer ones `rope_type`, some both.
fn scaling_type<'a>(fields: &Fields<'a>) -> Result<Option<&'a str>> {
    let (old, new) = (fields.text("type")?, fields.text("rope_type")?);
    Ok(old.or(new))
}

/// Reads one object of scaling parameters. Its own `rope_theta` and original context come before `base` and `original`.
///
/// # Errors
/// As [`read`].
pub fn read_scaling(
    fields: &Fields<'_>,
    base: f32,
    original: Option<i32>,
    positions: Positions,
) -> Result<(RopeDesign, u32)> {
    let context_tokens = positions.context_tokens;
    let base = fields.positive("rope_theta")?.unwrap_or(base);
    let original = fields.optional_size("original_max_position_embeddings")?.or(original);
    if fields.positive("partial_rotary_factor")?.is_some_and(|part| part != positions.part) {
        return Err(fields.unsupported("partial_rotary_factor"));
    }
    // Yarn and longrope divide by their logarithms.
    if base <= 1.0 || original.is_some_and(|tokens| tokens < 2) {
        let reason = format!("rope scaling cannot have base {base} and original context {original:?}");
        return Err(fields.malformed(reason));
    }
    let plain = RopeDesign::plain(base, positions.turned());
    let (rope, context_tokens) = match scaling_type(fields)?.unwrap_or("default") {
        "default" => (plain, context_tokens),
        "linear" => {
            let factor = fields.required_positive("factor")?;
            (plain.scaled(|_, inverse| inverse / f64::from(factor)), context_tokens)
        }
        "dynamic" => {
            let factor = fields.required_positive("factor")?;
            let scaling = Scaling::Dynamic { factor, original_tokens: context_tokens };
            (RopeDesign { scaling, ..plain }, (context_tokens as f32 * factor.max(1.0)) as u32)
        }
        "llama3" => (llama3(fields, plain, original)?, context_tokens),
        "yarn" => yarn(fields, plain, original, context_tokens)?,
        "longrope" | "su" => (longrope(fields, plain, original, context_tokens)?, context_tokens),
        _ => {
            return Err(fields.unsupported(if fields.text("type")?.is_some() {
                "type"
            } else {
                "rope_type"
            }));
        }
    };
    fields.finish_strictly(&["finetuned"])?;
    Ok((rope, context_tokens))
}

impl Positions {
    fn turned(&self) -> i32 {
        // Even: pairs turn.
        (self.head_dim as f32 * self.part) as i32 / 2 * 2
    }
}

impl RopeDesign {
    /// The same with other frequencies: from the index of a pair and its radians per token.
    fn scaled(self, change: impl Fn(usize, f64) -> f64) -> RopeDesign {
        let changed = self.inverse_frequencies.iter().enumerate();
        let inverse_frequencies = changed.map(|(i, inverse)| change(i, f64::from(*inverse)) as f32).collect();
        RopeDesign { inverse_frequencies, scaling: Scaling::ByFrequency, ..self }
    }
}

/// Slow pairs turn `factor` times slower, fast ones as before, those between by a mixture.
fn llama3(fields: &Fields<'_>, plain: RopeDesign, original: Option<i32>) -> Result<RopeDesign> {
    let factor = f64::from(fields.required_positive("factor")?);
    let low = f64::from(fields.positive("low_freq_factor")?.unwrap_or(1.0));
    let high = f64::from(fields.positive("high_freq_factor")?.unwrap_or(4.0));
    let original = f64::from(original.unwrap_or(8192));
    if high <= low {
        return Err(fields.malformed("rope scaling needs low_freq_factor below high_freq_factor".into()));
    }
    Ok(plain.scaled(|_, inverse| {
        let turns = original * inverse / TAU;
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        inverse * ((1.0 - kept) / factor + kept)
    }))
}

/// Peng et al. 2023, arXiv:2309.00071.
fn yarn(
    fields: &Fields<'_>,
    plain: RopeDesign,
    original: Option<i32>,
    context_tokens: u32,
) -> Result<(RopeDesign, u32)> {
    let factor = f64::from(fields.required_positive("factor")?);
    let original = original.map_or(context_tokens, |original| original as u32);
    let beta_fast = f64::from(fields.positive("beta_fast")?.unwrap_or(32.0));
    let beta_slow = f64::from(fields.positive("beta_slow")?.unwrap_or(1.0));
    let mscale = fields.positive("mscale")?.map_or(1.0, f64::from);
    let mscale_all_dim = fields.positive("mscale_all_dim")?.map_or(0.0, f64::from);
    let own_magnitude = fields.positive("attention_factor")?;
    let is_truncated = fields.optional_flag("truncate")?.unwrap_or(true);
    let turned = f64::from(plain.turned());
    let base = f64::from(plain.base);
    // Pair that makes so many turns in the original context.
    let pair_of = |turns: f64| turned * (f64::from(original) / (turns * TAU)).ln() / (2.0 * base.ln());
    let (mut low, mut high) = (pair_of(beta_fast), pair_of(beta_slow));
    if is_truncated {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(turned - 1.0));
    if low == high {
        // As every implementation does: the ramp must not be infinitely steep.
        high += 0.001;
    }
    let magnitude_of = |weight: f64| if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 };
    let magnitude = own_magnitude.unwrap_or((magnitude_of(mscale) / magnitude_of(mscale_all_dim)) as f32);
    let rope = plain.scaled(|i, inverse| {
        let stretched = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
        inverse * (stretched / factor + 1.0 - stretched)
    });
    let stretched_tokens = (f64::from(original) * factor) as u32;
    Ok((RopeDesign { magnitude, ..rope }, context_tokens.max(stretched_tokens)))
}

/// Ding et al. 2024, arXiv:2402.13753. Always the long factors, as mlx-lm: transformers changes to the short ones while a
/// conversation is shorter than the original context, so that keys cached before and after that do not fit.
fn longrope(
    fields: &Fields<'_>,
    plain: RopeDesign,
    original: Option<i32>,
    context_tokens: u32,
) -> Result<RopeDesign> {
    let pairs = plain.inverse_frequencies.len();
    let original = original.unwrap_or(4096);
    let long = fields.all_positive("long_factor")?.filter(|factors| factors.len() == pairs);
    let long = long.ok_or_else(|| fields.malformed(format!("long_factor must be {pairs} numbers")))?;
    let _: Option<Vec<f32>> = fields.all_positive("short_factor")?;
    let own_magnitude = fields.positive("attention_factor")?.or(fields.positive("long_mscale")?);
    let _: Option<f32> = fields.positive("short_mscale")?;
    let own_factor = fields.positive("factor")?.map(f64::from);
    let stretch = own_factor.unwrap_or(f64::from(context_tokens) / f64::from(original));
    let magnitude = match own_magnitude {
        Some(magnitude) => magnitude,
        None if stretch <= 1.0 => 1.0,
        None => (1.0 + stretch.ln() / f64::from(original).ln()).sqrt() as f32,
    };
    let rope = plain.scaled(|i, inverse| inverse / f64::from(long[i]));
    Ok(RopeDesign { magnitude, ..rope })
}
