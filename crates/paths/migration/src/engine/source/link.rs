//! A source's connections to the destination, with the threads behind them.

use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_host::signals::{receive_unless_asked_to_stop, unless_asked_to_stop, was_asked_to_stop};
use plumb_host::time::monotonic_ns;
use plumb_model::Merge;
use rustls::ClientConnection;

use super::super::alarm::Alarm;
use super::super::destination::DestinationAddress;
use super::super::error::MigrationError;
use super::super::memory::GuestMemory;
use super::super::message::{self, Carry, DESTINATION_LINE_BYTES_MAX, FromDestination, FromSource, Messages};
use super::super::pace::Pacer;
use super::super::wire::tls::{Protection, Trust};
use super::super::wire::{self, Control, Hello, Outgoing};
use super::super::zero::ZeroTest;
use super::channel::{Channel, Sent};
use super::outcome::Sample;
use super::round::Round;
use crate::settings::{SystemSettings, Tls, ZeroPages};

/// The time limit for an answer of a destination that need not wait for anything itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for the destination's own reason after a channel broke.
const REASON_TIMEOUT: Duration = Duration::from_millis(700);
/// The time between two samples of the wire.
const SAMPLE_NS: u64 = 50_000_000;

/// A command to a channel's thread.
enum Job {
    Round(Arc<Round>),
    End { rounds: u32 },
    Stream(std::ops::Range<usize>),
}

/// The connections of one migration.
pub(super) struct Link {
    control: Control,
    answers: Receiver<Option<FromDestination>>,
    alarm: Arc<Alarm>,
    pacer: Arc<Pacer>,
    jobs: Vec<Sender<Job>>,
    done: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    sockets: Vec<TcpStream>,
    prefault_ns: u64,
    samples: Vec<Sample>,
    sent: Vec<Sent>,
    protections: Vec<Protection>,
}

/// The traffic of a channel so far, and its protection.
struct Done {
    channel: u8,
    sent: Sent,
    protection: Protection,
}

/// The time limit until the channels may connect: that of any answer, and 4 s more for each GiB of memory that the destination has to make.
fn readiness_timeout(memory_bytes: usize) -> Duration {
    ANSWER_TIMEOUT + Duration::from_secs(4 * (memory_bytes >> 30) as u64)
}

impl Link {
    /// The time that the destination took to make its memory, which is not part of the migration.
    pub(super) fn prefault_ns(&self) -> u64 {
        self.prefault_ns
    }

    /// Connects, asks the destination to make room, and starts the channels' threads.
    pub(super) fn open(
        target: &DestinationAddress,
        spec: &SystemSettings,
        memory: &Arc<GuestMemory>,
        carry: Carry,
    ) -> Result<Self, MigrationError> {
        let failed = |cause| MigrationError::Connect { address: target.address, cause };
        let trust = trust(target, spec)?;
        let (there, trusted) = (target.clone(), trust.clone());
        let control = unless_asked_to_stop(move || reach(&there, trusted.as_ref())).map_err(failed)??;
        let (alarm, token) = (Arc::new(Alarm::default()), rand::random());
        let channels = u8::try_from(spec.channels).unwrap_or(u8::MAX);
        let cap = spec.cap.0.filter(|_| carry == Carry::Packets).map(|cap| cap.0);
        let (done_sender, done) = channel();
        let mut link = Self {
            answers: hear(control.try_clone().map_err(failed)?, &alarm)?,
            control,
            alarm,
            pacer: Arc::new(Pacer::new(cap)),
            jobs: Vec::new(),
            done,
            threads: Vec::new(),
            sockets: Vec::new(),
            prefault_ns: 0,
            samples: Vec::new(),
            sent: vec![Sent::default(); usize::from(channels)],
            protections: vec![Protection::None; usize::from(channels)],
        };
        link.say(&FromSource::Setup {
            token,
            memory_bytes: memory.bytes() as u64,
            channels,
            codec: spec.codec,
            carry,
            prefault: spec.prefault,
        })?;
        match link.hear(readiness_timeout(memory.bytes()), "the destination's readiness")? {
            FromDestination::Ready { prefault_ns } => link.prefault_ns = prefault_ns,
            other => return Err(unexpected(&other)),
        }
        for index in 0..channels {
            let tls = trust.as_ref().map(Trust::connect).transpose()?;
            link.add_channel((target, spec), memory, (token, index), tls, &done_sender)?;
        }
        Ok(link)
    }

    fn add_channel(
        &mut self,
        (target, spec): (&DestinationAddress, &SystemSettings),
        memory: &Arc<GuestMemory>,
        (token, index): (u64, u8),
        tls: Option<ClientConnection>,
        done: &Sender<Done>,
    ) -> Result<(), MigrationError> {
        let failed = |cause| MigrationError::Connect { address: target.address, cause };
        let mut stream = wire::connect(target.address, target.netns.as_deref()).map_err(failed)?;
        if let Some(cap) = spec.cap.0 {
            wire::limit_unsent(&stream, cap.0, spec.channels).map_err(failed)?;
        }
        std::io::Write::write_all(&mut stream, &Hello::Channel { token, channel: index }.encode())
            .map_err(failed)?;
        self.alarm.watch(stream.try_clone().map_err(failed)?, Shutdown::Both);
        self.sockets.push(stream.try_clone().map_err(failed)?);
        let built = if spec.codec.is_none() { Ok(None) } else { spec.codec.build().map(Some) };
        let codec = built.map_err(|cause| MigrationError::Build { name: spec.codec.name(), cause })?;
        let zero = (spec.zero_pages == ZeroPages::Detect).then(ZeroTest::detect);
        let outgoing = Outgoing::new(stream, Arc::clone(&self.pacer), Arc::clone(&self.alarm), tls);
        let channel_end = Channel::new(index, outgoing, Arc::clone(memory), codec, zero);
        let (jobs, orders) = channel();
        let (alarm, done) = (Arc::clone(&self.alarm), done.clone());
        let thread = std::thread::Builder::new()
            .name(format!("send {index}"))
            .spawn(move || work(channel_end, &orders, &done, &alarm))
            .map_err(MigrationError::kernel("start a channel's thread"))?;
        self.jobs.push(jobs);
        self.threads.push(thread);
        Ok(())
    }

    /// Has all channels send a round; `glance` is called meanwhile.
    pub(super) fn send_round(
        &mut self,
        round: &Arc<Round>,
        glance: impl FnMut(Sample),
    ) -> Result<(), MigrationError> {
        self.order(|_| Job::Round(Arc::clone(round)));
        self.wait(glance)
    }

    /// Has all channels send their last packet.
    pub(super) fn send_end(&mut self, rounds: u32) -> Result<(), MigrationError> {
        self.order(|_| Job::End { rounds });
        self.wait(|_| {})
    }

    /// Has each channel send its part of the memory without any protocol.
    pub(super) fn send_stream(
        &mut self,
        part: impl Fn(u8) -> std::ops::Range<usize>,
    ) -> Result<(), MigrationError> {
        self.order(|index| Job::Stream(part(index)));
        self.wait(|_| {})
    }

    fn order(&self, job: impl Fn(u8) -> Job) {
        for (index, jobs) in (0..).zip(&self.jobs) {
            // A thread that ended has raised the alarm.
            let _ = jobs.send(job(index));
        }
    }

    /// Waits until every channel has done its job, and samples the wire meanwhile.
    fn wait(&mut self, mut glance: impl FnMut(Sample)) -> Result<(), MigrationError> {
        let mut due = self.jobs.len();
        while due > 0 {
            if self.alarm.is_raised() {
                return Err(self.failure());
            }
            if was_asked_to_stop() {
                return Err(MigrationError::Interrupted);
            }
            match self.done.recv_timeout(Duration::from_nanos(SAMPLE_NS / 5)) {
                Ok(Done { channel, sent, protection }) => {
                    let known = self.sent.iter_mut().zip(&mut self.protections).nth(usize::from(channel));
                    if let Some((known_sent, known_protection)) = known {
                        (*known_sent, *known_protection) = (sent, protection);
                    }
                    due -= 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.failure()),
            }
            self.sample(false);
            self.samples.last().copied().into_iter().for_each(&mut glance);
        }
        Ok(())
    }

    /// Notes the kernel's counters, about every 50 ms or at once.
    pub(super) fn sample(&mut self, at_once: bool) -> u64 {
        let now_ns = monotonic_ns();
        let last = self.samples.last().copied().unwrap_or(Sample { at_ns: 0, bytes: 0 });
        if !at_once && now_ns < last.at_ns + SAMPLE_NS {
            return last.bytes;
        }
        let channels = self.sockets.iter().map(|socket| wire::socket_bytes(socket).sent).sum::<u64>();
        let bytes = channels + wire::socket_bytes(self.control.socket()).sent;
        self.samples.push(Sample { at_ns: now_ns, bytes });
        bytes
    }

    /// Bytes that were sent again.
    pub(super) fn repeated_bytes(&self) -> u64 {
        self.sockets.iter().map(|socket| wire::socket_bytes(socket).repeated).sum()
    }

    /// Sends a message to the destination.
    pub(super) fn say(&mut self, message: &FromSource) -> Result<(), MigrationError> {
        message::write(&mut self.control, message).map_err(|_| self.failure())
    }

    /// Waits for the destination's next message.
    pub(super) fn hear(&mut self, timeout: Duration, what: &str) -> Result<FromDestination, MigrationError> {
        match receive_unless_asked_to_stop(&self.answers, timeout) {
            Ok(Some(FromDestination::Failed { reason })) => {
                Err(MigrationError::Peer { peer: "destination", reason })
            }
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => Err(self.failure()),
            Err(RecvTimeoutError::Timeout) if was_asked_to_stop() => Err(MigrationError::Interrupted),
            Err(RecvTimeoutError::Timeout) => {
                Err(MigrationError::Late { what: what.to_owned(), seconds: timeout.as_secs() })
            }
        }
    }

    /// The reason why the migration cannot go on: the destination's own, that it is gone, or the failure on this side.
    fn failure(&mut self) -> MigrationError {
        let own = self.alarm.take();
        match self.answers.recv_timeout(REASON_TIMEOUT) {
            Ok(Some(FromDestination::Failed { reason })) => {
                MigrationError::Peer { peer: "destination", reason }
            }
            Ok(None) => MigrationError::Gone { peer: "destination" },
            _ => own.unwrap_or(MigrationError::Gone { peer: "destination" }),
        }
    }

    /// The traffic so far.
    pub(super) fn passed(&self) -> (Vec<Sent>, Vec<Sample>, u64) {
        (self.sent.clone(), self.samples.clone(), self.pacer.waited_ns())
    }

    /// The protection of each connection: the control connection first, then the channels.
    pub(super) fn protections(&self) -> Vec<Protection> {
        std::iter::once(self.control.protection()).chain(self.protections.iter().copied()).collect()
    }

    /// The traffic of all channels up to the end of the last round.
    pub(super) fn content_sent(&self) -> Sent {
        self.sent.iter().fold(Sent::default(), |sum, sent| sum.and(sent))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.jobs.clear();
        for socket in &self.sockets {
            // Wakes a thread that still sends to a destination that reads no more.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        let _ = self.control.socket().shutdown(Shutdown::Both);
    }
}

/// The certificate that a source with TLS trusts; `None` without TLS.
fn trust(target: &DestinationAddress, spec: &SystemSettings) -> Result<Option<Trust>, MigrationError> {
    match (spec.tls, &target.certificate_pem) {
        (Tls::Off, _) => Ok(None),
        (Tls::On, Some(certificate)) => Trust::in_certificate(certificate).map(Some),
        (Tls::On, None) => Err(MigrationError::Tls("the destination has no certificate".to_owned())),
    }
}

/// Connects to a destination, and shakes hands with it if the connection is encrypted.
fn reach(target: &DestinationAddress, trust: Option<&Trust>) -> Result<Control, MigrationError> {
    let failed = |cause| MigrationError::Connect { address: target.address, cause };
    let mut stream = wire::connect(target.address, target.netns.as_deref()).map_err(failed)?;
    let hello = Hello::Control { is_encrypted: trust.is_some() };
    std::io::Write::write_all(&mut stream, &hello.encode()).map_err(failed)?;
    let Some(trust) = trust else { return Ok(Control::plain(stream)) };
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
    let control = Control::connect(stream, trust)?;
    control.socket().set_read_timeout(None).map_err(failed)?;
    Ok(control)
}

/// Reads the destination's messages on a separate thread; `None` is the end of the connection.
fn hear(stream: Control, alarm: &Arc<Alarm>) -> Result<Receiver<Option<FromDestination>>, MigrationError> {
    let (sender, answers) = channel();
    let alarm = Arc::clone(alarm);
    std::thread::Builder::new()
        .name("hear".to_owned())
        .spawn(move || {
            let mut messages = Messages::new(stream, DESTINATION_LINE_BYTES_MAX);
            loop {
                let heard = messages.next::<FromDestination>().ok().flatten();
                let is_last = matches!(heard, None | Some(FromDestination::Failed { .. }));
                let _ = sender.send(heard);
                if is_last {
                    alarm.raise(MigrationError::Gone { peer: "destination" });
                    return;
                }
            }
        })
        .map_err(MigrationError::kernel("start a thread"))?;
    Ok(answers)
}

fn work(mut channel: Channel, orders: &Receiver<Job>, done: &Sender<Done>, alarm: &Alarm) {
    while let Ok(job) = orders.recv() {
        let result = match job {
            Job::Round(round) => channel.send_round(&round),
            Job::End { rounds } => channel.send_end(rounds),
            Job::Stream(part) => channel.send_stream(&part).map(|()| Sent::default()),
        };
        match result {
            // Nobody waits any more where the migration is over.
            Ok(sent) => {
                drop(done.send(Done { channel: channel.index(), sent, protection: channel.protection() }));
            }
            Err(error) => return alarm.raise(error),
        }
    }
}

pub(super) fn unexpected(message: &FromDestination) -> MigrationError {
    let words = serde_json::to_string(message).unwrap_or_default();
    MigrationError::Control {
        peer: "destination",
        reason: format!("it sent an unexpected message: {words:.200}"),
    }
}
