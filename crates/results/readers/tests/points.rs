//! How much memory k6's points take while they are read.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::io::Read;

use plumb_fuzz::peak_bytes_of;
use plumb_readers::{Way, read_from};

/// Text that is made as it is read.
struct Repeated {
    line: Vec<u8>,
    at: usize,
    left: u64,
}

impl Read for Repeated {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.line.len() - self.at).min(usize::try_from(self.left).unwrap());
        buffer[..length].copy_from_slice(&self.line[self.at..self.at + length]);
        self.at = (self.at + length) % self.line.len();
        self.left -= length as u64;
        Ok(length)
    }
}

#[test]
fn points_of_any_size_are_read_in_little_memory() {
    read_points(96 << 20);
}

/// The laboratory has the time for it.
#[test]
fn lab_points_of_a_gigabyte_are_read_in_little_memory() {
    read_points(1_000_000_000);
}

fn read_points(bytes: u64) {
    let points = include_str!("fixtures/k6/points.ndjson");
    let line = points.lines().find(|line| line.contains("\"Point\"")).unwrap().to_owned() + "\n";
    let whole = bytes / line.len() as u64;
    let input = Repeated { line: line.into_bytes(), at: 0, left: bytes };
    let (found, peak_bytes) = peak_bytes_of(|| read_from(input, Way::Recognised));
    assert_eq!(found.unwrap()[0].measurement.work, whole);
    assert!(peak_bytes < 64 << 20, "{peak_bytes} bytes for {bytes} bytes");
}
