//! How packets wait to be sent: the kind of queue, and a link that is slower, longer or worse than the machine.

use std::io;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

use super::netlink::attribute;
use crate::Error;
use crate::namespace::Namespace;

/// `TCA_OPTIONS` of a message (include/uapi/linux/rtnetlink.h).
const OPTIONS: u16 = 2;

/// A rate that bursts may exceed by a number of bytes; what comes faster waits, up to `limit_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Bytes per second.
    pub rate_bytes_per_s: u64,
    /// The most that goes at once.
    pub burst_bytes: u32,
    /// The most that waits.
    pub limit_bytes: u32,
}

/// A link that takes its time and loses packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairment {
    /// How long each packet takes, in ns.
    pub delay_ns: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// Bytes per second, where there is a limit.
    pub rate_bytes_per_s: Option<u64>,
}

impl Namespace {
    /// Has a device's packets wait in a queue of that kind, with the kind's own settings.
    ///
    /// # Errors
    ///
    /// When this kernel does not have that kind.
    pub fn set_queue_kind(&self, device: &str, kind: &str) -> Result<(), Error> {
        self.replace_root(device, kind, None)
    }

    /// Limits what a device sends (tc-tbf(8)).
    ///
    /// # Errors
    ///
    /// When this kernel cannot.
    pub fn set_rate(&self, device: &str, bucket: TokenBucket) -> Result<(), Error> {
        self.replace_root(device, "tbf", Some(bucket_options(bucket)))
    }

    /// Delays and loses what a device sends (tc-netem(8)).
    ///
    /// # Errors
    ///
    /// When this kernel cannot.
    pub fn set_impairment(&self, device: &str, impairment: Impairment) -> Result<(), Error> {
        self.replace_root(device, "netem", Some(impairment_options(impairment)))
    }

    fn replace_root(&self, device: &str, kind: &str, options: Option<Vec<u8>>) -> Result<(), Error> {
        let mut message = self.traffic_control(device, kind)?;
        message.header.parent = TcHandle::ROOT;
        message.attributes.extend(options.map(|bytes| TcAttribute::Other(DefaultNla::new(OPTIONS, bytes))));
        let request = RouteNetlinkMessage::NewQueueDiscipline(message);
        let done = self.netlink().act(request, NLM_F_CREATE | NLM_F_REPLACE);
        done.map_err(|cause| refusal(device, kind, cause))
    }

    /// The beginning of a message about a device's queue.
    pub(super) fn traffic_control(&self, device: &str, kind: &str) -> Result<TcMessage, Error> {
        let index = self.link(device)?.index;
        let mut message = TcMessage::with_index(i32::try_from(index).unwrap_or(i32::MAX));
        message.attributes.push(TcAttribute::Kind(kind.to_owned()));
        Ok(message)
    }
}

/// The kernel's word for a kind that it does not have is "no such file", which would puzzle.
fn refusal(device: &str, kind: &str, cause: io::Error) -> Error {
    let cause = match cause.raw_os_error() {
        Some(libc::ENOENT) => io::Error::other(format!("this kernel has no {kind} (CONFIG_NET_SCH_*)")),
        _ => cause,
    };
    Error::Network { what: format!("give {device} a queue of kind {kind}"), cause }
}

/// `TCA_TBF_*` (include/uapi/linux/pkt_sched.h).
fn bucket_options(bucket: TokenBucket) -> Vec<u8> {
    const PARMS: u16 = 1;
    const RATE64: u16 = 4;
    const BURST: u16 = 6;
    /// `TC_LINKLAYER_ETHERNET`: the kernel computes times by itself and needs no table.
    const ETHERNET: u8 = 1;
    let low = u32::try_from(bucket.rate_bytes_per_s).unwrap_or(u32::MAX);
    // struct tc_tbf_qopt: two struct tc_ratespec of 12 bytes, then limit, buffer and mtu.
    let mut parms = vec![0_u8; 36];
    parms[1] = ETHERNET;
    parms[8..12].copy_from_slice(&low.to_ne_bytes());
    parms[24..28].copy_from_slice(&bucket.limit_bytes.to_ne_bytes());
    let mut bytes = Vec::new();
    attribute(&mut bytes, PARMS, &parms);
    if low == u32::MAX {
        attribute(&mut bytes, RATE64, &bucket.rate_bytes_per_s.to_ne_bytes());
    }
    attribute(&mut bytes, BURST, &bucket.burst_bytes.to_ne_bytes());
    bytes
}

/// `struct tc_netem_qopt` and `TCA_NETEM_*` (include/uapi/linux/pkt_sched.h).
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^32 is below 2^32")]
fn impairment_options(impairment: Impairment) -> Vec<u8> {
    const RATE: u16 = 6;
    const RATE64: u16 = 8;
    const LATENCY64: u16 = 10;
    /// Far more than is on the way at any rate that a machine reaches alone.
    const LIMIT_PACKETS: u32 = 100_000;
    let loss = (impairment.loss.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
    // latency, limit, loss, gap, duplicate, jitter.
    let mut bytes = Vec::new();
    for word in [0, LIMIT_PACKETS, loss, 0, 0, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    attribute(&mut bytes, LATENCY64, &impairment.delay_ns.to_ne_bytes());
    if let Some(rate) = impairment.rate_bytes_per_s {
        let low = u32::try_from(rate).unwrap_or(u32::MAX);
        let mut value = low.to_ne_bytes().to_vec();
        value.resize(16, 0);
        attribute(&mut bytes, RATE, &value);
        attribute(&mut bytes, RATE64, &rate.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_kernels_form() {
        let bucket = TokenBucket { rate_bytes_per_s: 125_000, burst_bytes: 10_000, limit_bytes: 20_000 };
        let bytes = bucket_options(bucket);
        assert_eq!(bytes.len(), 40 + 8);
        assert_eq!(bytes[..4], [40, 0, 1, 0]);
        assert_eq!(bytes[12..16], 125_000_u32.to_ne_bytes());
        let fast = bucket_options(TokenBucket { rate_bytes_per_s: 10_000_000_000, ..bucket });
        assert_eq!(fast.len(), 40 + 12 + 8);
        let impaired =
            impairment_options(Impairment { delay_ns: 1_000_000, loss: 0.5, rate_bytes_per_s: None });
        assert_eq!(impaired.len(), 24 + 12);
        assert_eq!(impaired[8..12], (u32::MAX / 2).to_ne_bytes());
    }
}
