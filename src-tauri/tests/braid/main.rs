//! The app's own plumbing over a scripted engine and a real database.

mod answers;
mod attachments;
mod details;
mod engine_life;
mod fan_out;
mod loading;
mod local_server;
mod models;
mod more;
mod peers;
mod real_model;
mod remote;
mod remote_answers;
mod reports;
mod search;
mod support;
mod tabs;
mod transfer;
mod versions;
