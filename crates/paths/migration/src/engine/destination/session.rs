//! A migration on the destination's side, from the setup until the source releases the memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_host::cpu::CpuTime;
use plumb_host::time::monotonic_ns;
use plumb_model::Bytes;

use super::super::alarm::Alarm;
use super::super::error::MigrationError;
use super::super::memory::GuestMemory;
use super::super::message::{
    self, Carry, FromDestination, FromSource, Messages, REGIONS_MAX, Received, SOURCE_LINE_BYTES_MAX,
};
use super::super::wire::tls::Identity;
use super::super::wire::{self, Control, Incoming};
use super::arrivals::Arrivals;
use super::channel::{Channel, Counts};
use super::hub::{Arrival, HELLO_TIMEOUT, Hub};
use super::room::Stranger;
use plumb_codec::{CodecSettings, PAGE_BYTES};

/// The time limit for the channels of a migration to connect.
const CHANNELS_TIMEOUT: Duration = Duration::from_secs(4);

/// The time limit for a source to hash its own memory after it has received this side's hashes.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(600);

/// A source's request.
#[derive(Debug, Clone, Copy)]
struct Wanted<'m> {
    token: u64,
    channels: u8,
    codec: &'m CodecSettings,
    carry: Carry,
    prefault_ns: u64,
}

/// Serves a migration. An error is sent to the source, and kept.
pub(super) fn serve(stream: TcpStream, is_encrypted: bool, stranger: Stranger<'_>, hub: &Hub) {
    let Some(mut control) = protect(stream, is_encrypted, hub) else { return };
    let Ok(reader) = control.try_clone() else { return };
    let mut messages = Messages::new(reader, SOURCE_LINE_BYTES_MAX);
    let _ = control.socket().set_read_timeout(Some(HELLO_TIMEOUT));
    // A connection that ends before it has said anything is not a migration.
    let Ok(Some(setup)) = messages.next::<FromSource>() else { return };
    drop(stranger);
    if let Err(error) = migrate(&setup, &mut control, &mut messages, hub) {
        hub.fail(&error);
        // The source may be the one that is gone.
        let _ = message::write(&mut control, &FromDestination::Failed { reason: error.to_string() });
    }
    let _ = control.socket().shutdown(Shutdown::Both);
}

/// The control connection under TLS where this destination requires it, and without where it has no certificate. A
/// source that asks for the other is refused, so that nothing travels in the clear that was not meant to; a failure is kept
/// before it is told.
fn protect(mut stream: TcpStream, is_encrypted: bool, hub: &Hub) -> Option<Control> {
    let reason = match (&hub.identity, is_encrypted) {
        (None, false) => return Some(Control::plain(stream)),
        (Some(identity), true) => {
            let waits = stream.set_read_timeout(Some(HELLO_TIMEOUT)).map_err(lost);
            let accepted = waits.and_then(|()| Control::accept(stream, identity));
            return accepted.inspect_err(|error| hub.fail(error)).ok();
        }
        (Some(_), false) => {
            "the destination takes only encrypted connections: migrate with `--tls on --ca FILE`"
        }
        (None, true) => "the destination was started without `--tls on`",
    };
    let error = MigrationError::Tls(reason.to_owned());
    hub.fail(&error);
    // A source that waits for TLS finds no handshake here, and says so itself.
    let _ = message::write(&mut stream, &FromDestination::Failed { reason: error.to_string() });
    None
}

fn migrate(
    setup: &FromSource,
    control: &mut Control,
    messages: &mut Messages<Control>,
    hub: &Hub,
) -> Result<(), MigrationError> {
    let FromSource::Setup { token, memory_bytes, channels, ref codec, carry, prefault } = *setup else {
        return Err(unexpected(setup));
    };
    if channels == 0 {
        return Err(MigrationError::Refused("it asks for 0 channels".to_owned()));
    }
    let mut place = hub.room.take(memory_bytes)?;
    let mut memory = GuestMemory::map(memory_bytes)?;
    let began_ns = monotonic_ns();
    if prefault {
        memory.populate()?;
        place.is_made();
    }
    let (memory, prefault_ns) = (Arc::new(memory), monotonic_ns() - began_ns);
    let cpu_before = hub.cpu()?;
    let wanted = Wanted { token, channels, codec, carry, prefault_ns };
    let alarm = Arc::new(Alarm::default());
    alarm.watch(control.socket().try_clone().map_err(lost)?, Shutdown::Read);
    let (workers, sockets) = match open_channels(&wanted, control, &memory, &alarm, hub) {
        Ok(opened) => opened,
        Err(error) => {
            // Channels that have begun must not go on alone.
            alarm.raise(error);
            return alarm.take().map_or(Ok(()), Err);
        }
    };
    let asked = next_while_bytes_come(messages, control, &sockets, hub.patience);
    if !matches!(asked, Ok(Some(FromSource::Complete))) {
        // A source that gives up says so; any other end is a failure, and the alarm's own reason comes first.
        let is_release = matches!(asked, Ok(Some(FromSource::Release)));
        alarm.raise(match asked {
            Err(silent @ MigrationError::Silent { .. }) => silent,
            _ => MigrationError::Gone { peer: "source" },
        });
        workers.into_iter().for_each(|worker| drop(worker.join()));
        return if is_release { Ok(()) } else { alarm.take().map_or(Ok(()), Err) };
    }
    let counts: Vec<Counts> = workers.into_iter().filter_map(|worker| worker.join().ok().flatten()).collect();
    if let Some(error) = alarm.take() {
        return Err(error);
    }
    let cpu = hub.cpu()?.saturating_sub(cpu_before);
    let report = summarise(&counts, cpu, &sockets);
    if carry == Carry::Packets {
        hub.add(&report);
    }
    // All of it has arrived.
    place.is_made();
    message::write(control, &FromDestination::Running { report }).map_err(lost)?;
    drop(sockets);
    after(control, messages, memory, hub)
}

/// The source's next message. While none comes the channels have to carry something: a source that says nothing at all
/// would keep its memory here for ever.
fn next_while_bytes_come(
    messages: &mut Messages<Control>,
    control: &Control,
    sockets: &[TcpStream],
    patience: Duration,
) -> Result<Option<FromSource>, MigrationError> {
    control.socket().set_read_timeout(Some(patience)).map_err(lost)?;
    let received = || sockets.iter().map(|socket| wire::socket_bytes(socket).received).sum::<u64>();
    let mut before = received();
    loop {
        match messages.next::<FromSource>() {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let now = received();
                if now == before {
                    return Err(MigrationError::Silent { peer: "source", silence: patience });
                }
                before = now;
            }
            asked => return asked.map_err(lost),
        }
    }
}

/// Serves requests after the migration, until the source releases the memory.
fn after(
    control: &mut Control,
    messages: &mut Messages<Control>,
    memory: Arc<GuestMemory>,
    hub: &Hub,
) -> Result<(), MigrationError> {
    // Where there is nothing to compare any more, nothing of the guest is kept while the source makes up its mind.
    let mut memory = Some(memory);
    while let Some(asked) =
        messages.next::<FromSource>().map_err(|cause| lost_or_silent(cause, hub.patience))?
    {
        match asked {
            FromSource::Compare { key, region_bytes } => {
                let Some(memory) = memory.take() else { return Err(unexpected(&asked)) };
                let region_bytes = region_size(&memory, region_bytes)?;
                // SAFETY: the channels' threads have ended, and nobody else knows of this memory.
                let digests = unsafe { memory.digests(key, region_bytes, threads()) };
                hub.add_regions(digests.len());
                let digests = digests.iter().map(|digest| format!("{digest:032x}")).collect();
                // Given back before the source hears of the end and begins the next migration.
                drop(memory);
                message::write(control, &FromDestination::Digests { digests }).map_err(lost)?;
                control.socket().set_read_timeout(Some(COMPARISON_TIMEOUT)).map_err(lost)?;
            }
            FromSource::Release => break,
            other => return Err(unexpected(&other)),
        }
    }
    Ok(())
}

/// The size of the regions in which the memory is hashed: whole pages, and no more regions than fit in a line.
fn region_size(memory: &GuestMemory, region_bytes: u64) -> Result<usize, MigrationError> {
    let refuse = || {
        let reason = format!(
            "it asks to compare {} of memory in regions of {region_bytes} bytes: they must be whole pages, and at most \
             {REGIONS_MAX}",
            Bytes(memory.bytes() as u64)
        );
        MigrationError::Control { peer: "source", reason }
    };
    let size = usize::try_from(region_bytes).map_err(|_| refuse())?;
    let is_possible =
        size > 0 && size.is_multiple_of(PAGE_BYTES) && memory.bytes().div_ceil(size) as u64 <= REGIONS_MAX;
    if is_possible { Ok(size) } else { Err(refuse()) }
}

/// The number of CPUs of this process.
pub(in super::super) fn threads() -> usize {
    plumb_host::cpu::available_cpus().map_or(1, |cpus| cpus.len().max(1))
}

type Workers = (Vec<JoinHandle<Option<Counts>>>, Vec<TcpStream>);

/// Tells the source that its channels may connect, waits for them, and starts a thread for each.
fn open_channels(
    wanted: &Wanted<'_>,
    control: &mut Control,
    memory: &Arc<GuestMemory>,
    alarm: &Arc<Alarm>,
    hub: &Hub,
) -> Result<Workers, MigrationError> {
    let (sender, arrivals) = channel();
    let waiting = || hub.waiting.lock().unwrap_or_else(PoisonError::into_inner);
    match waiting().entry(wanted.token) {
        Entry::Vacant(place) => drop(place.insert(sender)),
        // The channels of the other one would come here.
        Entry::Occupied(_) => {
            return Err(MigrationError::Refused("another migration has the same token".to_owned()));
        }
    }
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
        let tls = hub.identity.as_ref().map(Identity::accept).transpose()?;
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
                let reason = format!("channel {index} of {channels} came twice or was not expected");
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

/// The range of memory that a channel carries without packets.
pub(in super::super) fn part(channel: u8, channels: u8, pages: u64) -> std::ops::Range<usize> {
    let border = |channel: u64| {
        let page = pages * channel / u64::from(channels.max(1));
        usize::try_from(page).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES)
    };
    border(u64::from(channel))..border(u64::from(channel) + 1)
}

fn summarise(counts: &[Counts], cpu: CpuTime, sockets: &[TcpStream]) -> Received {
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum();
    let mut channels = BTreeMap::new();
    for counts in counts {
        *channels.entry(counts.protection.to_string()).or_default() += 1;
    }
    Received {
        cpu_user_ns: cpu.user_ns,
        cpu_system_ns: cpu.system_ns,
        wire_bytes: sockets.iter().map(|socket| wire::socket_bytes(socket).received).sum(),
        packets: counts.iter().map(|counts| counts.packets).collect(),
        pages: sum(|counts| counts.pages),
        zero_pages: sum(|counts| counts.zero_pages),
        compressed_packets: sum(|counts| counts.compressed_packets),
        raw_packets: sum(|counts| counts.raw_packets),
        codec: plumb_codec::CodecCounters {
            hardware_frames: sum(|counts| counts.codec.hardware_frames),
            software_frames: sum(|counts| counts.codec.software_frames),
        },
        channels,
    }
}

fn lost_or_silent(cause: std::io::Error, silence: Duration) -> MigrationError {
    match cause.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => MigrationError::Silent { peer: "source", silence },
        _ => lost(cause),
    }
}

fn lost(cause: std::io::Error) -> MigrationError {
    MigrationError::Control { peer: "source", reason: cause.to_string() }
}

fn unexpected(message: &FromSource) -> MigrationError {
    let words = serde_json::to_string(message).unwrap_or_default();
    MigrationError::Control { peer: "source", reason: format!("it sent an unexpected message: {words:.200}") }
}
