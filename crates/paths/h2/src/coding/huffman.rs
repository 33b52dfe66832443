//! The Huffman code of strings (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols, and longer codes follow shorter
//! ones. So the lengths are enough, and the tables are computed from them.

use super::CodingFault;

/// The lengths of the codes of all bytes and of the end-of-string symbol, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const SYMBOLS: usize = 257;
const LENGTH_MAX: usize = 30;

/// Symbols by code, and the first code of each length.
struct Canonical {
    /// All symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
    codes: [u32; SYMBOLS],
    /// For each length, the first longer code, left-aligned in 32 bits.
    ends: [u64; LENGTH_MAX + 1],
    /// For each length, its first code, and the index of that code in `symbols`.
    firsts: [(u32, u16); LENGTH_MAX + 1],
}

const fn canonical() -> Canonical {
    let mut made = Canonical {
        symbols: [0; SYMBOLS],
        codes: [0; SYMBOLS],
        ends: [0; LENGTH_MAX + 1],
        firsts: [(0, 0); LENGTH_MAX + 1],
    };
    let (mut code, mut at, mut length) = (0_u32, 0_u16, 1);
    while length <= LENGTH_MAX {
        made.firsts[length] = (code, at);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                made.symbols[at as usize] = symbol as u16;
                made.codes[symbol] = code;
                code += 1;
                at += 1;
            }
            symbol += 1;
        }
        made.ends[length] = (code as u64) << (32 - length);
        code <<= 1;
        length += 1;
    }
    made
}

static CANONICAL: Canonical = canonical();

/// Codes of at most this many bits are looked up at once.
const SHORT_BITS: usize = 8;

/// For each value of the next eight bits, the symbol and the length of its code; a length of 0 stands for a longer code.
static SHORT: [(u8, u8); 1 << SHORT_BITS] = short();

const fn short() -> [(u8, u8); 1 << SHORT_BITS] {
    let made = canonical();
    let mut table = [(0, 0); 1 << SHORT_BITS];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        let length = LENGTHS[symbol] as usize;
        if length <= SHORT_BITS {
            let spread = 1 << (SHORT_BITS - length);
            let first = (made.codes[symbol] as usize) * spread;
            let mut at = first;
            while at < first + spread {
                table[at] = (symbol as u8, length as u8);
                at += 1;
            }
        }
        symbol += 1;
    }
    table
}

/// The length of a string's code in bytes.
pub(crate) fn encoded_length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Writes the code of a string.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    // At most 7 bits are left from the byte before, so that 30 more always fit.
    let (mut bits, mut count) = (0_u64, 0_u32);
    for &byte in text {
        let symbol = usize::from(byte);
        let length = u32::from(LENGTHS[symbol]);
        bits = bits << length | u64::from(CANONICAL.codes[symbol]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        let padding = 8 - count;
        out.push((bits << padding) as u8 | ((1 << padding) - 1));
    }
}

/// Appends the string of a code to `out`.
///
/// # Errors
///
/// When the code contains the end-of-string symbol, or its padding is not up to seven 1 bits.
pub(crate) fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), CodingFault> {
    // No code is shorter than five bits.
    out.reserve(code.len() * 8 / 5);
    let mut input = code;
    // `bits` has the next `count` bits of the code at its upper end, and zeros after them.
    let (mut bits, mut count) = (0_u64, 0_usize);
    loop {
        if count < 32 {
            fill(&mut bits, &mut count, &mut input);
        }
        let (symbol, length) = SHORT[(bits >> (64 - SHORT_BITS)) as usize];
        if length > 0 && usize::from(length) <= count {
            out.push(symbol);
            bits <<= length;
            count -= usize::from(length);
            continue;
        }
        let is_padding = count < 8 && bits >> (64 - 8) == !(0xff >> count) & 0xff;
        if is_padding {
            return Ok(());
        }
        // A short code that is cut off has no place among the long ones.
        let (symbol, length) = if length > 0 { return Err(CodingFault::Huffman) } else { long(bits) };
        if length > count {
            return Err(CodingFault::Huffman);
        }
        out.push(u8::try_from(symbol).map_err(|_| CodingFault::Huffman)?);
        bits <<= length;
        count -= length;
    }
}

/// Adds four bytes to fewer than 32 bits, or all that is left.
fn fill(bits: &mut u64, count: &mut usize, input: &mut &[u8]) {
    if let Some((four, rest)) = input.split_first_chunk() {
        *bits |= u64::from(u32::from_be_bytes(*four)) << (32 - *count);
        *count += 32;
        *input = rest;
        return;
    }
    for &byte in std::mem::take(input) {
        *bits |= u64::from(byte) << (56 - *count);
        *count += 8;
    }
}

/// The symbol that a code at the upper end of `bits` has, and the code's length.
fn long(bits: u64) -> (u16, usize) {
    let next = bits >> 32;
    // The code is complete: all sequences of 30 bits begin with a code.
    let length =
        (SHORT_BITS + 1..LENGTH_MAX).find(|&length| next < CANONICAL.ends[length]).unwrap_or(LENGTH_MAX);
    let (first, at) = CANONICAL.firsts[length];
    let code = (next >> (32 - length)) as u32;
    (CANONICAL.symbols[usize::from(at) + (code - first) as usize], length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(code: &[u8]) -> Result<Vec<u8>, CodingFault> {
        let mut out = Vec::new();
        decode(code, &mut out).map(|()| out)
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        for (symbol, code, length) in [
            (b'0', 0x0, 5),
            (b'a', 0x3, 5),
            (b' ', 0x14, 6),
            (b':', 0x5c, 7),
            (b'X', 0xfc, 8),
            (b'!', 0x3f8, 10),
            (b'\\', 0x7fff0, 19),
            (0, 0x1ff8, 13),
            (b'\n', 0x3fff_fffc, 30),
            (249, 0xfff_fffe, 28),
        ] {
            assert_eq!((CANONICAL.codes[usize::from(symbol)], LENGTHS[usize::from(symbol)]), (code, length));
        }
        assert_eq!(CANONICAL.codes[256], 0x3fff_ffff);
    }

    #[test]
    fn wrong_codes_and_wrong_padding_are_refused() {
        assert_eq!(decoded(&[]), Ok(vec![]));
        assert_eq!(decoded(&[0x1f]), Ok(b"a".to_vec()));
        // Padding of eight bits, with a zero, the end-of-string symbol, and a code that is cut off.
        for code in
            [&[0xff][..], &[0x1f, 0xff], &[0x1e], &[0x18], &[0xff; 4], &[0xff, 0xff, 0xff, 0xfc], &[0xfe]]
        {
            assert_eq!(decoded(code), Err(CodingFault::Huffman), "{code:x?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut code = Vec::new();
            encode(&text, &mut code);
            prop_assert_eq!(code.len(), encoded_length(&text));
            prop_assert_eq!(decoded(&code), Ok(text));
        }

        #[test]
        fn a_code_that_is_decoded_is_the_only_one(code in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(text) = decoded(&code) {
                let mut again = Vec::new();
                encode(&text, &mut again);
                prop_assert_eq!(again, code);
            }
        }
    }
}
