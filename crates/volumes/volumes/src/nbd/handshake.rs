//! The handshake as a state machine over bytes: no sockets, so that hostile input can be tried by the thousand.

use std::sync::Arc;

use super::Exports;
use super::options::{
    FLAG_SEND_DF, OPTION_MAGIC, TRANSMISSION_FLAGS, info, option, parse_info, push_reply, reply,
};
use super::wire::PAYLOAD_BYTES_MAX;
use crate::volume::Volume;

const FLAG_FIXED_NEWSTYLE: u16 = 1;
const FLAG_NO_ZEROES: u16 = 2;
/// Names have at most 4096 bytes; an option is that and a list of numbers.
const OPTION_BYTES_MAX: usize = 8 << 10;
/// The alignment for clients; every byte may be addressed.
const PREFERRED_BLOCK_BYTES: u32 = 4096;

/// The server's first bytes: `NBDMAGIC`, `IHAVEOPT` and its flags.
pub(super) fn greeting() -> Vec<u8> {
    let mut bytes = b"NBDMAGIC".to_vec();
    bytes.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    bytes
}

/// A handshake in progress.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// The client's flags, once they are here.
    flags: Option<u32>,
    structured: bool,
    /// So much of an option that is too large is still to be thrown away.
    skip: usize,
}

/// The progress of a handshake with the bytes it was given.
#[derive(Debug)]
pub(super) enum Step {
    /// There are too few.
    More,
    /// This many were used; there may be more to do.
    Used(usize),
    /// This many were used, and the client has chosen a volume.
    Enter { used: usize, volume: Arc<Volume>, structured: bool },
    /// The connection is at its end.
    Close,
}

impl Handshake {
    /// Does one step. Replies are appended to `out`.
    pub(super) fn step(&mut self, input: &[u8], exports: &Exports, out: &mut Vec<u8>) -> Step {
        if self.skip > 0 {
            let used = self.skip.min(input.len());
            self.skip -= used;
            return if used > 0 { Step::Used(used) } else { Step::More };
        }
        if self.flags.is_none() {
            let Some(flags) = input.first_chunk::<4>() else { return Step::More };
            let flags = u32::from_be_bytes(*flags);
            let known = u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
            if flags & !known != 0 {
                return Step::Close;
            }
            self.flags = Some(flags);
            return Step::Used(4);
        }
        self.option(input, exports, out)
    }

    fn option(&mut self, input: &[u8], exports: &Exports, out: &mut Vec<u8>) -> Step {
        let Some((magic, rest)) = input.split_first_chunk::<8>() else { return Step::More };
        if u64::from_be_bytes(*magic) != OPTION_MAGIC {
            return Step::Close;
        }
        let Some((number, rest)) = rest.split_first_chunk::<4>() else { return Step::More };
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Step::More };
        let number = u32::from_be_bytes(*number);
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > OPTION_BYTES_MAX {
            if number == option::EXPORT_NAME {
                return Step::Close;
            }
            push_reply(out, number, reply::TOO_BIG, &[]);
            self.skip = length;
            return Step::Used(16);
        }
        let Some(data) = rest.get(..length) else { return Step::More };
        self.answer(number, data, exports, out)
    }

    fn answer(&mut self, number: u32, data: &[u8], exports: &Exports, out: &mut Vec<u8>) -> Step {
        let used = 16 + data.len();
        match number {
            option::EXPORT_NAME => return self.export_name(used, data, exports, out),
            option::ABORT => {
                push_reply(out, number, reply::ACK, &[]);
                return Step::Close;
            }
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                push_reply(out, number, reply::INVALID, &[]);
            }
            option::LIST => {
                for volume in exports.all() {
                    let name = volume.name();
                    let length = u32::try_from(name.len()).unwrap_or(0).to_be_bytes();
                    push_reply(out, number, reply::SERVER, &[&length, name.as_bytes()]);
                }
                push_reply(out, number, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                push_reply(out, number, reply::ACK, &[]);
            }
            option::INFO | option::GO => {
                if let Some(volume) = self.inform(number, data, exports, out)
                    && number == option::GO
                {
                    return Step::Enter { used, volume, structured: self.structured };
                }
            }
            _ => push_reply(out, number, reply::UNSUPPORTED, &[]),
        }
        Step::Used(used)
    }

    fn transmission_flags(&self) -> [u8; 2] {
        let df = if self.structured { FLAG_SEND_DF } else { 0 };
        (TRANSMISSION_FLAGS | df).to_be_bytes()
    }

    /// The oldest way to choose a volume; it has no way to refuse but to close.
    fn export_name(&self, used: usize, data: &[u8], exports: &Exports, out: &mut Vec<u8>) -> Step {
        let volume = std::str::from_utf8(data).ok().and_then(|name| exports.find(name));
        let Some(volume) = volume else { return Step::Close };
        out.extend_from_slice(&volume.size_bytes().to_be_bytes());
        out.extend_from_slice(&self.transmission_flags());
        if self.flags.is_none_or(|flags| flags & u32::from(FLAG_NO_ZEROES) == 0) {
            out.extend_from_slice(&[0; 124]);
        }
        Step::Enter { used, volume, structured: self.structured }
    }

    /// Says what a volume is.
    fn inform(&self, number: u32, data: &[u8], exports: &Exports, out: &mut Vec<u8>) -> Option<Arc<Volume>> {
        let Some((name, wanted)) = parse_info(data) else {
            push_reply(out, number, reply::INVALID, &[]);
            return None;
        };
        let Some(volume) = exports.find(name) else {
            push_reply(out, number, reply::UNKNOWN, &[]);
            return None;
        };
        let mut tell = |kind: u16, parts: &[&[u8]]| {
            let kind = kind.to_be_bytes();
            let parts: Vec<&[u8]> = std::iter::once(&kind[..]).chain(parts.iter().copied()).collect();
            push_reply(out, number, reply::INFO, &parts);
        };
        tell(info::EXPORT, &[&volume.size_bytes().to_be_bytes(), &self.transmission_flags()]);
        if wanted.contains(&info::NAME) {
            tell(info::NAME, &[volume.name().as_bytes()]);
        }
        if wanted.contains(&info::BLOCK_SIZE) {
            let (preferred, most) = (PREFERRED_BLOCK_BYTES.to_be_bytes(), PAYLOAD_BYTES_MAX.to_be_bytes());
            tell(info::BLOCK_SIZE, &[&1_u32.to_be_bytes(), &preferred, &most]);
        }
        push_reply(out, number, reply::ACK, &[]);
        Some(volume)
    }
}
