//! Claims about the whole engine on the starter model. Each test prints what it measured (`-- --nocapture`).

mod jitter;
mod modes;
mod support;
