use crate::{Gguf, ModelHubError};

/// A family of models that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Llama,
    Qwen2,
    Qwen3,
}

impl Family {
    /// # Errors
    /// [`ModelHubError::MissingMetadata`] or [`ModelHubError::UnsupportedArchitecture`].
    pub(super) fn of(gguf: &Gguf) -> Result<Self, ModelHubError> {
        let architecture =
            gguf.text("general.architecture").ok_or_else(|| gguf.missing("general.architecture"))?;
        [Self::Llama, Self::Qwen2, Self::Qwen3]
            .into_iter()
            .find(|family| family.model_type() == architecture)
            .ok_or_else(|| ModelHubError::UnsupportedArchitecture {
                path: gguf.path().to_path_buf(),
                architecture: architecture.to_string(),
            })
    }

    /// Its name in both formats.
    pub(super) fn model_type(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Llama => "LlamaForCausalLM",
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// A key of the metadata, for example `llama.block_count`.
    pub(super) fn key(self, name: &str) -> String {
        format!("{}.{name}", self.model_type())
    }

    /// Whether the file has query and key rows in the order of interleaved RoPE.
    pub(super) fn has_permuted_heads(self) -> bool {
        self == Self::Llama
    }

    /// Whether queries and keys have norms of their own.
    pub(super) fn has_head_norms(self) -> bool {
        self == Self::Qwen3
    }

    /// Whether the config has to say where biases are. Qwen2's are where its architecture has them.
    pub(super) fn tells_biases(self) -> bool {
        self != Self::Qwen2
    }
}
