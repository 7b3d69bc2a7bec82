//! Tests on MLX and the starter model. Run on one thread: MLX's streams belong to the thread that made them.

mod architectures;
mod attention;
mod by_hand;
mod cuda;
mod designs;
mod faults;
mod folder;
mod formula;
mod heads;
mod hostile;
mod kv_cache;
mod linear;
mod loading;
mod logits;
#[cfg(target_os = "linux")]
mod native;
mod overlap;
mod packed;
mod published;
mod quantised;
mod sampler;
mod snapshots;
mod starter;
mod waits;
mod weights;
