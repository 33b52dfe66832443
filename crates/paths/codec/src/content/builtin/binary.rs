//! Machines that write binary data: instructions, rows of a database, samples, and records of measured numbers.

use super::automaton::{Automaton, Builder, Echo};
use super::random::Random;
use super::text::pronounceable_words;

/// The most frequent first bytes of x86 instructions.
const OPCODES: [u8; 8] = [0x48, 0x8b, 0x89, 0x0f, 0x83, 0x85, 0xe8, 0xff];

/// Bytes and which of their bits are random.
type Noisy = (Vec<u8>, Vec<u8>);

/// One instruction, some with an address or a constant.
fn instruction(random: &mut Random) -> Noisy {
    let mut code = vec![OPCODES[random.below(8)], random.next() as u8 & 0x7f];
    for _ in 0..random.below(4) {
        let any = random.next() as u8;
        code.push([0, 0, 0xff, 0x24, 0x08, 0x10, 0x45, any][random.below(8)]);
    }
    let mut noise = vec![0; code.len()];
    match random.below(8) {
        0 => {
            code.extend([0; 4]);
            noise.extend([0xff, 0x7f, 0, 0]);
        }
        1 => {
            code.push(0);
            noise.push(0xf8);
        }
        2 => {
            code.push(0);
            noise.push(0x3c);
        }
        _ => {}
    }
    (code, noise)
}

/// The sequences of instructions that compilers write again and again.
pub(super) fn machine_code(random: &mut Random) -> Automaton {
    let instructions: Vec<Noisy> = (0..700).map(|_| instruction(random)).collect();
    let mut builder = Builder::new(1);
    for rank in 0..5000 {
        let (mut code, mut noise) = (Vec::new(), Vec::new());
        for _ in 0..1 + random.below(6) {
            let (next, mask) = &instructions[random.skewed(instructions.len(), 2.0)];
            if code.len() + next.len() <= 32 {
                code.extend(next);
                noise.extend(mask);
            }
        }
        builder.token(0, f64::from(rank + 2).powf(-0.8), &code, &noise, 0);
    }
    builder.build(15, Echo { share: 46, least: 14, more: 63 })
}

/// Rows of a database: an identifier, a pointer, a short text, a price.
pub(super) fn rows(random: &mut Random) -> Automaton {
    let values = pronounceable_words(random, 800);
    let mut builder = Builder::new(3);
    let head = [0x17, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 1, 0, 0, 0];
    builder.token(0, 1.0, &head, &[0, 0, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0xff, 0x0f], 1);
    for value in &values {
        builder.token(1, 1.0, &[value.as_slice(), b"\0\0"].concat(), &[], 2);
    }
    for _ in 0..100 {
        builder.token(2, 1.0, &[random.next() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0, 0xff], 0);
    }
    builder.build(12, Echo { share: 20, least: 10, more: 31 })
}

/// Little-endian 16-bit samples around a level that changes slowly, some with more noise than others.
pub(super) fn samples() -> Automaton {
    const LEVELS: usize = 12;
    let mut builder = Builder::new(LEVELS);
    for state in 0..LEVELS {
        let mask = if state % 2 == 0 { 0x0f } else { 0x1f };
        let level = (40 * state as u16).to_le_bytes().repeat(8);
        for next in [state.saturating_sub(1), state, state, state, (state + 1).min(LEVELS - 1)] {
            builder.token(state, 1.0, &level, &[mask, 0].repeat(8), next);
        }
    }
    builder.build(8, Echo { share: 10, least: 10, more: 31 })
}

/// Records of 28 bytes of measured numbers, of which little but their first bytes can be predicted.
pub(super) fn catalogue() -> Automaton {
    let mut noise = [0xff; 28];
    for at in [6, 7, 14, 15, 17, 22, 23] {
        noise[at] = 0;
    }
    let mut builder = Builder::new(1);
    builder.token(0, 1.0, &[0; 28], &noise, 0);
    builder.build(8, Echo { share: 6, least: 10, more: 15 })
}
