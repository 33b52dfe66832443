//! Origins: what answers, behind the ingress.

mod connection;
mod reply;
mod server;

pub(super) use reply::text;
pub(super) use server::OriginServer;
