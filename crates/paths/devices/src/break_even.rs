//! From how many operations on a pass of eight lanes costs less than the same operations in software.
//!
//! A pass costs the same however many of its lanes have work, on most CPUs as much as three to five operations in
//! software. A lone client would be slowed by it, so what is below the break-even is better done in software. Where
//! that lies is for each machine to find: it takes a few passes of each kind.

use std::sync::Arc;

use crate::algorithm::{Group, Hash, OperationKind, Scheme};
use crate::device_kind::LANES;
use crate::key::SigningKey;
use crate::operation::Operation;

/// The fewest operations that are worth a pass, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakEven {
    fill_min: [usize; OperationKind::COUNT],
}

impl Default for BreakEven {
    /// Every operation is worth a pass.
    fn default() -> Self {
        Self { fill_min: [1; OperationKind::COUNT] }
    }
}

impl BreakEven {
    /// The fewest operations of a kind that are worth a pass.
    #[must_use]
    pub fn fill_min(&self, kind: OperationKind) -> usize {
        self.fill_min[kind.index()]
    }

    /// The same with another number for a kind; 1 means that every operation is worth a pass.
    #[must_use]
    pub fn with(mut self, kind: OperationKind, fill_min: usize) -> Self {
        self.fill_min[kind.index()] = fill_min.clamp(1, LANES);
        self
    }

    /// The same with what was measured for a kind: the cost of a pass, and of one operation in software.
    ///
    /// A full pass always goes to the lanes, so that a user who asks for them sees what they cost.
    pub(crate) fn measured(self, kind: OperationKind, pass_ns: u64, software_ns: u64) -> Self {
        let cheaper =
            pass_ns.checked_div(software_ns).map_or(LANES, |whole| usize::try_from(whole).unwrap_or(LANES));
        self.with(kind, cheaper.saturating_add(1))
    }
}

/// What a server does for one handshake, to be measured: a signature, if there is a key, and an exchange in each group.
pub(crate) fn samples(key: Option<&Arc<SigningKey>>) -> Vec<Operation> {
    let sign = key.map(|key| Operation::Sign {
        key: Arc::clone(key),
        scheme: match key.kind() {
            OperationKind::EcdsaP256 => Scheme::EcdsaP256Sha256,
            _ => Scheme::RsaPkcs1(Hash::Sha256),
        },
        message: vec![0x5a; 100],
    });
    sign.into_iter().chain([Group::X25519, Group::P256].map(Operation::Generate)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn from_the_break_even_on_a_pass_is_cheaper(pass_ns in 0_u64..10_000_000, software_ns in 0_u64..10_000_000) {
            let break_even = BreakEven::default().measured(OperationKind::Rsa2048, pass_ns, software_ns);
            let fill = break_even.fill_min(OperationKind::Rsa2048) as u64;
            prop_assert!((1..=8).contains(&fill));
            prop_assert!(fill == 8 || fill * software_ns > pass_ns);
            prop_assert!(fill == 1 || (fill - 1) * software_ns <= pass_ns);
            prop_assert_eq!(break_even.fill_min(OperationKind::Rsa4096), 1);
        }
    }
}
