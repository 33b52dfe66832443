//! The embedded ingress: a TLS-terminating reverse proxy of event-loop threads.

mod connection;
mod coroutine;
mod counters;
mod device;
mod event_loop;
mod exchange;
mod pool;
mod rewrite;
mod tls;
mod transport;
mod upstream;

pub(super) use counters::Totals;
pub(super) use event_loop::{EmbeddedIngress, Timeouts};
