//! Options of the handshake: their numbers, and the replies to them.

/// `IHAVEOPT`.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Numbers of options.
pub(super) mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
}

/// Numbers of replies.
pub(super) mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    const ERROR: u32 = 1 << 31;
    pub const UNSUPPORTED: u32 = ERROR + 1;
    pub const INVALID: u32 = ERROR + 3;
    pub const UNKNOWN: u32 = ERROR + 6;
    pub const TOO_BIG: u32 = ERROR + 9;
}

/// Numbers of pieces of information about an export.
pub(super) mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const BLOCK_SIZE: u16 = 3;
}

/// The server's abilities with a volume: has flags, flush, FUA, trim, write zeroes, DF, several connections.
///
/// Several connections may be used at once because all of them go to one page cache, and a flush on any of them is an
/// fdatasync of the file.
pub(super) const TRANSMISSION_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;
/// With structured replies, reads can be asked for in one piece.
pub(super) const FLAG_SEND_DF: u16 = 1 << 7;

/// Appends a reply to an option.
pub(super) fn push_reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// The name and the wanted pieces of information in an option's data; `None` where it is not formed so.
pub(super) fn parse_info(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (name, rest) = rest.split_at_checked(length)?;
    let (count, rest) = rest.split_first_chunk::<2>()?;
    if rest.len() != usize::from(u16::from_be_bytes(*count)) * 2 {
        return None;
    }
    let wanted = rest.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    Some((std::str::from_utf8(name).ok()?, wanted))
}
