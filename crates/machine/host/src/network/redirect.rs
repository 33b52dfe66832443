//! A shortcut for packets: an eBPF program at a device that hands them to another device, past bridge and filters.
//!
//! The program is eight instructions: count in a map, name the device, call the helper, return its answer.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle};

use super::namespace::Namespace;
use crate::Error;

/// Commands, types and helpers (include/uapi/linux/bpf.h).
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const PROG_LOAD: libc::c_long = 5;
const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const PSEUDO_MAP_VALUE: u8 = 2;
const HELPER_REDIRECT: i32 = 23;
const HELPER_REDIRECT_PEER: i32 = 155;

/// The destination of packets that a device receives.
#[derive(Debug, Clone, Copy)]
pub enum Redirect<'a> {
    /// This device, which sends them.
    SentBy(&'a str),
    /// The other end of this veth device, which receives them at once in its namespace.
    ReceivedByPeerOf(&'a str),
}

/// A program that works as long as this value and its device live.
#[derive(Debug)]
pub struct Shortcut {
    map: OwnedFd,
}

impl Shortcut {
    /// The number of packets that took the shortcut.
    ///
    /// # Errors
    ///
    /// When the kernel gives no answer.
    pub fn packets(&self) -> Result<u64, Error> {
        let (key, mut value) = (0_u32, 0_u64);
        let mut attributes = [0_u64; 4];
        attributes[0] = u64::from(self.map.as_raw_fd().unsigned_abs());
        attributes[1] = std::ptr::from_ref(&key) as u64;
        attributes[2] = std::ptr::from_mut(&mut value) as u64;
        // SAFETY: key and value have the sizes that the map was made with, and outlive the call.
        let read = unsafe { bpf(MAP_LOOKUP, &mut attributes) };
        read.map_err(|cause| Error::System { what: "read an eBPF map", cause })?;
        Ok(value)
    }
}

impl Namespace {
    /// Makes packets that `device` receives take a shortcut.
    ///
    /// # Errors
    ///
    /// When this process may not load programs, which needs root, or the kernel has no `clsact`.
    pub fn redirect(&self, device: &str, to: Redirect<'_>) -> Result<Shortcut, Error> {
        let (name, helper) = match to {
            Redirect::SentBy(name) => (name, HELPER_REDIRECT),
            Redirect::ReceivedByPeerOf(name) => (name, HELPER_REDIRECT_PEER),
        };
        let target = self.link(name)?.index;
        let loaded = count_map().and_then(|map| Ok((load(&program(&map, target, helper))?, map)));
        let (program, map) =
            loaded.map_err(|cause| Error::System { what: "load an eBPF program for packets", cause })?;
        self.attach(device, &program)?;
        Ok(Shortcut { map })
    }

    fn attach(&self, device: &str, program: &OwnedFd) -> Result<(), Error> {
        let failed = |cause| Error::Network { what: format!("attach an eBPF program to {device}"), cause };
        let mut queue = self.traffic_control(device, "clsact")?;
        queue.header.parent = TcHandle::CLSACT;
        queue.header.handle = TcHandle { major: 0xffff, minor: 0 };
        let request = RouteNetlinkMessage::NewQueueDiscipline(queue);
        self.netlink().act(request, NLM_F_CREATE | NLM_F_EXCL).map_err(failed)?;
        let mut filter = self.traffic_control(device, "bpf")?;
        filter.header.parent = TcHandle { major: 0xffff, minor: TcHandle::MIN_INGRESS };
        // Priority 1, all protocols (ETH_P_ALL in network byte order).
        filter.header.info = (1 << 16) | u32::from(3_u16.to_be());
        filter.attributes.push(TcAttribute::Other(DefaultNla::new(2, filter_options(program))));
        let request = RouteNetlinkMessage::NewTrafficFilter(filter);
        self.netlink().act(request, NLM_F_CREATE | NLM_F_EXCL).map_err(failed)
    }
}

/// `TCA_BPF_FD`, `TCA_BPF_NAME` and `TCA_BPF_FLAGS` with "the program decides" (include/uapi/linux/pkt_cls.h).
fn filter_options(program: &OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut attribute = |kind: u16, value: [u8; 4]| {
        bytes.extend(8_u16.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
    };
    attribute(6, program.as_raw_fd().to_ne_bytes());
    attribute(7, *b"way\0");
    attribute(8, 1_u32.to_ne_bytes());
    bytes
}

/// Encodes an instruction: opcode, destination and source register, offset, immediate (Documentation/bpf/instruction-set).
fn instruction(opcode: u8, destination: u8, source: u8, immediate: i32) -> u64 {
    let [a, b, c, d] = immediate.to_ne_bytes();
    u64::from_ne_bytes([opcode, destination | (source << 4), 0, 0, a, b, c, d])
}

fn program(map: &OwnedFd, target: u32, helper: i32) -> [u64; 8] {
    const LOAD_64: u8 = 0x18;
    const MOVE_64: u8 = 0xb7;
    const ATOMIC_64: u8 = 0xdb;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    [
        instruction(LOAD_64, 1, PSEUDO_MAP_VALUE, map.as_raw_fd()),
        instruction(0, 0, 0, 0),
        instruction(MOVE_64, 2, 0, 1),
        instruction(ATOMIC_64, 1, 2, 0),
        instruction(MOVE_64, 1, 0, target.cast_signed()),
        instruction(MOVE_64, 2, 0, 0),
        instruction(CALL, 0, 0, helper),
        instruction(EXIT, 0, 0, 0),
    ]
}

/// Makes a map that is an array of one 64-bit count.
fn count_map() -> io::Result<OwnedFd> {
    let words = [MAP_TYPE_ARRAY, 4, 8, 1];
    let mut attributes = [0_u64; 4];
    attributes[0] = pair(words[0], words[1]);
    attributes[1] = pair(words[2], words[3]);
    // SAFETY: the attributes hold numbers only.
    let descriptor = unsafe { bpf(MAP_CREATE, &mut attributes) }?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn load(program: &[u64]) -> io::Result<OwnedFd> {
    let count = u32::try_from(program.len()).unwrap_or(u32::MAX);
    let mut attributes = [0_u64; 6];
    attributes[0] = pair(PROG_TYPE_SCHED_CLS, count);
    attributes[1] = program.as_ptr() as u64;
    // The kernel allows these helpers only to programs under its own licence.
    attributes[2] = c"GPL".as_ptr() as u64;
    // SAFETY: the program and the licence outlive the call.
    let descriptor = unsafe { bpf(PROG_LOAD, &mut attributes) }?;
    // SAFETY: the kernel has just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Packs two consecutive 32-bit fields.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// # Safety
///
/// Addresses in `attributes` must point to what the command expects, and be valid during the call.
unsafe fn bpf(command: libc::c_long, attributes: &mut [u64]) -> io::Result<libc::c_int> {
    // SAFETY: the length is that of the attributes; the rest is the caller's promise.
    let outcome = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val::<[u64]>(attributes))
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as libc::c_int) }
}
