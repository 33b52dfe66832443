//! One migration on the destination's side, from the setup until the source lets go of the memory.

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_host::cpu::{CpuTime, process_cpu_time};
use plumb_host::time::monotonic_ns;

use super::super::alarm::Alarm;
use super::super::error::MigrationError;
use super::super::memory::GuestMemory;
use super::super::message::{self, Carry, FromDestination, FromSource, Messages, Received};
use super::super::wire::{self, Incoming};
use super::arrivals::Arrivals;
use super::channel::{Channel, Counts};
use super::{Arrival, Hub};
use crate::codec::{CodecSpec, PAGE_BYTES};

/// How long the channels of a migration may take to come.
const CHANNELS_TIMEOUT: Duration = Duration::from_secs(4);

/// What a source asked for.
#[derive(Debug, Clone, Copy)]
struct Wanted<'m> {
    token: u64,
    channels: u8,
    codec: &'m CodecSpec,
    tls: bool,
    carry: Carry,
    prefault_ns: u64,
}

/// Serves one migration; an error is told to the source and kept.
pub(super) fn serve(stream: TcpStream, hub: &Hub) {
    let Ok(mut control) = stream.try_clone() else { return };
    let mut messages = Messages::new(stream);
    // A connection that ends before it has said anything is no migration.
    let Ok(Some(setup)) = messages.next::<FromSource>() else { return };
    if let Err(error) = migrate(&setup, &mut control, &mut messages, hub) {
        hub.fail(&error);
        // The source may be the one that is gone.
        let _ = message::write(&mut control, &FromDestination::Failed { reason: error.to_string() });
    }
    let _ = control.shutdown(Shutdown::Both);
}

fn migrate(
    setup: &FromSource,
    control: &mut TcpStream,
    messages: &mut Messages,
    hub: &Hub,
) -> Result<(), MigrationError> {
    let FromSource::Setup { token, memory_bytes, channels, ref codec, tls, carry, prefault } = *setup else {
        return Err(unexpected(setup));
    };

    if memory_bytes == 0 || !memory_bytes.is_multiple_of(PAGE_BYTES as u64) || channels == 0 {
        let reason = format!("{memory_bytes} bytes of memory over {channels} channels were asked for");
        return Err(MigrationError::Control { peer: "source", reason });
    }
    let mut memory = GuestMemory::map(memory_bytes)?;
    let began_ns = monotonic_ns();
    if prefault {
        memory.populate()?;
    }
    let (memory, prefault_ns) = (Arc::new(memory), monotonic_ns() - began_ns);
    let cpu_before = process_cpu_time(std::process::id())?;
    let wanted = Wanted { token, channels, codec, tls, carry, prefault_ns };
    let alarm = Arc::new(Alarm::default());
    alarm.watch(control.try_clone().map_err(lost)?, Shutdown::Read);
    let (workers, sockets) = match open_channels(&wanted, control, &memory, &alarm, hub) {
        Ok(opened) => opened,
        Err(error) => {
            // Channels that have begun must not go on alone.
            alarm.raise(error);
            return alarm.take().map_or(Ok(()), Err);
        }
    };
    let asked = messages.next::<FromSource>();
    if !matches!(asked, Ok(Some(FromSource::Complete))) {
        // A source that gives up says so; any other end is a failure, and the alarm's own reason comes first.
        let is_release = matches!(asked, Ok(Some(FromSource::Release)));
        alarm.raise(MigrationError::Gone { peer: "source" });
        workers.into_iter().for_each(|worker| drop(worker.join()));
        return if is_release { Ok(()) } else { alarm.take().map_or(Ok(()), Err) };
    }
    let counts: Vec<Counts> = workers.into_iter().filter_map(|worker| worker.join().ok().flatten()).collect();
    if let Some(error) = alarm.take() {
        return Err(error);
    }
    let cpu = process_cpu_time(std::process::id())?.saturating_sub(cpu_before);
    let report = summarise(&counts, cpu, &sockets);
    if carry == Carry::Packets {
        hub.add(&report);
    }
    message::write(control, &FromDestination::Running { report }).map_err(lost)?;
    drop(sockets);
    after(control, messages, &memory, hub)
}

/// Serves what comes after the migration, until the source lets go.
fn after(
    control: &mut TcpStream,
    messages: &mut Messages,
    memory: &GuestMemory,
    hub: &Hub,
) -> Result<(), MigrationError> {
    while let Some(asked) = messages.next::<FromSource>().map_err(lost)? {
        match asked {
            FromSource::Compare { key, region_bytes } => {
                let region_bytes = usize::try_from(region_bytes).unwrap_or(usize::MAX);
                // SAFETY: the channels' threads have ended, and nobody else knows of this memory.
                let digests = unsafe { memory.digests(key, region_bytes, threads()) };
                hub.add_regions(digests.len());
                let digests = digests.iter().map(|digest| format!("{digest:032x}")).collect();
                message::write(control, &FromDestination::Digests { digests }).map_err(lost)?;
            }
            FromSource::Release => break,
            other => return Err(unexpected(&other)),
        }
    }
    Ok(())
}

/// As many as there are CPUs for this process.
pub(in super::super) fn threads() -> usize {
    plumb_host::cpu::available_cpus().map_or(1, |cpus| cpus.len().max(1))
}

type Workers = (Vec<JoinHandle<Option<Counts>>>, Vec<TcpStream>);

/// Lets the source know that its channels may come, waits for them, and starts a thread for each.
fn open_channels(
    wanted: &Wanted<'_>,
    control: &mut TcpStream,
    memory: &Arc<GuestMemory>,
    alarm: &Arc<Alarm>,
    hub: &Hub,
) -> Result<Workers, MigrationError> {
    let (sender, arrivals) = channel();
    let waiting = || hub.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting().insert(wanted.token, sender);
    let come = message::write(control, &FromDestination::Ready { prefault_ns: wanted.prefault_ns })
        .map_err(lost)
        .and_then(|()| await_channels(&arrivals, wanted.channels));
    waiting().remove(&wanted.token);
    let streams = come?;
    let pages = Arc::new(Arrivals::new(memory.pages(), u32::from(wanted.channels)));
    let (mut workers, mut sockets) = (Vec::new(), Vec::new());
    for (index, stream) in streams {
        alarm.watch(stream.try_clone().map_err(lost)?, Shutdown::Both);
        sockets.push(stream.try_clone().map_err(lost)?);
        let built = if wanted.codec.is_none() { Ok(None) } else { wanted.codec.build().map(Some) };
        let codec = built.map_err(|cause| MigrationError::Build { name: wanted.codec.name(), cause })?;
        let tls = match &hub.identity {
            Some(identity) if wanted.tls => Some(identity.accept()?),
            None if wanted.tls => return Err(MigrationError::Tls("it was not started with TLS".to_owned())),
            _ => None,
        };
        let channel = Channel {
            index,
            incoming: Incoming::new(stream, tls),
            memory: Arc::clone(memory),
            arrivals: Arc::clone(&pages),
            codec,
            alarm: Arc::clone(alarm),
        };
        workers.push(start(channel, wanted)?);
    }
    Ok((workers, sockets))
}

fn await_channels(arrivals: &Receiver<Arrival>, channels: u8) -> Result<Vec<Arrival>, MigrationError> {
    let mut come: Vec<Arrival> = Vec::new();
    while come.len() < usize::from(channels) {
        match arrivals.recv_timeout(CHANNELS_TIMEOUT) {
            Ok((index, _)) if index >= channels || come.iter().any(|(other, _)| *other == index) => {
                let reason = format!("channel {index} came, of {channels}, and was there or was not due");
                return Err(MigrationError::Control { peer: "source", reason });
            }
            Ok(arrival) => come.push(arrival),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let what = format!("channel {} of {channels}", come.len() + 1);
                return Err(MigrationError::Late { what, seconds: CHANNELS_TIMEOUT.as_secs() });
            }
        }
    }
    come.sort_by_key(|(index, _)| *index);
    Ok(come)
}

fn start(mut channel: Channel, wanted: &Wanted<'_>) -> Result<JoinHandle<Option<Counts>>, MigrationError> {
    let part = part(channel.index, wanted.channels, channel.memory.pages());
    let carry = wanted.carry;
    std::thread::Builder::new()
        .name(format!("receive {}", channel.index))
        .spawn(move || {
            let received = match carry {
                Carry::Packets => channel.receive(),
                Carry::Stream => channel.receive_stream(part).map(|()| Counts::default()),
            };
            received.map_err(|error| channel.alarm.raise(error)).ok()
        })
        .map_err(MigrationError::kernel("start a channel's thread"))
}

/// The bytes of memory that a channel carries where there are no packets.
pub(in super::super) fn part(channel: u8, channels: u8, pages: u64) -> std::ops::Range<usize> {
    let border = |channel: u64| {
        let page = pages * channel / u64::from(channels.max(1));
        usize::try_from(page).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES)
    };
    border(u64::from(channel))..border(u64::from(channel) + 1)
}

fn summarise(counts: &[Counts], cpu: CpuTime, sockets: &[TcpStream]) -> Received {
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum();
    Received {
        cpu_user_ns: cpu.user_ns,
        cpu_system_ns: cpu.system_ns,
        wire_bytes: sockets.iter().map(|socket| wire::socket_bytes(socket).received).sum(),
        packets: counts.iter().map(|counts| counts.packets).collect(),
        pages: sum(|counts| counts.pages),
        zero_pages: sum(|counts| counts.zero_pages),
        compressed_packets: sum(|counts| counts.compressed_packets),
        raw_packets: sum(|counts| counts.raw_packets),
        codec: crate::codec::CodecCounters {
            hardware_frames: sum(|counts| counts.codec.hardware_frames),
            software_frames: sum(|counts| counts.codec.software_frames),
        },
    }
}

fn lost(cause: std::io::Error) -> MigrationError {
    MigrationError::Control { peer: "source", reason: cause.to_string() }
}

fn unexpected(message: &FromSource) -> MigrationError {
    let words = serde_json::to_string(message).unwrap_or_default();
    MigrationError::Control { peer: "source", reason: format!("it said out of turn: {words:.200}") }
}
