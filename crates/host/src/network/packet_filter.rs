//! Rules on the way of packets, by nftables' own program in the namespace: a whole set of rules is one transaction.
//!
//! The program is the interface that nftables keeps stable. The expressions that rules are made of in the kernel have no
//! library that is kept, and rules are loaded once for a run, not for a packet.

use std::fs::File;
use std::io::{Seek, Write};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::Error;
use crate::namespace::Namespace;
use crate::process::{Command, Output, Stream, output_of, which};

/// Ten thousand rules take a second on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A counter by its name, with what it counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCounter {
    /// Its name.
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Namespace {
    /// Adds tables, chains and rules, all or none (nft(8)).
    ///
    /// # Errors
    ///
    /// When `nft` is not there or refuses the rules.
    pub fn add_rules(&self, rules: &str) -> Result<(), Error> {
        let output = self.nft(&["-f", "-"], rules)?;
        refused(&output, "add the rules")
    }

    /// All named counters of one table.
    ///
    /// # Errors
    ///
    /// When `nft` does not say.
    pub fn rule_counters(&self, table: &str) -> Result<Vec<RuleCounter>, Error> {
        let output = self.nft(&["list", "counters", "table", "inet", table], "")?;
        refused(&output, "read the rules' counters")?;
        Ok(counters_in(&output.stdout))
    }

    fn nft(&self, arguments: &[&str], input: &str) -> Result<Output, Error> {
        let failed = |cause| Error::Network { what: "hand rules to nft".into(), cause };
        let program = which("nft").ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
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

/// Counters in nft's own words: `counter NAME {`, then `packets N bytes N`.
fn counters_in(text: &str) -> Vec<RuleCounter> {
    let mut words = text.split_whitespace();
    let mut counters = Vec::new();
    while let Some(word) = words.next() {
        if word != "counter" {
            continue;
        }
        let fields: Vec<&str> = words.by_ref().take(6).collect();
        if let [name, "{", "packets", packets, "bytes", bytes] = fields[..]
            && let (Ok(packets), Ok(bytes)) = (packets.parse(), bytes.parse())
        {
            counters.push(RuleCounter { name: name.to_owned(), packets, bytes });
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_what_nft_says() {
        let text = "table inet plumb {\n\tcounter walked {\n\t\tpackets 12 bytes 960\n\t}\n\tcounter tracked {\n\t\tpackets 0 \
                    bytes 0\n\t}\n}\n";
        let expected = [("walked", 12, 960), ("tracked", 0, 0)].map(|(name, packets, bytes)| RuleCounter {
            name: name.to_owned(),
            packets,
            bytes,
        });
        assert_eq!(counters_in(text), expected);
        assert_eq!(counters_in("counter a { packets x bytes 1 }"), []);
        assert_eq!(counters_in("counter"), []);
    }
}
