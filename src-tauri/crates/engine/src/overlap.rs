//! Whether the next forward pass is submitted before this step's tokens are read.

/// Whether forward passes may be submitted ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OverlapMode {
    /// Never.
    Off,
    /// Whenever the batch allows it.
    On,
    /// Where it proves faster than waiting, measured for each size of the batch.
    #[default]
    Adaptive,
}

/// Why a step submitted no forward pass ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlapOff {
    /// [`OverlapMode::Off`].
    SwitchedOff,
    /// A request reads its prompt or waits to join.
    BatchGrowing,
    /// Some row goes per row: its token is not on the device in time.
    PerRowRows,
    /// Steps without it proved faster at this size of the batch: copies of the KV cache cost more than it hides.
    KvCopyCostly,
    /// Steps without it are being measured, to compare.
    Measuring,
    /// The device has no room for a second copy of the KV cache.
    MemoryPressure,
    /// Every row reaches its limit with this step's token.
    LastTokens,
}
