//! Packet-filter rules, which nftables' own program loads in the namespace. All rules of one call are one transaction.
//!
//! The program is nftables' stable interface. No maintained library has the expressions of which the kernel's rules consist, and rules are
//! loaded once in a run, not once in a packet.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::time::Duration;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NlasIterator, parse_string, parse_u64_be};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use rustix::fs::{MemfdFlags, memfd_create};

use super::namespace::Namespace;
use super::netlink::attribute;
use crate::Error;
use crate::process::{Command, Output, Stream, output_of, which};

/// Ten thousand rules take a second on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A named counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCounter {
    /// The name.
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Namespace {
    /// Adds tables, chains and rules, all or none (nft(8)). All of them are one message to the kernel: without privilege in the
    /// first user namespace it has at most `net.core.wmem_default` bytes, which is some hundred rules.
    ///
    /// # Errors
    ///
    /// When `nft` is missing, or refuses the rules.
    pub fn add_rules(&self, rules: &str) -> Result<(), Error> {
        let output = self.nft(&["-f", "-"], rules)?;
        refused(&output, "add the rules")
    }

    /// All named counters of one table of family `inet`; none where no such table exists.
    ///
    /// Netlink gives them directly, whereas `nft` reads all rules first, which takes a tenth of a second if there are thousands.
    ///
    /// # Errors
    ///
    /// When the kernel gives no answer.
    pub fn rule_counters(&self, table: &str) -> Result<Vec<RuleCounter>, Error> {
        let counters = self.inside(|| dump_counters(table))?;
        counters.map_err(|cause| Error::Network { what: "read the rules' counters".into(), cause })
    }

    /// The number of nftables' rules in all tables of all families. They include the rules of iptables if its program uses nftables, as
    /// most do.
    ///
    /// # Errors
    ///
    /// When the kernel gives no answer, or this process may not ask.
    pub fn rule_count(&self) -> Result<u64, Error> {
        let count = self.inside(|| {
            let mut count = 0;
            dump(&request(GET_RULE, FAMILY_ANY, &[]), NEW_RULE, |_| count += 1).map(|()| count)
        })?;
        count.map_err(|cause| Error::Network { what: "count the rules of nftables".into(), cause })
    }

    fn nft(&self, arguments: &[&str], input: &str) -> Result<Output, Error> {
        let failed = |cause| Error::Network { what: "hand rules to nft".into(), cause };
        let program = which("nft").ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let mut script =
            File::from(memfd_create("rules", MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?);
        script.write_all(input.as_bytes()).and_then(|()| script.rewind()).map_err(failed)?;
        let command = Command::new(program).args(arguments).stdin(Stream::File(script)).network(self)?;
        output_of(command, "nft", TIMEOUT)
    }
}

fn refused(output: &Output, what: &str) -> Result<(), Error> {
    if output.exit.is_success() {
        return Ok(());
    }
    let words = output.stderr.lines().next().unwrap_or("nothing").to_owned();
    Err(Error::Refused { what: what.to_owned(), program: "nft", words })
}

/// Messages and attributes of nftables (include/uapi/linux/netfilter/nf_tables.h, nfnetlink.h).
const SUBSYSTEM: u16 = 10 << 8;
const NEW_OBJECT: u16 = SUBSYSTEM | 18;
const GET_OBJECT: u16 = SUBSYSTEM | 19;
const NEW_RULE: u16 = SUBSYSTEM | 6;
const GET_RULE: u16 = SUBSYSTEM | 7;
const FAMILY_ANY: u8 = 0;
const FAMILY_INET: u8 = 1;
const OBJECT_TABLE: u16 = 1;
const OBJECT_NAME: u16 = 2;
const OBJECT_TYPE: u16 = 3;
const OBJECT_DATA: u16 = 4;
const TYPE_COUNTER: u32 = 1;
const COUNTER_BYTES: u16 = 1;
const COUNTER_PACKETS: u16 = 2;
/// `struct nlmsghdr`, and the `struct nfgenmsg` behind it.
const HEADER_BYTES: usize = 16;
const FAMILY_BYTES: usize = 4;

fn dump_counters(table: &str) -> io::Result<Vec<RuleCounter>> {
    let mut attributes = Vec::new();
    attribute(&mut attributes, OBJECT_TABLE, &[table.as_bytes(), b"\0"].concat());
    attribute(&mut attributes, OBJECT_TYPE, &TYPE_COUNTER.to_be_bytes());
    let mut counters = Vec::new();
    dump(&request(GET_OBJECT, FAMILY_INET, &attributes), NEW_OBJECT, |body| counters.extend(counter(body)))?;
    Ok(counters)
}

/// Asks for all objects of a kind, and takes each message's attributes.
fn dump(request: &[u8], kind: u16, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(request, 0)?;
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        if !take_messages(&bytes, kind, &mut take)? {
            return Ok(());
        }
    }
}

fn request(kind: u16, family: u8, attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(HEADER_BYTES + FAMILY_BYTES + attributes.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Sequence and port.
    bytes.extend([0; 8]);
    bytes.extend([family, 0, 0, 0]);
    bytes.extend(attributes);
    bytes
}

/// Reads the messages of one datagram. Returns whether more are to come.
fn take_messages(mut bytes: &[u8], wanted: u16, take: &mut impl FnMut(&[u8])) -> io::Result<bool> {
    const ERROR: u16 = 2;
    const DONE: u16 = 3;
    while let Some(header) = bytes.get(..HEADER_BYTES) {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let body = bytes.get(HEADER_BYTES..length).ok_or(io::ErrorKind::InvalidData)?;
        match kind {
            DONE => return Ok(false),
            ERROR => {
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return Err(io::Error::from_raw_os_error(-code));
            }
            kind if kind == wanted => take(body.get(FAMILY_BYTES..).unwrap_or_default()),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

fn counter(attributes: &[u8]) -> Option<RuleCounter> {
    let (mut name, mut packets, mut bytes) = (None, None, None);
    for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
        match attribute.kind() {
            OBJECT_NAME => name = parse_string(attribute.value()).ok(),
            OBJECT_DATA => {
                for field in NlasIterator::new(attribute.value()).map_while(Result::ok) {
                    match field.kind() {
                        COUNTER_BYTES => bytes = parse_u64_be(field.value()).ok(),
                        COUNTER_PACKETS => packets = parse_u64_be(field.value()).ok(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(RuleCounter { name: name?, packets: packets?, bytes: bytes? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn counters_are_read_until_the_end() {
        let mut data = Vec::new();
        attribute(&mut data, COUNTER_BYTES, &960_u64.to_be_bytes());
        attribute(&mut data, COUNTER_PACKETS, &12_u64.to_be_bytes());
        let mut body = vec![FAMILY_INET, 0, 0, 0];
        attribute(&mut body, OBJECT_NAME, b"walked\0");
        attribute(&mut body, OBJECT_DATA, &data);
        let mut counters = Vec::new();
        let mut take = |bytes: &[u8]| {
            take_messages(bytes, NEW_OBJECT, &mut |body: &[u8]| counters.extend(counter(body)))
        };
        assert!(take(&message(NEW_OBJECT, &body)).unwrap() && take(&message(NEW_RULE, &body)).unwrap());
        assert!(!take(&message(3, &[0; 4])).unwrap());
        let refused = take(&message(2, &(-libc::EPERM).to_ne_bytes())).unwrap_err();
        assert_eq!(counters, [RuleCounter { name: "walked".to_owned(), packets: 12, bytes: 960 }]);
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
            let _ = take_messages(&bytes, NEW_OBJECT, &mut |body: &[u8]| drop(counter(body)));
            let _ = counter(&bytes);
        }
    }
}
