//! Whether a model fits into memory, from its headers alone, before anything is loaded. Pure arithmetic.
//!
//! What is counted is what the engine's own ledger counts when it admits requests, for the worst case: every tab's
//! conversation fills the context, and one of them is being read anew. So a model that fits is never refused a request
//! later, and one that does not is refused before the loaded model gives way.

mod kept;

use crate::WeightHeaders;
pub use kept::WeightStorage;

/// Copies of the logits, `[vocab]` f32 per tab, that sampling may hold at once.
const LOGITS_COPIES: u64 = 6;
const LOGITS_BYTES: u64 = 4;
/// Largest part of a prompt that one step reads.
const PREFILL_CHUNK_TOKENS: u64 = 2048;
/// Activations of one token in a step, in widths of the residual stream: in half precision about three of its own
/// width, four of attention, nine of the MLP.
const ACTIVATION_BYTES_PER_WIDTH: u64 = 2 * 16;
/// The engine keeps this free, unless a sixteenth of its limit is less.
const ENGINE_RESERVE_MAX_BYTES: u64 = 256 << 20;
const CONTEXT_STEP_TOKENS: u32 = 1024;
const SMALL_CONTEXT_STEP_TOKENS: u32 = 256;
/// Below this nobody wants to chat.
const LEAST_CONTEXT_TOKENS: u32 = 2048;

/// What the config says of the KV cache and the widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvFacts {
    /// KV cache of one token in all layers, in bytes, as the device keeps it.
    pub bytes_per_token: u64,
    /// Longest context of the model, in tokens.
    pub context_tokens: u32,
    /// Layers; of one of them the KV cache may be there twice.
    pub layers: u32,
    /// Width of the logits.
    pub vocab: u64,
    /// Width of the residual stream.
    pub hidden: u64,
}

/// What a model needs, whatever the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Weights as the device keeps them.
    pub weights_bytes: u64,
    /// The most that is allocated while loading.
    pub load_peak_bytes: u64,
    /// KV cache of one token in one tab.
    pub kv_cache_bytes_per_token: u64,
    /// Longest context of the model, in tokens.
    pub context_tokens: u32,
    /// Layers.
    pub layers: u32,
    /// Activations of one step.
    pub workspace_bytes: u64,
    /// Logits of one tab and the copies that sampling makes.
    pub logits_bytes_per_tab: u64,
}

/// Counts a model's needs from the headers of its files.
pub fn needs(headers: &WeightHeaders, facts: KvFacts, storage: WeightStorage) -> Needs {
    let kept = kept::count(headers, facts, storage);
    Needs { load_peak_bytes: kept.load_peak_bytes, ..Needs::estimated(kept.weights_bytes, facts) }
}

impl Needs {
    /// Needs of a model of which only the size of its weights is known, as the device would keep them.
    pub fn estimated(weights_bytes: u64, facts: KvFacts) -> Self {
        Self {
            weights_bytes,
            load_peak_bytes: weights_bytes,
            kv_cache_bytes_per_token: facts.bytes_per_token,
            context_tokens: facts.context_tokens,
            layers: facts.layers,
            workspace_bytes: facts.hidden.saturating_mul(PREFILL_CHUNK_TOKENS * ACTIVATION_BYTES_PER_WIDTH),
            logits_bytes_per_tab: facts.vocab.saturating_mul(LOGITS_BYTES * LOGITS_COPIES),
        }
    }
}

/// What kind of memory a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// Shared by CPU and GPU.
    Unified,
    /// The GPU's own.
    Discrete,
    /// Main memory of a computer that computes on its CPU.
    Host,
}

/// Memory of the device that would run the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Its kind.
    pub kind: MemoryKind,
    /// All of it: main memory, or the GPU's.
    pub total_bytes: u64,
    /// What this process could take now: of unified memory, the working set that the device recommends, less what is in
    /// use; of a GPU's own, without what its driver needs.
    pub free_bytes: u64,
}

impl DeviceMemory {
    /// What may be planned with out of `free_bytes`.
    fn usable_bytes(self, free_bytes: u64) -> u64 {
        let allowed = match self.kind {
            // The system, the window and the page cache need the rest.
            MemoryKind::Unified | MemoryKind::Host => free_bytes.min(self.total_bytes / 4 * 3),
            MemoryKind::Discrete => free_bytes,
        };
        allowed - ENGINE_RESERVE_MAX_BYTES.min(allowed / 16)
    }
}

/// How a model is to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Conversations answered side by side.
    pub tabs: u32,
    /// Context of each, in tokens; the model's own is the limit.
    pub context_tokens: u32,
    /// What unloading the present model gives back; 0 if it stays.
    pub freed_bytes: u64,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// With room to spare.
    Fits,
    /// But less than a tenth of what may be used is left.
    Tight,
    /// Not with this context and these tabs.
    TooLarge,
}

/// Memory needed and memory free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitReport {
    /// Weights as the device keeps them.
    pub weights_bytes: u64,
    /// KV cache of one tab that fills the context, with the columns that the engine allocates ahead.
    pub kv_cache_bytes_per_tab: u64,
    /// Tabs counted.
    pub tabs: u32,
    /// Context counted, in tokens.
    pub context_tokens: u32,
    /// What comes and goes: a prompt being read, buffers copied when a tab joins, logits, activations.
    pub workspace_bytes: u64,
    /// What has to stay free: the engine's margin, and the system's part where memory is shared with it.
    pub reserve_bytes: u64,
    /// All of it together, or what loading takes where that is more. The model fits if it is at most `free_bytes`.
    pub needed_bytes: u64,
    /// Free now, with what unloading gives back.
    pub free_bytes: u64,
    /// Of the device.
    pub total_bytes: u64,
    /// What follows.
    pub verdict: Verdict,
    /// The largest smaller context with which it would fit, if this one does not.
    pub offered_context_tokens: Option<u32>,
}

/// Compares what a model needs with what there is.
pub fn check(needs: &Needs, memory: DeviceMemory, plan: Plan) -> FitReport {
    let plan = Plan { context_tokens: plan.context_tokens.min(needs.context_tokens), ..plan };
    let free_bytes = memory.free_bytes.saturating_add(plan.freed_bytes).min(memory.total_bytes);
    let usable_bytes = memory.usable_bytes(free_bytes);
    let taken = Taken::new(needs, plan.tabs, plan.context_tokens);
    let fits = |tokens| Taken::new(needs, plan.tabs, tokens).total_bytes <= usable_bytes;
    let verdict = match usable_bytes.checked_sub(taken.total_bytes) {
        None => Verdict::TooLarge,
        Some(left_bytes) if left_bytes < usable_bytes / 10 => Verdict::Tight,
        Some(_) => Verdict::Fits,
    };
    let offered_context_tokens = match verdict {
        Verdict::TooLarge => offer(needs.context_tokens, plan.context_tokens, fits),
        Verdict::Fits | Verdict::Tight => None,
    };
    let reserve_bytes = free_bytes - usable_bytes;
    FitReport {
        weights_bytes: needs.weights_bytes,
        kv_cache_bytes_per_tab: taken.kv_cache_bytes_per_tab,
        tabs: plan.tabs,
        context_tokens: plan.context_tokens,
        workspace_bytes: taken.workspace_bytes,
        reserve_bytes,
        needed_bytes: taken.total_bytes.saturating_add(reserve_bytes),
        free_bytes,
        total_bytes: memory.total_bytes,
        verdict,
        offered_context_tokens,
    }
}

struct Taken {
    kv_cache_bytes_per_tab: u64,
    workspace_bytes: u64,
    /// Without the reserve.
    total_bytes: u64,
}

impl Taken {
    fn new(needs: &Needs, tabs: u32, context_tokens: u32) -> Self {
        let kv_bytes = |tokens: u64| needs.kv_cache_bytes_per_token.saturating_mul(tokens);
        let kv_cache_bytes_per_tab = kv_bytes(kv_capacity_tokens(context_tokens));
        let kv_cache_bytes = kv_cache_bytes_per_tab.saturating_mul(u64::from(tabs));
        let parts = [
            needs.workspace_bytes,
            needs.logits_bytes_per_tab.saturating_mul(u64::from(tabs)),
            // Growing and joining go layer by layer: one layer is there twice.
            kv_cache_bytes / u64::from(needs.layers.max(1)),
            // A prompt being read has a KV cache of its own until its tab joins.
            if tabs == 0 { 0 } else { kv_bytes(u64::from(context_tokens)) },
        ];
        let workspace_bytes = parts.into_iter().fold(0, u64::saturating_add);
        let running_bytes =
            needs.weights_bytes.saturating_add(kv_cache_bytes).saturating_add(workspace_bytes);
        Self {
            kv_cache_bytes_per_tab,
            workspace_bytes,
            total_bytes: running_bytes.max(needs.load_peak_bytes),
        }
    }
}

/// Columns that the engine allocates for a row of `tokens`. The same rule as `engine::backend::kv_capacity_tokens`:
/// steps of 256, half as much again above 2048.
fn kv_capacity_tokens(tokens: u32) -> u64 {
    let tokens = u64::from(tokens);
    let wanted = if tokens > 2048 { tokens + tokens / 2 } else { tokens };
    wanted.next_multiple_of(256)
}

/// The largest context below `planned_tokens` that fits: whole thousands (1024) down to 2048, or steps of 256 where the
/// model's own is smaller than that.
fn offer(own_tokens: u32, planned_tokens: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
    let (step, least) = if own_tokens < LEAST_CONTEXT_TOKENS {
        (SMALL_CONTEXT_STEP_TOKENS, SMALL_CONTEXT_STEP_TOKENS)
    } else {
        (CONTEXT_STEP_TOKENS, LEAST_CONTEXT_TOKENS)
    };
    if planned_tokens <= least || !fits(least) {
        return None;
    }
    // Contexts that fit are the shorter ones: the boundary lies in `low..high` steps.
    let (mut low, mut high) = (least / step, planned_tokens.div_ceil(step));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle * step) { low = middle } else { high = middle }
    }
    Some(low * step)
}
