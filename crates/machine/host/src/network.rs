//! Networks of this machine's kernel: devices, addresses, features, queues, shaping, packet filters.
//!
//! All changes are made in a [`Namespace`](crate::namespace::Namespace) that this process made. The machine's own network
//! ([`Namespace::own`](crate::namespace::Namespace::own)) is only read, and tunnels lead through it.

mod drops;
pub(crate) mod features;
mod link;
pub mod namespace;
pub(crate) mod netlink;
mod packet_filter;
mod port;
mod qdisc;
mod queues;
mod redirect;
mod tap;
#[cfg(test)]
mod tests;
mod tun_link;

pub use drops::{datagrams_dropped, datagrams_dropped_in_namespace};
pub use features::Feature;
pub use link::{Counters, Link, LinkState, Tunnel, TunnelState};
pub use packet_filter::RuleCounter;
pub use port::FreePort;
pub use qdisc::{Impairment, Shape, TokenBucket, has_netem};
pub use redirect::{Redirect, Shortcut};
pub use tun_link::{LinkCounts, LinkTerms, TunLink};
