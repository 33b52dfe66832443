//! Origins: what answers, behind the ingress.

mod connection;
mod reply;
mod server;

pub use reply::text;
pub use server::OriginServer;
