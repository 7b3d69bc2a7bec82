//! Sampling on the device, to the contract of [`engine::sampling`].
//!
//! Edits come first, on the rows of the batch together. The rows then fall into three families that need different
//! work: greedy, untruncated (temperature and min-p over all ids) and truncated (top-k and top-p over a shortlist).
//! What rows want reported is computed beside, and everything is read as one array. Work that no row asks for is not
//! in the graph.

mod edits;
mod families;
pub mod fused;
pub mod noise;
pub mod per_row;
mod reports;
pub mod rows;
pub mod shortlist;
