//! Fields of `config.json` with a ledger: what changes the mathematics is read by the architecture or refused by name.

use crate::error::{MlxError, Result};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

/// Largest size of anything: keeps products of two sizes far from the end of `i64`.
const MAX_SIZE: i64 = 1 << 24;

/// The value with which a field that nobody read changes nothing. Null, false, zero and nothing at all always are.
enum Neutral {
    Off,
    One,
    Text(&'static str),
    /// A list of this text alone.
    AllText(&'static str),
}

/// Fields that change what a decoder computes, in the words of the configs that have them.
const MATHEMATICS: &[(&str, Neutral)] = &[
    ("alibi", Neutral::Off),
    ("altup_num_inputs", Neutral::Off),
    ("attention_bias", Neutral::Off),
    ("attention_chunk_size", Neutral::Off),
    ("attention_k_eq_v", Neutral::Off),
    ("attention_multiplier", Neutral::Off),
    ("attn_logit_softcapping", Neutral::Off),
    ("attn_temperature_tuning", Neutral::Off),
    ("clip_qkv", Neutral::Off),
    ("dim_model_base", Neutral::Off),
    ("embedding_multiplier", Neutral::One),
    ("enable_moe_block", Neutral::Off),
    ("final_logit_softcapping", Neutral::Off),
    ("global_head_dim", Neutral::Off),
    ("hidden_act", Neutral::Text("silu")),
    ("hidden_activation", Neutral::Text("silu")),
    ("hidden_size_per_layer_input", Neutral::Off),
    ("kv_lora_rank", Neutral::Off),
    ("layer_types", Neutral::AllText("full_attention")),
    ("lm_head_bias", Neutral::Off),
    ("logit_scale", Neutral::One),
    ("logits_scaling", Neutral::One),
    ("mlp_bias", Neutral::Off),
    ("moe_intermediate_size", Neutral::Off),
    ("mup_denominator", Neutral::Off),
    ("n_routed_experts", Neutral::Off),
    ("no_rope_layers", Neutral::Off),
    ("num_experts", Neutral::Off),
    ("num_kv_shared_layers", Neutral::Off),
    ("num_local_experts", Neutral::Off),
    ("parallel_attn", Neutral::Off),
    ("partial_rotary_factor", Neutral::One),
    ("per_layer_config", Neutral::Off),
    ("position_embedding_type", Neutral::Text("rope")),
    ("q_lora_rank", Neutral::Off),
    ("qk_layernorm", Neutral::Off),
    ("qk_norm", Neutral::Off),
    ("qkv_bias", Neutral::Off),
    ("query_pre_attn_scalar", Neutral::Off),
    ("residual_multiplier", Neutral::One),
    ("rope_interleaved", Neutral::Off),
    ("rope_local_base_freq", Neutral::Off),
    ("rope_parameters", Neutral::Off),
    ("rope_scaling", Neutral::Off),
    ("rope_traditional", Neutral::Off),
    ("rotary_pct", Neutral::One),
    ("scale_depth", Neutral::Off),
    ("scale_emb", Neutral::One),
    ("sliding_window", Neutral::Off),
    ("swiglu_limit", Neutral::Off),
    ("use_alibi", Neutral::Off),
    ("use_bias", Neutral::Off),
    ("use_bidirectional_attention", Neutral::Off),
    ("use_mrope", Neutral::Off),
    ("use_parallel_residual", Neutral::Off),
    ("use_qk_norm", Neutral::Off),
    ("use_qkv_bias", Neutral::Off),
    ("use_sliding_window", Neutral::Off),
];

impl Neutral {
    fn admits(&self, value: &Value) -> bool {
        let is_off = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            _ => false,
        };
        let is_text = |value: &Value, text: &str| value.as_str() == Some(text);
        is_off
            || match self {
                Neutral::Off => false,
                Neutral::One => value.as_f64() == Some(1.0),
                Neutral::Text(text) => is_text(value, text),
                Neutral::AllText(text) => {
                    value.as_array().is_some_and(|items| items.iter().all(|item| is_text(item, text)))
                }
            }
    }
}

/// An object of `config.json`, read field by field. Null counts as absent.
pub struct Fields<'a> {
    entries: &'a Map<String, Value>,
    path: &'a Path,
    /// What stands before a field's name in an error: empty, or the object's own name and a full stop.
    within: String,
    read: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Fields<'a> {
    /// The whole of the config at `path`.
    pub fn new(entries: &'a Map<String, Value>, path: &'a Path) -> Fields<'a> {
        Fields { entries, path, within: String::new(), read: RefCell::default() }
    }

    /// An error about a value that cannot be.
    pub fn malformed(&self, reason: String) -> MlxError {
        MlxError::Config { path: self.path.into(), reason }
    }

    /// An error about a field that Braid does not support with the value it has.
    pub fn unsupported(&self, name: &str) -> MlxError {
        let value = self.entries.get(name).unwrap_or(&Value::Null).to_string();
        MlxError::UnsupportedField { field: format!("{}{name}", self.within), value }
    }

    fn wrong(&self, name: &str, expected: &str, value: &Value) -> MlxError {
        self.malformed(format!("{}{name} must be {expected}, but is {value}", self.within))
    }

    fn missing(&self, name: &str) -> MlxError {
        self.malformed(format!("{}{name} is missing", self.within))
    }

    /// Whether the field is there, even as null.
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    fn value(&self, name: &str) -> Option<(&'a str, &'a Value)> {
        let (name, value) = self.entries.get_key_value(name)?;
        self.read.borrow_mut().insert(name);
        (!value.is_null()).then_some((name.as_str(), value))
    }

    fn parsed<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some((_, value)) = self.value(name) else { return Ok(None) };
        parse(value).map(Some).ok_or_else(|| self.wrong(name, expected, value))
    }

    /// A size, 1 to 2^24.
    ///
    /// # Errors
    /// [`MlxError::Config`] for another value; so are the others.
    pub fn optional_size(&self, name: &str) -> Result<Option<i32>> {
        self.parsed(name, "1 to 16777216", |value| {
            let size = value.as_i64().filter(|size| (1..=MAX_SIZE).contains(size))?;
            Some(size as i32)
        })
    }

    /// A size that has to be there.
    ///
    /// # Errors
    /// As [`Self::optional_size`], and when it is absent.
    pub fn size(&self, name: &str) -> Result<i32> {
        self.optional_size(name)?.ok_or_else(|| self.missing(name))
    }

    /// A whole number, 0 to 2^24.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn count(&self, name: &str) -> Result<Option<usize>> {
        self.parsed(name, "0 to 16777216", |value| {
            let count = value.as_i64().filter(|count| (0..=MAX_SIZE).contains(count))?;
            Some(count as usize)
        })
    }

    /// A number above zero.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn positive(&self, name: &str) -> Result<Option<f32>> {
        self.parsed(name, "a number above zero", |value| {
            let number = value.as_f64()? as f32;
            (number > 0.0 && number.is_finite()).then_some(number)
        })
    }

    /// A number above zero that has to be there.
    ///
    /// # Errors
    /// As [`Self::size`].
    pub fn required_positive(&self, name: &str) -> Result<f32> {
        self.positive(name)?.ok_or_else(|| self.missing(name))
    }

    /// A number above zero; null means none, and an absent field `default`.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn positive_unless_null(&self, name: &str, default: f32) -> Result<Option<f32>> {
        match self.entries.contains_key(name) {
            true => self.positive(name),
            false => Ok(Some(default)),
        }
    }

    /// Numbers above zero.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn all_positive(&self, name: &str) -> Result<Option<Vec<f32>>> {
        let number = |value: &Value| {
            let number = value.as_f64()? as f32;
            (number > 0.0 && number.is_finite()).then_some(number)
        };
        self.parsed(name, "a list of numbers above zero", |value| {
            value.as_array()?.iter().map(number).collect()
        })
    }

    /// Whole numbers, 0 to 2^24.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn counts(&self, name: &str) -> Result<Option<Vec<usize>>> {
        let count = |value: &Value| {
            value.as_i64().filter(|count| (0..=MAX_SIZE).contains(count)).map(|count| count as usize)
        };
        self.parsed(name, "a list of whole numbers", |value| value.as_array()?.iter().map(count).collect())
    }

    /// True or false; absent is false.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn flag(&self, name: &str) -> Result<bool> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    /// True or false.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn optional_flag(&self, name: &str) -> Result<Option<bool>> {
        self.parsed(name, "true or false", Value::as_bool)
    }

    /// Text.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.parsed(name, "text", Value::as_str)
    }

    /// A list of texts.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>> {
        self.parsed(name, "a list of texts", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// An object of its own, with a ledger of its own.
    ///
    /// # Errors
    /// As [`Self::optional_size`].
    pub fn object(&self, name: &str) -> Result<Option<Fields<'a>>> {
        let entries = self.parsed(name, "an object", Value::as_object)?;
        let within = format!("{}{name}.", self.within);
        Ok(entries.map(|entries| Fields { entries, path: self.path, within, read: RefCell::default() }))
    }

    /// Refuses a field unless it is absent or has this text.
    ///
    /// # Errors
    /// [`MlxError::UnsupportedField`].
    pub fn expect_text(&self, name: &str, supported: &str) -> Result<()> {
        match self.value(name) {
            Some((name, value)) if value.as_str() != Some(supported) => Err(self.unsupported(name)),
            _ => Ok(()),
        }
    }

    /// Closes the ledger: a field that changes the mathematics, and that nobody read, has to be neutral.
    ///
    /// # Errors
    /// [`MlxError::UnsupportedField`].
    pub fn finish(&self) -> Result<()> {
        let read = self.read.borrow();
        let active = MATHEMATICS.iter().find(|(name, neutral)| {
            !read.contains(name) && self.entries.get(*name).is_some_and(|value| !neutral.admits(value))
        });
        active.map_or(Ok(()), |(name, _)| Err(self.unsupported(name)))
    }

    /// Closes the ledger of an object in which every field changes the mathematics, but for `harmless` ones.
    ///
    /// # Errors
    /// [`MlxError::UnsupportedField`].
    pub fn finish_strictly(&self, harmless: &[&str]) -> Result<()> {
        let read = self.read.borrow();
        let unread = self.entries.iter().find(|(name, value)| {
            !read.contains(name.as_str()) && !harmless.contains(&name.as_str()) && !Neutral::Off.admits(value)
        });
        unread.map_or(Ok(()), |(name, _)| Err(self.unsupported(name)))
    }
}
