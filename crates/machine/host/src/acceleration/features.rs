//! Instructions that do in software what an accelerator does in hardware.

use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::HostFacts;

/// One set of instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CpuFeature {
    /// The name as its maker writes it.
    pub name: &'static str,
    /// The name as the kernel writes it.
    pub flag: &'static str,
    /// Whether this CPU has it.
    pub present: bool,
    /// The work that it speeds up.
    pub good_for: &'static str,
}

const FEATURES: [(&str, &str, &str); 5] = [
    ("AVX-512 IFMA", "avx512ifma", "eight RSA or elliptic-curve operations in one pass, by libcrypto_mb"),
    ("VAES", "vaes", "AES on several blocks at once"),
    ("VPCLMULQDQ", "vpclmulqdq", "GCM's checksum on several blocks at once"),
    ("SHA", "sha_ni", "SHA-256 in hardware"),
    ("AVX2", "avx2", "ChaCha20 and hashes on several blocks at once"),
];

/// The instructions that matter to encryption on x86; none on other architectures, which have others.
#[must_use]
pub fn cpu_features(facts: &HostFacts) -> Vec<CpuFeature> {
    if facts.architecture != "x86_64" {
        return Vec::new();
    }
    let feature = |(name, flag, good_for): (&'static str, &'static str, &'static str)| CpuFeature {
        name,
        flag,
        present: facts.cpu_flags.iter().any(|found| found == flag),
        good_for,
    };
    FEATURES.map(feature).into()
}
