//! Both ends of the API on loopback: the client against scripted servers, the server against the client and raw sockets.

mod client;
mod scripted;
mod server;
