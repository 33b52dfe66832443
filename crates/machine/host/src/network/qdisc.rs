//! Queues in which packets wait to be sent: their kind, and those that make a link slower, longer or worse than the machine's own.

use std::io;

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE, Nla, NlasIterator};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use super::namespace::Namespace;
use super::netlink::attribute;
use crate::Error;

/// `TCA_OPTIONS` of a message (include/uapi/linux/rtnetlink.h).
const OPTIONS: u16 = 2;
/// `TCA_TBF_*` (include/uapi/linux/pkt_sched.h).
mod tbf {
    pub const PARMS: u16 = 1;
    pub const RATE64: u16 = 4;
    pub const BURST: u16 = 6;
}
/// `TCA_NETEM_*` (include/uapi/linux/pkt_sched.h).
mod netem {
    pub const RATE: u16 = 6;
    pub const RATE64: u16 = 8;
    pub const LATENCY64: u16 = 10;
}
/// The unit of time in which the kernel states a burst (`PSCHED_SHIFT`, include/net/pkt_sched.h).
const TICK_NS: u64 = 64;

/// A rate that bursts may exceed by a number of bytes. Faster packets wait, up to `limit_bytes` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Bytes per second.
    pub rate_bytes_per_s: u64,
    /// The most that is sent at once.
    pub burst_bytes: u32,
    /// The most that waits.
    pub limit_bytes: u32,
}

/// A link that delays and loses packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairment {
    /// The delay of each packet, in ns.
    pub delay_ns: u64,
    /// The share of packets that are lost.
    pub loss: f64,
    /// Bytes per second, if there is a limit.
    pub rate_bytes_per_s: Option<u64>,
}

/// The effect of a queue on a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// A limited rate. A burst that was read back is below the one that was set by less than the bytes of a tick of 64 ns at that rate.
    Bucket(TokenBucket),
    /// Delay and loss.
    Impairment(Impairment),
}

impl Namespace {
    /// Gives a device a queue of that kind, with the kind's default settings.
    ///
    /// # Errors
    ///
    /// When this kernel does not have that kind.
    pub fn set_queue_kind(&self, device: &str, kind: &str) -> Result<(), Error> {
        self.replace_root(device, kind, None)
    }

    /// Limits the rate at which a device sends (tc-tbf(8)).
    ///
    /// # Errors
    ///
    /// When this kernel lacks that kind of queue.
    pub fn set_rate(&self, device: &str, bucket: TokenBucket) -> Result<(), Error> {
        self.replace_root(device, "tbf", Some(bucket_options(bucket)))
    }

    /// Delays and loses packets that a device sends (tc-netem(8)).
    ///
    /// # Errors
    ///
    /// When this kernel lacks that kind of queue.
    pub fn set_impairment(&self, device: &str, impairment: Impairment) -> Result<(), Error> {
        self.replace_root(device, "netem", Some(impairment_options(impairment)))
    }

    /// The effect of a device's queue on the link, as the kernel reports it; `None` for a kind without such an effect.
    ///
    /// # Errors
    ///
    /// When no such device exists.
    pub fn shape(&self, device: &str) -> Result<Option<Shape>, Error> {
        let failed = |cause| Error::Network { what: format!("read the queue of {device}"), cause };
        let index = self.link(device)?.index;
        let mut message = TcMessage::with_index(i32::try_from(index).unwrap_or(i32::MAX));
        message.header.parent = TcHandle::ROOT;
        let request = RouteNetlinkMessage::GetQueueDiscipline(message);
        match self.netlink().find(request).map_err(failed)? {
            Some(RouteNetlinkMessage::NewQueueDiscipline(message)) => Ok(shape_of(&message)),
            _ => Ok(None),
        }
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

/// Whether this kernel can delay and lose packets by itself (netem): seen by having it do so.
///
/// # Errors
///
/// When it refuses for another reason, or this process may not make a namespace.
pub fn has_netem() -> Result<bool, Error> {
    let nothing = Impairment { delay_ns: 0, loss: 0.0, rate_bytes_per_s: None };
    match Namespace::create()?.set_impairment("lo", nothing) {
        Ok(()) => Ok(true),
        Err(Error::Network { cause, .. }) if cause.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(error) => Err(error),
    }
}

/// Names the missing kind of queue. The kernel reports it as "no such file", which would puzzle users.
fn refusal(device: &str, kind: &str, cause: io::Error) -> Error {
    let cause = match cause.raw_os_error() {
        Some(libc::ENOENT) => {
            let words = format!("this kernel has no {kind} (CONFIG_NET_SCH_*)");
            io::Error::new(io::ErrorKind::Unsupported, words)
        }
        _ => cause,
    };
    Error::Network { what: format!("give {device} a queue of kind {kind}"), cause }
}

fn bucket_options(bucket: TokenBucket) -> Vec<u8> {
    /// `TC_LINKLAYER_ETHERNET`: the kernel computes times by itself and needs no table.
    const ETHERNET: u8 = 1;
    let low = u32::try_from(bucket.rate_bytes_per_s).unwrap_or(u32::MAX);
    // struct tc_tbf_qopt: two struct tc_ratespec of 12 bytes, then limit, buffer and mtu.
    let mut parms = vec![0_u8; 36];
    parms[1] = ETHERNET;
    parms[8..12].copy_from_slice(&low.to_ne_bytes());
    parms[24..28].copy_from_slice(&bucket.limit_bytes.to_ne_bytes());
    let mut bytes = Vec::new();
    attribute(&mut bytes, tbf::PARMS, &parms);
    if low == u32::MAX {
        attribute(&mut bytes, tbf::RATE64, &bucket.rate_bytes_per_s.to_ne_bytes());
    }
    attribute(&mut bytes, tbf::BURST, &bucket.burst_bytes.to_ne_bytes());
    bytes
}

/// `struct tc_netem_qopt` and attributes (include/uapi/linux/pkt_sched.h).
fn impairment_options(impairment: Impairment) -> Vec<u8> {
    /// Far more packets than are on the way at any rate that a single machine reaches.
    const LIMIT_PACKETS: u32 = 100_000;
    let loss = (impairment.loss.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u32;
    // latency, limit, loss, gap, duplicate, jitter.
    let mut bytes = Vec::new();
    for word in [0, LIMIT_PACKETS, loss, 0, 0, 0] {
        bytes.extend(word.to_ne_bytes());
    }
    attribute(&mut bytes, netem::LATENCY64, &impairment.delay_ns.to_ne_bytes());
    if let Some(rate) = impairment.rate_bytes_per_s {
        let low = u32::try_from(rate).unwrap_or(u32::MAX);
        let mut value = low.to_ne_bytes().to_vec();
        value.resize(16, 0);
        attribute(&mut bytes, netem::RATE, &value);
        attribute(&mut bytes, netem::RATE64, &rate.to_ne_bytes());
    }
    bytes
}

fn shape_of(message: &TcMessage) -> Option<Shape> {
    let kind = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    })?;
    // The library hands over the options of a kind that it does not know as they are.
    let options = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => options.iter().find_map(|option| match option {
            TcOption::Other(bytes) => {
                let mut value = vec![0; bytes.value_len()];
                bytes.emit_value(&mut value);
                Some(value)
            }
            _ => None,
        }),
        _ => None,
    })?;
    match kind {
        "tbf" => bucket_of(&options).map(Shape::Bucket),
        "netem" => impairment_of(&options).map(Shape::Impairment),
        _ => None,
    }
}

/// Reads the options of [`bucket_options`] as the kernel returns them, with the burst as the time that it takes at the rate.
fn bucket_of(options: &[u8]) -> Option<TokenBucket> {
    let parms = value_of(options, tbf::PARMS)?;
    let rate_bytes_per_s = match value_of(options, tbf::RATE64) {
        Some(rate) => u64::from_ne_bytes(*rate.first_chunk()?),
        None => word(&parms, 8)?.into(),
    };
    let burst_ns = u64::from(word(&parms, 28)?) * TICK_NS;
    let burst_bytes = u128::from(burst_ns) * u128::from(rate_bytes_per_s) / 1_000_000_000;
    Some(TokenBucket {
        rate_bytes_per_s,
        burst_bytes: u32::try_from(burst_bytes).unwrap_or(u32::MAX),
        limit_bytes: word(&parms, 24)?,
    })
}

/// Reads the options of [`impairment_options`] as the kernel returns them.
fn impairment_of(options: &[u8]) -> Option<Impairment> {
    // struct tc_netem_qopt has 24 bytes, and attributes follow.
    let (fixed, attributes) = options.split_at_checked(24)?;
    let rate = match value_of(attributes, netem::RATE64) {
        Some(rate) => u64::from_ne_bytes(*rate.first_chunk()?),
        None => value_of(attributes, netem::RATE).and_then(|rate| word(&rate, 0)).map_or(0, u64::from),
    };
    Some(Impairment {
        delay_ns: u64::from_ne_bytes(*value_of(attributes, netem::LATENCY64)?.first_chunk()?),
        loss: f64::from(word(fixed, 8)?) / f64::from(u32::MAX),
        rate_bytes_per_s: (rate > 0).then_some(rate),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn value_of(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    let found = NlasIterator::new(attributes).filter_map(Result::ok).find(|one| one.kind() == kind)?;
    Some(found.value().to_vec())
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkDeserializable, NetlinkHeader};

    use super::*;

    /// A message of the kernel about a device's queue: `struct tcmsg`, kind, options (`RTM_NEWQDISC`).
    fn message(kind: &str, options: &[u8]) -> Option<Shape> {
        let mut bytes = vec![0; 20];
        attribute(&mut bytes, 1, format!("{kind}\0").as_bytes());
        attribute(&mut bytes, OPTIONS, options);
        let mut header = NetlinkHeader::default();
        header.message_type = 36;
        match RouteNetlinkMessage::deserialize(&header, &bytes).unwrap() {
            RouteNetlinkMessage::NewQueueDiscipline(message) => shape_of(&message),
            other => panic!("{other:?}"),
        }
    }

    /// The options that `tbf_dump` of net/sched/sch_tbf.c writes.
    fn bucket_dump(rate: u32, limit: u32, ticks: u32, rate64: Option<u64>) -> Vec<u8> {
        let mut parms = vec![0; 36];
        parms[8..12].copy_from_slice(&rate.to_ne_bytes());
        parms[24..28].copy_from_slice(&limit.to_ne_bytes());
        parms[28..32].copy_from_slice(&ticks.to_ne_bytes());
        let mut bytes = Vec::new();
        attribute(&mut bytes, 1, &parms);
        if let Some(rate) = rate64 {
            attribute(&mut bytes, 4, &rate.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_token_bucket_is_read_as_the_kernel_says_it() {
        // 10,000 B at 125,000 B/s take 80 ms, which are 1,250,000 ticks.
        let bucket = TokenBucket { rate_bytes_per_s: 125_000, burst_bytes: 10_000, limit_bytes: 20_000 };
        assert_eq!(
            message("tbf", &bucket_dump(125_000, 20_000, 1_250_000, None)),
            Some(Shape::Bucket(bucket))
        );
        let fast = TokenBucket { rate_bytes_per_s: 10_000_000_000, burst_bytes: 640, limit_bytes: 9 };
        let dump = bucket_dump(u32::MAX, 9, 1, Some(10_000_000_000));
        assert_eq!(message("tbf", &dump), Some(Shape::Bucket(fast)));
        assert_eq!(message("pfifo", &1000_u32.to_ne_bytes()), None);
        assert_eq!(message("tbf", &[0; 6]), None);
    }

    /// The options that `netem_dump` of net/sched/sch_netem.c writes. The delay is in ticks, too.
    fn impairment_dump(delay_ns: u64, loss: u32, rate: u32, rate64: Option<u64>) -> Vec<u8> {
        let ticks = u32::try_from(delay_ns / TICK_NS).unwrap();
        let mut bytes: Vec<u8> =
            [ticks, 100_000, loss, 0, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        attribute(&mut bytes, 10, &delay_ns.to_ne_bytes());
        attribute(&mut bytes, 11, &[0; 8]);
        for (kind, size) in [(1, 12), (3, 8), (4, 8)] {
            attribute(&mut bytes, kind, &vec![0; size]);
        }
        if let Some(rate) = rate64 {
            attribute(&mut bytes, 8, &rate.to_ne_bytes());
        }
        attribute(&mut bytes, 6, &[rate.to_ne_bytes(), [0; 4], [0; 4], [0; 4]].concat());
        bytes
    }

    #[test]
    fn an_impairment_is_read_as_the_kernel_says_it() {
        let of = |delay_ns, loss, rate_bytes_per_s| {
            Some(Shape::Impairment(Impairment { delay_ns, loss, rate_bytes_per_s }))
        };
        let read = |dump: Vec<u8>| message("netem", &dump);
        assert_eq!(read(impairment_dump(1_000_001, 0, 0, None)), of(1_000_001, 0.0, None));
        assert_eq!(read(impairment_dump(0, u32::MAX, 125_000, None)), of(0, 1.0, Some(125_000)));
        let fast = Some(10_000_000_000);
        assert_eq!(read(impairment_dump(5, 0, u32::MAX, fast)), of(5, 0.0, fast));
        assert_eq!(read(vec![0; 20]), None);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let impairment = Impairment { delay_ns: 7, loss: 0.25, rate_bytes_per_s: Some(9) };
        let read = impairment_of(&impairment_options(impairment)).unwrap();
        assert!((read.loss - 0.25).abs() < 1e-9);
        assert_eq!(Impairment { loss: 0.25, ..read }, impairment);
    }

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
