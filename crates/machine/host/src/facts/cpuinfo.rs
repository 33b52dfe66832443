//! /proc/cpuinfo, whose fields differ from architecture to architecture.

use crate::text;

/// Features that decide how fast encryption, hashes and copies can be, on x86 and on Arm.
const RELEVANT_FLAGS: [&str; 19] = [
    "aes",
    "vaes",
    "pclmulqdq",
    "vpclmulqdq",
    "sha_ni",
    "adx",
    "bmi2",
    "avx2",
    "avx512f",
    "avx512ifma",
    "avx512vbmi",
    "gfni",
    "pmull",
    "sha1",
    "sha2",
    "sha3",
    "sha512",
    "sve",
    "sve2",
];

/// The part of /proc/cpuinfo that is used. All CPUs are taken to be like the first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CpuInfo {
    pub model: Option<String>,
    pub vendor: Option<String>,
    pub flags: Vec<String>,
    /// Whether the CPU says that it is a virtual one. Only x86 does.
    pub has_hypervisor: bool,
}

impl CpuInfo {
    pub(super) fn parse(text: &str) -> Self {
        let field = |name: &str| text::colon_field(text, name).filter(|value| !value.is_empty());
        let all_flags: Vec<&str> = field("flags")
            .or_else(|| field("Features"))
            .unwrap_or_default()
            .split_ascii_whitespace()
            .collect();
        let flags =
            all_flags.iter().filter(|flag| RELEVANT_FLAGS.contains(flag)).map(|&flag| flag.to_owned());
        // Arm has numbers only: who made the design and which it is.
        let arm_model =
            || Some(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?));
        Self {
            model: field("model name").or_else(|| field("Model")).map(str::to_owned).or_else(arm_model),
            vendor: field("vendor_id").or_else(|| field("CPU implementer")).map(str::to_owned),
            flags: flags.collect(),
            has_hypervisor: all_flags.contains(&"hypervisor"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn x86_is_read() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\n\
                    model name\t: Intel(R) Xeon(R) Platinum 8480+\n\
                    flags\t\t: fpu sse2 aes hypervisor avx512ifma sha_ni aesx\n\nprocessor\t: 1\nvendor_id\t: Other\n";
        let expected = CpuInfo {
            model: Some("Intel(R) Xeon(R) Platinum 8480+".to_owned()),
            vendor: Some("GenuineIntel".to_owned()),
            flags: ["aes", "avx512ifma", "sha_ni"].map(str::to_owned).to_vec(),
            has_hypervisor: true,
        };
        assert_eq!(CpuInfo::parse(text), expected);
    }

    #[test]
    fn arm_is_read() {
        let text = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd aes pmull sha2 sve\n\
                    CPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd40\n";
        let cpu = CpuInfo::parse(text);
        assert_eq!(cpu.model.unwrap(), "implementer 0x41 part 0xd40");
        assert_eq!(cpu.flags, ["aes", "pmull", "sha2", "sve"]);
        assert!(!cpu.has_hypervisor);
    }

    #[test]
    fn nothing_is_read_from_nothing() {
        assert_eq!(CpuInfo::parse(""), CpuInfo::default());
        assert_eq!(CpuInfo::parse("model name:\nflags\n"), CpuInfo::default());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "((flags|model name|CPU part|x)[ \t:a-z]*\n?)*") {
            drop(CpuInfo::parse(&text));
        }
    }
}
