//! Sampling on the device, to the contract of [`engine::sampling`].
//!
//! Rows fall into three families that need different work: greedy, untruncated (temperature and min-p over all
//! ids) and truncated (top-k and top-p over a shortlist). A graph handles each family on its own rows.

pub mod fused;
pub mod noise;
pub mod per_row;
pub mod shortlist;
