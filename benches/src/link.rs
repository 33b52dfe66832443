//! The link that `plumb` makes: how late its packets are, and how many it carries.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use plumb_host::cpu::{Awake, available_cpus};
use plumb_host::network::namespace::Namespace;
use plumb_host::network::{Link, LinkCounts, LinkTerms, TunLink};
use plumb_host::time::monotonic_ns;

use crate::results::write_text;
use crate::{Outcome, say};

const FAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 2);
const DEVICE: Link<'_> = Link { name: "eth0", mtu: 1500, queue_length: None, queues: 1 };
const SECOND_NS: u64 = 1_000_000_000;
/// Bytes of the headers of UDP and IP.
const HEADERS: usize = 28;
/// After the last packet, more than any waits.
const PAUSE: Duration = Duration::from_millis(300);

/// A link, and a socket at each end.
struct Bench {
    link: TunLink,
    near: UdpSocket,
    far: UdpSocket,
    delay_ns: u64,
    // The devices are gone with their namespaces.
    _ends: [Namespace; 2],
}

/// Packets that were sent over a link.
struct Passed {
    counts: LinkCounts,
    /// By how much each packet was later than the delay when its receiver had it, in ns and in order.
    late_ns: Vec<u64>,
    seconds: f64,
}

impl Bench {
    fn start(delay_ns: u64) -> Outcome<Self> {
        let terms =
            LinkTerms { delay_ns, jitter_ns: 0, loss: 0.0, reordering: 0.0, rate_bytes_per_s: None, seed: 1 };
        let ends = [Namespace::create()?, Namespace::create()?];
        let link = TunLink::start([(&ends[0], DEVICE), (&ends[1], DEVICE)], terms)?;
        for (end, address) in ends.iter().zip([Ipv4Addr::new(10, 1, 0, 1), FAR]) {
            end.add_address("eth0", address, 24)?;
            end.set_up("eth0")?;
        }
        let socket = |end: &Namespace| end.inside(|| UdpSocket::bind("0.0.0.0:9"));
        let (near, far) = (socket(&ends[0])??, socket(&ends[1])??);
        far.set_nonblocking(true)?;
        let bench = Self { link, near, far, delay_ns, _ends: ends };
        // The first packets wait for the addresses of the hardware.
        bench.pass(HEADERS + 8, 100, 100)?;
        Ok(bench)
    }

    /// Sends packets of this size at a rate. One thread sends and receives, and never sleeps.
    fn pass(&self, bytes: usize, per_s: u64, packets: u64) -> Outcome<Passed> {
        let (before, begun_ns) = (self.link.counts()[0], monotonic_ns());
        let (mut out, mut buffer) = (vec![0; bytes - HEADERS], [0; 2048]);
        let (mut sent, mut late_ns) = (0, Vec::new());
        let over_ns = begun_ns + packets * SECOND_NS / per_s + PAUSE.as_nanos() as u64 + self.delay_ns;
        loop {
            let now_ns = monotonic_ns();
            if sent < packets && now_ns >= begun_ns + sent * SECOND_NS / per_s {
                out[..8].copy_from_slice(&now_ns.to_be_bytes());
                self.near.send_to(&out, (FAR, 9))?;
                sent += 1;
            }
            while let Ok(received) = self.far.recv(&mut buffer) {
                let sent_ns = buffer[..8.min(received)].try_into().map(u64::from_be_bytes)?;
                late_ns.push((monotonic_ns() - sent_ns).saturating_sub(self.delay_ns));
            }
            if now_ns > over_ns {
                break;
            }
        }
        late_ns.sort_unstable();
        let seconds = (packets as f64) / per_s as f64;
        Ok(Passed { counts: between(before, self.link.counts()[0]), late_ns, seconds })
    }
}

fn between(before: LinkCounts, after: LinkCounts) -> LinkCounts {
    LinkCounts {
        forwarded: after.forwarded - before.forwarded,
        late: after.late - before.late,
        crowded_out: after.crowded_out - before.crowded_out,
        refused: after.refused - before.refused,
        cpu_ns: after.cpu_ns - before.cpu_ns,
        ..after
    }
}

/// Measures both, and writes the section.
pub fn run() -> Outcome {
    let _awake = Awake::keep(&available_cpus()?);
    let mut text = "100,000 packets of 64 B at 5,000/s. A packet is late by the time between its delay and the moment at which its \
                    receiver has it, so the figures include the receiver's own.\n\n\
                    | delay | late: median | p99 | most | by more than 0.2 ms | counted as late by the link |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for delay_ms in [1, 20] {
        let passed = Bench::start(delay_ms * 1_000_000)?.pass(64, 5_000, 100_000)?;
        let at = |share: f64| {
            let rank = ((passed.late_ns.len() - 1) as f64 * share) as usize;
            format!("{:.0} us", passed.late_ns[rank] as f64 / 1e3)
        };
        let share = |count: usize| format!("{:.3}%", 100.0 * count as f64 / passed.late_ns.len() as f64);
        let later = passed.late_ns.iter().filter(|late_ns| **late_ns > 200_000).count();
        line(
            &mut text,
            &format!(
                "| {delay_ms} ms | {} | {} | {} | {} | {} |",
                at(0.5),
                at(0.99),
                at(1.0),
                share(later),
                share(passed.counts.late as usize)
            ),
        );
    }
    text.push_str(
        "\nEach row is two seconds at a delay of 1 ms, in one direction. A slot is void if more than 1% of its packets are late, if any is \
         dropped, or if a thread of the link is too busy.\n\n\
         | packet | offered | late by more than 0.2 ms | dropped | the thread's share of a CPU | its time for a packet |\n|---|---|---|---|---|---|\n",
    );
    for bytes in [64, 1500] {
        for per_s in [5_000, 10_000, 20_000, 40_000, 80_000, 160_000] {
            let passed = Bench::start(1_000_000)?.pass(bytes, per_s, 2 * per_s)?;
            let LinkCounts { forwarded, late, crowded_out, refused, cpu_ns, .. } = passed.counts;
            let packets = forwarded.max(1) as f64;
            line(
                &mut text,
                &format!(
                    "| {bytes} B | {per_s}/s | {:.1}% | {} | {:.0}% | {:.1} us |",
                    100.0 * late as f64 / packets,
                    crowded_out + refused,
                    100.0 * cpu_ns as f64 / 1e9 / passed.seconds,
                    cpu_ns as f64 / 1e3 / packets
                ),
            );
        }
    }
    write_text("link", "The link that plumb makes", &text)
}

fn line(text: &mut String, line: &str) {
    say(line);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}
