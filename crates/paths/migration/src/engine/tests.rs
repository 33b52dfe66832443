//! Whole migrations over loopback, between two threads of the test.

mod corruption;
mod requests;

use std::net::{Ipv4Addr, SocketAddr};

use plumb_model::{ByteRate, Bytes, Percent, Span};

use super::destination::{Destination, DestinationAddress};
use super::dirty::BACKLOG_NS;
use super::source::{Ending, Outcome, Source};
use super::wire::tls::Protection;
use crate::settings::{Cap, MigrationSettings, Pattern, Tls, ZeroPages};
use plumb_codec::PAGE_BYTES;

const MIB: u64 = 1 << 20;

fn settings(change: impl FnOnce(&mut MigrationSettings)) -> MigrationSettings {
    let mut settings = MigrationSettings::default();
    settings.system.memory = Bytes(16 * MIB + 3 * PAGE_BYTES as u64);
    settings.system.content.zero = Percent(0.3);
    change(&mut settings);
    settings
}

fn destination(settings: &MigrationSettings) -> Destination {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Destination::start(address, settings.system.tls == Tls::On).unwrap()
}

fn migrate(settings: &MigrationSettings) -> Outcome {
    let destination = destination(settings);
    let source = Source::new(settings, destination.target()).unwrap();
    let outcome = source.migrate(&mut |_| {}).unwrap();
    assert_eq!(destination.take_error(), None);
    outcome
}

/// Checks a migration that came to its end.
fn check(settings: &MigrationSettings, outcome: &Outcome) {
    assert_eq!(outcome.ending, Ending::Completed);
    let (sent, received) = (outcome.all_sent(), outcome.received.clone().unwrap());
    assert_eq!((sent.pages, sent.zero_pages), (received.pages, received.zero_pages));
    assert_eq!(sent.compressed_packets, received.compressed_packets);
    assert_eq!(sent.raw_packets, received.raw_packets);
    assert!(sent.pages + sent.zero_pages >= settings.system.memory.0 / PAGE_BYTES as u64);
    assert!(outcome.wire_bytes >= received.wire_bytes, "{} {}", outcome.wire_bytes, received.wire_bytes);
    assert!(outcome.wire_bytes > sent.payload_bytes);
    assert_eq!(outcome.regions as u64, settings.system.memory.0.div_ceil(4 * MIB));
    assert!(outcome.cpu.total_ns() > 0 && received.cpu_user_ns + received.cpu_system_ns > 0);
    assert!(outcome.downtime_ns <= outcome.total_ns && outcome.setup_ns <= outcome.total_ns);
}

#[test]
fn an_idle_guest_moves_in_one_round_and_an_empty_last_one() {
    let settings = settings(|_| {});
    let outcome = migrate(&settings);
    check(&settings, &outcome);
    let pages: Vec<u64> = outcome.rounds.iter().map(|round| round.pages).collect();
    assert_eq!(pages, [settings.system.memory.0 / PAGE_BYTES as u64, 0]);
    // A channel takes what is there: where its thread gets no CPU in time, the other one moves everything.
    assert!((1..=2).contains(&outcome.channels_used()), "{}", outcome.channels_used());
    let zero = outcome.all_sent().zero_pages;
    assert!((1000..1500).contains(&zero), "{zero}");
}

#[test]
fn every_number_of_channels_moves_the_same_memory() {
    for channels in [1, 3, 8] {
        let settings = settings(|settings| settings.system.channels = channels);
        check(&settings, &migrate(&settings));
    }
}

#[test]
fn channels_can_be_encrypted_and_zeros_sent_as_content() {
    let settings = settings(|settings| {
        settings.system.tls = Tls::On;
        settings.system.zero_pages = ZeroPages::Send;
    });
    let outcome = migrate(&settings);
    check(&settings, &outcome);
    assert_eq!(outcome.all_sent().zero_pages, 0);
    // The control connection and two channels, and the channels once more as the other side saw them.
    assert_eq!(outcome.protections.len(), 3);
    assert!(outcome.protections.iter().all(|it| matches!(it, Protection::Tls13(_))), "{outcome:?}");
    let seen = outcome.received.unwrap().channels;
    assert!(seen.len() == 1 && seen.iter().all(|(words, count)| words.starts_with("TLS 1.3") && *count == 2));
}

#[test]
fn a_guest_that_writes_moves_in_rounds_and_arrives_whole() {
    for pattern in [Pattern::Sequential, Pattern::Uniform, Pattern::HotSet] {
        let settings = settings(|settings| {
            settings.system.dirty.rate = ByteRate(20e6);
            settings.system.dirty.pattern = pattern;
            settings.system.cap = Cap(Some(ByteRate(80e6)));
            settings.system.downtime_limit = Span(4_000_000);
        });
        let outcome = migrate(&settings);
        check(&settings, &outcome);
        assert!(outcome.rounds.len() > 2, "{:?}", outcome.rounds);
        // Writes count only while the guest ran, and never exceed the rate, except for a backlog.
        let due = |ns: u64| ns as f64 / 1e9 * 20e6 / PAGE_BYTES as f64;
        let most = due(outcome.guest_ran_ns + BACKLOG_NS) + 64.0;
        assert!(outcome.guest.pages > 0 && outcome.guest.pages as f64 <= most, "{outcome:?}");
        assert!(outcome.guest_ran_ns + outcome.downtime_ns <= outcome.total_ns, "{outcome:?}");
    }
}

#[test]
fn a_guest_can_be_moved_again_and_its_stream_measured_between() {
    let settings = settings(|settings| settings.system.dirty.rate = ByteRate(5e6));
    let destination = destination(&settings);
    let source = Source::new(&settings, destination.target()).unwrap();
    for _ in 0..3 {
        check(&settings, &source.migrate(&mut |_| {}).unwrap());
        assert!(source.stream_limit().unwrap() > 0.0);
    }
    assert_eq!(destination.totals().migrations, 3);
    assert_eq!(destination.take_error(), None);
}

#[test]
fn a_process_that_is_asked_to_stop_gives_its_migration_up() {
    // It would take a quarter of a minute.
    let settings = settings(|settings| {
        settings.system.content.zero = Percent(0.0);
        settings.system.cap = Cap(Some(ByteRate(1e6)));
    });
    let destination = destination(&settings);
    let source = Source::new(&settings, destination.target()).unwrap();
    let error = source.migrate(&mut |_| plumb_host::signals::ask_to_stop()).unwrap_err();
    assert_eq!(error.to_string(), "go on: it was interrupted");
}

#[test]
fn a_guest_that_writes_faster_than_the_cap_is_given_up_and_runs_on() {
    let settings = settings(|settings| {
        settings.system.dirty.rate = ByteRate(200e6);
        settings.system.cap = Cap(Some(ByteRate(50e6)));
        settings.system.downtime_limit = Span(1_000_000);
        settings.load.max_rounds = 2;
    });
    let destination = destination(&settings);
    let source = Source::new(&settings, destination.target()).unwrap();
    let outcome = source.migrate(&mut |_| {}).unwrap();
    assert_eq!(outcome.ending, Ending::GivenUp("the limit of 2 rounds".to_owned()));
    let before = source.guest().counts().pages;
    while source.guest().counts().pages == before {
        plumb_host::time::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(destination.take_error(), None);
}

#[test]
fn a_migration_over_its_time_is_given_up_in_the_middle_of_a_round() {
    let settings = settings(|settings| {
        settings.system.dirty.rate = ByteRate(1e6);
        settings.system.cap = Cap(Some(ByteRate(1e6)));
        settings.load.time_limit = Span(200_000_000);
    });
    let outcome = migrate(&settings);
    assert_eq!(outcome.ending, Ending::GivenUp("the time limit of 200 ms".to_owned()));
    assert!(outcome.all_sent().pages < 1000);
}

#[test]
fn a_destination_that_is_not_there_is_named() {
    let settings = settings(|_| {});
    let target = destination(&settings).target();
    let error = Source::new(&settings, target.clone()).unwrap().migrate(&mut |_| {}).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("connect to the destination at {}: Connection refused (os error 111)", target.address)
    );
}

#[test]
fn a_source_that_asks_for_tls_is_told_that_there_is_none() {
    let plain = destination(&settings(|_| {}));
    let encrypted = settings(|settings| settings.system.tls = Tls::On);
    let error =
        Source::new(&encrypted, plain.target()).unwrap().migrate(&mut |_| {}).unwrap_err().to_string();
    assert_eq!(error, "set up TLS: the destination has no certificate");
}

#[test]
fn a_destination_that_requires_tls_takes_no_source_without_it() {
    let encrypted = destination(&settings(|settings| settings.system.tls = Tls::On));
    let plain = settings(|_| {});
    let error =
        Source::new(&plain, encrypted.target()).unwrap().migrate(&mut |_| {}).unwrap_err().to_string();
    assert_eq!(
        error,
        "go on: the destination failed to set up TLS: the destination takes only encrypted connections: migrate with \
         `--tls on --ca FILE`"
    );
    assert_eq!((encrypted.totals().migrations, encrypted.totals().failures), (0, 1));
}

#[test]
fn a_source_with_tls_finds_none_at_a_destination_without_it_and_trusts_no_other() {
    let encrypted = settings(|settings| settings.system.tls = Tls::On);
    let (plain, other) = (destination(&settings(|_| {})), destination(&encrypted));
    let (address, wrong) = (plain.target().address, destination(&encrypted));
    let (of_plain, of_wrong) = (
        DestinationAddress { address, ..other.target() },
        DestinationAddress { address: wrong.target().address, ..other.target() },
    );
    for target in [of_plain, of_wrong] {
        let error = Source::new(&encrypted, target).unwrap().migrate(&mut |_| {}).unwrap_err().to_string();
        assert!(error.starts_with("set up TLS: ") && error.contains("`--tls on`"), "{error}");
    }
}

#[test]
fn strangers_are_turned_away_and_disturb_nobody() {
    let settings = settings(|_| {});
    let destination = destination(&settings);
    for words in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), b"", b"plumbmig\x01\x00"] {
        let mut stranger = std::net::TcpStream::connect(destination.target().address).unwrap();
        std::io::Write::write_all(&mut stranger, words).unwrap();
    }
    check(&settings, &Source::new(&settings, destination.target()).unwrap().migrate(&mut |_| {}).unwrap());
}
