//! Positions, masks and attention for ragged rows: what differs between prefill and decode, between layers, and
//! between devices.
//!
//! Columns of the KV cache stay where they are: a sliding window is a matter of which ones a row looks at.

mod rotation;
mod sight;

pub use sight::AttentionClass;

use crate::error::Result;
use crate::kv_cache::{Columns, KvCache, LayerKv, PrivateKv};
use crate::load::Numerics;
use crate::model::design::{Design, KvSource};
use crate::mx::Array;
use rotation::{Rope, Rotation};
use sight::{View, longest_after};
use std::fmt;

/// Attention that several layers have in common.
#[derive(Debug, Clone, PartialEq)]
struct Kind {
    heads: i32,
    kv_heads: i32,
    head_dim: i32,
    scale: f32,
    window_tokens: Option<i32>,
    softcap: Option<f32>,
    has_sinks: bool,
}

impl Kind {
    /// The first column that the token in column `position` sees.
    fn first_seen(&self, position: i32) -> i32 {
        self.window_tokens.map_or(0, |window| (position + 1 - window).max(0))
    }
}

struct PlannedLayer {
    kind: usize,
    rope: Option<usize>,
    /// Layer of the KV cache that holds its keys and values.
    kv_layer: usize,
}

/// How the attention of each layer of a model is computed on this device.
pub struct Plan {
    numerics: Numerics,
    kinds: Vec<Kind>,
    ropes: Vec<Rope>,
    layers: Vec<PlannedLayer>,
}

impl Plan {
    /// Of a model. Layers that attend alike share what a pass prepares for them.
    pub fn new(design: &Design, numerics: Numerics) -> Plan {
        let (mut kinds, mut layers): (Vec<Kind>, Vec<PlannedLayer>) = (Vec::new(), Vec::new());
        let mut kv_layers = 0;
        for layer in &design.layers {
            let attention = &layer.attention;
            let kind = Kind {
                heads: attention.heads,
                kv_heads: attention.kv_heads,
                head_dim: attention.head_dim,
                scale: attention.scale,
                window_tokens: attention.window_tokens,
                softcap: attention.softcap,
                has_sinks: attention.has_sinks,
            };
            let index = kinds.iter().position(|known| *known == kind).unwrap_or(kinds.len());
            if index == kinds.len() {
                kinds.push(kind);
            }
            let kv_layer = match attention.kv {
                KvSource::Own => {
                    kv_layers += 1;
                    kv_layers - 1
                }
                KvSource::OfLayer(source) => layers[source].kv_layer,
            };
            layers.push(PlannedLayer { kind: index, rope: attention.rope, kv_layer });
        }
        let width_of = |rope: usize| {
            let user = design.layers.iter().find(|layer| layer.attention.rope == Some(rope));
            user.map_or(design.ropes[rope].turned(), |layer| layer.attention.head_dim)
        };
        let ropes = design.ropes.iter().enumerate();
        let ropes = ropes.map(|(index, rope)| Rope::new(rope.clone(), width_of(index), numerics)).collect();
        Plan { numerics, kinds, ropes, layers }
    }

    /// Computes as a device with these numerics would, from the next pass on.
    pub fn set_numerics(&mut self, numerics: Numerics) {
        self.numerics = numerics;
        self.ropes.iter_mut().for_each(|rope| rope.set_numerics(numerics));
    }

    fn rotations(&self, offsets: &[i32], tokens: i32) -> Vec<Rotation> {
        self.ropes.iter().map(|rope| rope.rotation(offsets, tokens)).collect()
    }
}

/// Where one forward pass reads and writes keys and values.
enum Target<'a> {
    Prefill { private: &'a mut PrivateKv },
    Decode { cache: &'a mut KvCache, columns: Columns },
}

/// Classes of the attention of a decode step, one for each kind of layer that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttentionClasses(Vec<AttentionClass>);

impl fmt::Display for AttentionClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(AttentionClass::to_string).collect();
        write!(f, "{}", words.join("; "))
    }
}

/// One forward pass, as its attention layers see it.
pub struct Pass<'a> {
    plan: &'a Plan,
    target: Target<'a>,
    /// One per rotary embedding.
    rotations: Vec<Rotation>,
    /// One per kind.
    views: Vec<View>,
}

impl<'a> Pass<'a> {
    /// A chunk of `tokens` prompt tokens appended to a private cache.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn prefill(private: &'a mut PrivateKv, tokens: i32, plan: &'a Plan) -> Result<Pass<'a>> {
        let start = private.tokens();
        let view = |kind| View::of_prompt(kind, plan.numerics, start, tokens);
        let views = plan.kinds.iter().map(view).collect::<Result<Vec<View>>>()?;
        let rotations = plan.rotations(&[start], tokens);
        Ok(Pass { plan, target: Target::Prefill { private }, rotations, views })
    }

    /// One token per row; `lens[row]` columns are taken before it.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn decode(cache: &'a mut KvCache, lens: &[i32], plan: &'a Plan) -> Result<Pass<'a>> {
        cache.reserve(longest_after(lens))?;
        let columns = cache.columns(lens)?;
        let view = |kind| View::of_step(kind, plan.numerics, lens, cache);
        let views = plan.kinds.iter().map(view).collect::<Result<Vec<View>>>()?;
        let rotations = plan.rotations(lens, 1);
        Ok(Pass { plan, target: Target::Decode { cache, columns }, rotations, views })
    }

    /// What a decode step's attention dispatches to; `None` for prefill.
    pub fn classes(&self) -> Option<AttentionClasses> {
        let Target::Decode { .. } = self.target else { return None };
        let mut classes: Vec<AttentionClass> = self.views.iter().map(View::class).collect();
        classes.dedup();
        Some(AttentionClasses(classes))
    }

    /// Rotates queries or keys of a layer, `[B, H, T, head_dim]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn rotate(&self, layer: usize, x: &Array) -> Result<Array> {
        match self.plan.layers[layer].rope {
            Some(rope) => self.rotations[rope].apply(x),
            None => Ok(x.clone()),
        }
    }

    /// Stores keys and values of one layer and attends to what each row sees: q `[B, H, T, D]`, k and v
    /// `[B, Hkv, T, D]`, rotated; returns `[B, T, H·D]`. `sinks`: `[H]`.
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn attend(
        &mut self,
        layer: usize,
        q: &Array,
        k: Array,
        v: Array,
        sinks: Option<&Array>,
    ) -> Result<Array> {
        let planned = &self.plan.layers[layer];
        let view = &self.views[planned.kind];
        let LayerKv { keys, values } = match &mut self.target {
            Target::Prefill { private } => private.append(planned.kv_layer, k, v, view.columns.clone())?,
            Target::Decode { cache, columns } => {
                cache.write(planned.kv_layer, columns, &k, &v, view.columns.clone())?
            }
        };
        view.attend(&self.plan.kinds[planned.kind], q, &keys, &values, sinks)
    }

    /// Attends to keys and values that an earlier layer of this pass has stored; otherwise as [`Self::attend`].
    ///
    /// # Errors
    /// [`crate::MlxError::Op`].
    pub fn attend_again(&self, layer: usize, q: &Array, sinks: Option<&Array>) -> Result<Array> {
        let planned = &self.plan.layers[layer];
        let view = &self.views[planned.kind];
        let LayerKv { keys, values } = match &self.target {
            Target::Prefill { private } => private.read(planned.kv_layer, view.columns.clone())?,
            Target::Decode { cache, .. } => cache.read(planned.kv_layer, view.columns.clone())?,
        };
        view.attend(&self.plan.kinds[planned.kind], q, &keys, &values, sinks)
    }
}
