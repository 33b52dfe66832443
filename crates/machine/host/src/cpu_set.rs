//! Sets of CPUs, read and written in the kernel's list format: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Above every CPU number of every Linux kernel (`CONFIG_NR_CPUS` ends at 8192), so that text from
/// elsewhere cannot ask for gigabytes of CPUs.
const CPU_NUMBER_MAX: u32 = 65_535;

const BITS_PER_WORD: usize = libc::c_ulong::BITS as usize;

/// A set of CPU numbers. Its text and its serialised form are the kernel's list format, `0-3,8`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// How many CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no CPU in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is one of them.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPU numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs that are not in another set.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// The bit mask that the affinity system calls take: bit n of the whole is CPU n.
    pub(crate) fn to_mask(&self) -> Vec<libc::c_ulong> {
        let mut words = vec![0; self.0.last().map_or(1, |&last| last as usize / BITS_PER_WORD + 1)];
        for cpu in self.iter() {
            words[cpu as usize / BITS_PER_WORD] |= 1 << (cpu as usize % BITS_PER_WORD);
        }
        words
    }

    pub(crate) fn from_mask(words: &[libc::c_ulong]) -> Self {
        let cpus = 0..u32::try_from(words.len() * BITS_PER_WORD).unwrap_or(u32::MAX);
        cpus.filter(|&cpu| words[cpu as usize / BITS_PER_WORD] >> (cpu as usize % BITS_PER_WORD) & 1 == 1)
            .collect()
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

/// Text that was to name CPUs does not.
#[derive(Debug, thiserror::Error)]
#[error("read {0:?} as a list of CPUs such as \"0-3,8\"")]
pub struct NotCpuList(String);

impl FromStr for CpuSet {
    type Err = NotCpuList;

    /// Reads `0-3,8`. Blanks around the text are ignored, no text is the empty set.
    fn from_str(text: &str) -> Result<Self, NotCpuList> {
        parse(text.trim()).ok_or_else(|| NotCpuList(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<CpuSet> {
    let mut cpus = BTreeSet::new();
    for range in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (cpu_number(first)?, cpu_number(last)?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(CpuSet(cpus))
}

fn cpu_number(text: &str) -> Option<u32> {
    // `parse` alone would take "+1".
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&cpu| is_number && cpu <= CPU_NUMBER_MAX)
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuSet {
    type Error = NotCpuList;

    fn try_from(text: String) -> Result<Self, NotCpuList> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(cpus: CpuSet) -> Self {
        cpus.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for (text, canonical) in [
            ("0-3,8", "0-3,8"),
            ("", ""),
            (" 5\n", "5"),
            ("2,1,0", "0-2"),
            ("1-1", "1"),
            ("0,2,4-5", "0,2,4-5"),
        ] {
            assert_eq!(text.parse::<CpuSet>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "1,,2", "0-4294967295", "+1", "1 2", "0x1", ","] {
            let message = text.parse::<CpuSet>().unwrap_err().to_string();
            assert_eq!(message, format!("read {text:?} as a list of CPUs such as \"0-3,8\""));
        }
    }

    #[test]
    fn it_travels_as_text() {
        let cpus: CpuSet = "0-3,8".parse().unwrap();
        let json = serde_json::to_string(&cpus).unwrap();
        assert_eq!(json, "\"0-3,8\"");
        assert_eq!(serde_json::from_str::<CpuSet>(&json).unwrap(), cpus);
        assert!(serde_json::from_str::<CpuSet>("\"x\"").is_err());
    }

    proptest! {
        #[test]
        fn text_and_mask_keep_every_cpu(cpus in proptest::collection::btree_set(0..500_u32, 0..40)) {
            let cpus = CpuSet(cpus);
            prop_assert_eq!(&cpus.to_string().parse::<CpuSet>().unwrap(), &cpus);
            prop_assert_eq!(&CpuSet::from_mask(&cpus.to_mask()), &cpus);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9,\\- a]{0,20}") {
            drop(text.parse::<CpuSet>());
        }
    }
}
