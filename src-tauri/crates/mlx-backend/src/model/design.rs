//! What a decoder computes, as a description: each architecture writes one, one loader and one forward pass run it.
//!
//! Pure data, made from a config before anything is loaded, on any thread. A field that an architecture needs and no
//! other has belongs here, with a neutral value for the others. See ADR 0010.

use super::rope::RopeDesign;
use crate::error::MlxError;

/// Most experts of a layer.
const MAX_EXPERTS: i32 = 4096;

/// A whole decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// Width of the residual stream.
    pub hidden: i32,
    /// Width of the logits.
    pub vocab: i32,
    /// Context window in tokens.
    pub context_tokens: u32,
    /// All norms of the decoder.
    pub norm: NormDesign,
    /// Factor of the embedded tokens, applied in the dtype of the activations.
    pub embedding_scale: Option<f32>,
    /// Embeddings that each layer gets for itself.
    pub layer_inputs: Option<LayerInputs>,
    /// Rotary embeddings that layers choose from.
    pub ropes: Vec<RopeDesign>,
    /// Layers, the first one first.
    pub layers: Vec<LayerDesign>,
    /// From the last hidden state to logits.
    pub head: HeadDesign,
    /// Where the files keep the decoder.
    pub tensors: TensorNames,
}

/// Embeddings of tokens that each layer adds after its MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerInputs {
    /// Width of one layer's embedding.
    pub width: i32,
    /// Tokens that have one.
    pub vocab: i32,
}

/// How RMS norms are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormDesign {
    /// Added to the mean square.
    pub eps: f32,
    /// What the files hold.
    pub weight: NormWeight,
}

/// What a norm's tensor says about its factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormWeight {
    /// The factor.
    AsStored,
    /// The factor less one.
    LessOne,
}

/// One layer: attention, then an MLP, each added to its input.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerDesign {
    /// Attention.
    pub attention: AttentionDesign,
    /// MLP.
    pub mlp: MlpDesign,
    /// Norms around both.
    pub norms: BlockNorms,
    /// Factor of what attention and the MLP add.
    pub residual_scale: Option<f32>,
    /// Whether the files hold a factor of the layer's result: `layer_scalar`.
    pub has_scalar: bool,
}

/// Names of a layer's norms, within the layer; `None` where there is no norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockNorms {
    /// On the input of attention.
    pub before_attention: Option<&'static str>,
    /// On what attention adds.
    pub after_attention: Option<&'static str>,
    /// On the input of the MLP.
    pub before_mlp: Option<&'static str>,
    /// On what the MLP adds.
    pub after_mlp: Option<&'static str>,
}

impl BlockNorms {
    /// Norms of inputs alone, as Llama has them.
    pub const BEFORE: BlockNorms = BlockNorms {
        before_attention: Some("input_layernorm"),
        after_attention: None,
        before_mlp: Some("post_attention_layernorm"),
        after_mlp: None,
    };
    /// Norms of inputs and of what is added, as Gemma has them.
    pub const AROUND: BlockNorms = BlockNorms {
        before_attention: Some("input_layernorm"),
        after_attention: Some("post_attention_layernorm"),
        before_mlp: Some("pre_feedforward_layernorm"),
        after_mlp: Some("post_feedforward_layernorm"),
    };
}

/// Attention of one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionDesign {
    /// Query heads.
    pub heads: i32,
    /// Key and value heads; divides `heads`.
    pub kv_heads: i32,
    /// Width of a head.
    pub head_dim: i32,
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Last tokens that a token sees, itself included; `None` for all.
    pub window_tokens: Option<i32>,
    /// Cap c of c·tanh(score/c).
    pub softcap: Option<f32>,
    /// Whether each query head has a score without a value: `sinks`.
    pub has_sinks: bool,
    /// Which of [`Design::ropes`] turns queries and keys; `None` leaves them.
    pub rope: Option<usize>,
    /// Norms of queries and keys.
    pub head_norms: HeadNorms,
    /// Where keys and values come from.
    pub kv: KvSource,
    /// What the values of a layer with keys of its own are.
    pub values: Values,
    /// How the files keep the matrices of queries, keys and values.
    pub qkv: Storage,
    /// Bias of queries, keys and values.
    pub has_qkv_bias: bool,
    /// Bias of the output.
    pub has_output_bias: bool,
}

/// Norms of queries and keys before they are turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadNorms {
    /// None.
    Absent,
    /// Over each head: `q_norm`, `k_norm`.
    PerHead,
    /// Over all query heads as one vector, and over all key heads.
    AllTogether,
}

/// Where the keys and values of a layer come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvSource {
    /// Projections of the layer's own.
    Own,
    /// Those of an earlier layer of the same kind, by index; this layer projects queries alone.
    OfLayer(usize),
}

/// Values of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// A projection.
    Projected,
    /// A projection, each head normed without a factor.
    Normed,
    /// The keys before their norm and their turn, each head normed without a factor.
    NormedKeys,
}

/// How files keep matrices that one product computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// One tensor each.
    Apart,
    /// One tensor for all.
    Together,
}

/// MLP of one layer.
#[derive(Debug, Clone, PartialEq)]
pub enum MlpDesign {
    /// down(activation(gate(x)) · up(x)).
    Gated(GatedDesign),
    /// A few gated MLPs for each token, out of many.
    Sparse(SparseDesign),
}

/// A gated MLP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GatedDesign {
    /// Width in the middle.
    pub intermediate: i32,
    /// Activation of the gate.
    pub activation: Activation,
    /// How the files keep gate and up.
    pub gate_up: Storage,
    /// Bias of all three matrices.
    pub has_bias: bool,
}

/// A sparse MLP. Experts are gated MLPs, and the files keep each of their three matrices as one stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparseDesign {
    /// Experts to choose from.
    pub experts: i32,
    /// Experts that compute a token.
    pub picked: i32,
    /// Width in the middle of an expert.
    pub intermediate: i32,
    /// Activation of the gates.
    pub activation: Activation,
    /// What the outputs of a token's experts count.
    pub shares: Shares,
    /// Name of the matrix that scores the experts, within the MLP.
    pub router: &'static str,
    /// Name of the stacks, within the MLP.
    pub stack: &'static str,
    /// Bias of the router and of all three matrices of an expert.
    pub has_bias: bool,
}

/// Softmax that says what the outputs of a token's experts count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shares {
    /// Over the scores of the token's experts: they sum to one.
    OfPicked,
    /// Over the scores of all experts.
    OfAll,
}

/// Activations of gates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// x·sigmoid(x).
    Silu,
    /// x·sigmoid(1.702·x) with x at most `limit`, and one more than the other factor, which stays within ±`limit`.
    SiluClamped {
        /// Largest value.
        limit: f32,
    },
    /// x·Φ(x), by tanh: Hendrycks and Gimpel 2016, arXiv:1606.08415.
    GeluTanh,
}

/// From hidden states to logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadDesign {
    /// Whether the matrix is the token embedding.
    pub is_tied: bool,
    /// Factor of the logits.
    pub scale: Option<f32>,
    /// Cap c of c·tanh(logit/c), after the factor.
    pub softcap: Option<f32>,
}

/// Where the files keep the decoder's tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorNames {
    /// What stands before every name, full stop included, or after its `model.`: files have both.
    pub prefix: &'static str,
    /// Beginnings of names that belong to other parts of the checkpoint, which Braid does not run.
    pub skipped: &'static [&'static str],
}

impl TensorNames {
    /// A checkpoint of the decoder alone.
    pub const PLAIN: TensorNames = TensorNames { prefix: "", skipped: &[] };
}

impl Design {
    /// Bytes that the keys and values of one token take in one row, at `entry_bytes` an entry.
    pub fn kv_cache_bytes_per_token(&self, entry_bytes: u64) -> u64 {
        let own = self.layers.iter().filter(|layer| layer.attention.kv == KvSource::Own);
        own.map(|layer| 2 * layer.attention.kv_heads as u64 * layer.attention.head_dim as u64 * entry_bytes)
            .sum()
    }

    /// Whether the parts fit together; in words where they do not.
    ///
    /// # Errors
    /// The sizes that do not fit.
    pub(crate) fn check(&self) -> Result<(), String> {
        for rope in &self.ropes {
            let last = rope.inverse_frequencies_at(i32::try_from(self.context_tokens).unwrap_or(i32::MAX));
            let all = rope.inverse_frequencies.iter().chain(&*last).chain([&rope.magnitude]);
            if !all.into_iter().all(|number| number.is_finite()) {
                return Err(format!("positions with a base of {} turn by more than a number", rope.base));
            }
        }
        for (index, layer) in self.layers.iter().enumerate() {
            let AttentionDesign { heads, kv_heads, head_dim, kv, rope, .. } = layer.attention;
            if heads % kv_heads != 0 || head_dim % 2 != 0 {
                return Err(format!("{heads} heads of width {head_dim} cannot share {kv_heads} key heads"));
            }
            if i64::from(heads) * i64::from(head_dim) > 1 << 24 {
                return Err(format!("{heads} heads of width {head_dim} are more than a model can have"));
            }
            if let MlpDesign::Sparse(SparseDesign { experts, picked, .. }) = layer.mlp
                && (picked > experts || experts > MAX_EXPERTS)
            {
                return Err(format!("a token cannot pick {picked} of {experts} experts"));
            }
            if let KvSource::OfLayer(source) = kv {
                let has_own = source < index && self.layers[source].attention.kv == KvSource::Own;
                let shape = |layer: &LayerDesign| (layer.attention.kv_heads, layer.attention.head_dim);
                if !has_own || shape(&self.layers[source]) != shape(layer) {
                    return Err(format!("layer {index} cannot share the keys of layer {source}"));
                }
            }
            if let Some(rope) = rope.map(|rope| &self.ropes[rope])
                && rope.turned() > head_dim
            {
                return Err(format!("{} of {head_dim} elements of a head cannot turn", rope.turned()));
            }
        }
        Ok(())
    }
}

/// An architecture: its `model_type`, and what reads its config.
pub type Reader = fn(&crate::config::fields::Fields<'_>) -> Result<Design, MlxError>;
