//! Migrations over a link, by both programs.

use std::io::Write as _;

use plumb_host::process::which;
use plumb_model::{Bytes, Percent, Span};
use plumb_path::link::{LinkShape, NoLink};
use plumb_path::{Place, SeenWindow, Settings as _, Window};

use crate::settings::{MigrationSettings, SystemKind, SystemSettings};

/// Why the test cannot run here.
fn missing(settings: &MigrationSettings) -> Option<String> {
    let has_devices = std::path::Path::new("/dev/net/tun").exists();
    match NoLink::check(&settings.system.link) {
        Err(_) if !has_devices => Some("hardware: there is no /dev/net/tun".to_owned()),
        Err(error) => Some(error.to_string()),
        Ok(()) => match settings.system.kind {
            SystemKind::Qemu if which("qemu-system-x86_64").is_none() => {
                Some("QEMU is not installed".to_owned())
            }
            _ => None,
        },
    }
}

fn memory_crosses_a_link(kind: SystemKind, test: &str) {
    let delay = Span(5_000_000);
    let link = LinkShape { delay: Some(delay), seed: Some(7), ..LinkShape::default() };
    let mut system = SystemSettings { kind, memory: Bytes(64 << 20), link, ..SystemSettings::default() };
    system.content.zero = Percent(0.5);
    let settings = MigrationSettings { system, ..MigrationSettings::default() };
    if let Some(reason) = missing(&settings) {
        writeln!(std::io::stderr(), "test skipped: tests::{test}: {reason}").unwrap();
        return;
    }
    settings.check().unwrap();
    assert!(settings.facts().system.needs_namespaces);
    let directories = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let places = directories.each_ref().map(|directory| Place {
        scratch: directory.path().to_owned(),
        cpus: 2,
        address: None,
        number: 0,
    });
    // The system's thread goes to its end of the link, as that of its agent does.
    let (ask, asked) = std::sync::mpsc::channel();
    let (answer, answers) = std::sync::mpsc::channel();
    let (of_system, place) = (settings.clone(), places[0].clone());
    let system = std::thread::spawn(move || {
        let mut system = of_system.system(&place).unwrap();
        answer.send((system.target(), system.snapshot().unwrap())).unwrap();
        for () in asked {
            answer.send((system.target(), system.snapshot().unwrap())).unwrap();
        }
        system.stop().unwrap();
    });
    let (target, before) = answers.recv().unwrap();
    let mut load = settings.load(&target, &places[1]).unwrap();
    let measurement = load.measure(Window::at_once(0, 1, 7), &mut |_| {}).unwrap();
    ask.send(()).unwrap();
    let (_, after) = answers.recv().unwrap();
    drop((load, ask));
    system.join().unwrap();
    let seen = SeenWindow { before: &before, after: &after, measurement: Some(&measurement) };
    let evidence = settings.evidence(seen);
    assert!(evidence.iter().any(|one| one.kind == "link-carried"), "{evidence:#?}");
    // A busy machine may make the link late.
    let late = ["link-on-time", "link-cpu"];
    let broken = evidence.iter().filter(|one| !one.holds && !late.contains(&one.kind.as_str()));
    assert_eq!(broken.count(), 0, "{evidence:#?}");
}

#[test]
fn memory_crosses_a_link_to_plumbs_own_destination() {
    memory_crosses_a_link(SystemKind::Plumb, "memory_crosses_a_link_to_plumbs_own_destination");
}

#[test]
fn memory_crosses_a_link_between_two_qemus() {
    memory_crosses_a_link(SystemKind::Qemu, "memory_crosses_a_link_between_two_qemus");
}
