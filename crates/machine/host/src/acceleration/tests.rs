//! Libraries of a made-up machine, and of this one.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use super::libraries::{Places, Wanted, parse_cache, parse_directory};
use super::*;
use crate::accelerators::tests::Tree;
use crate::facts::HostFacts;
use crate::scratch::Scratch;

fn with_qat(services: &str) -> HostFacts {
    let tree = Tree::new();
    tree.device(
        "0000:6b:00.0",
        "0x4940",
        Some("4xxx"),
        &[("qat/state", "up"), ("qat/cfg_services", services)],
    );
    HostFacts { accelerators: tree.all(), ..HostFacts::default() }
}

#[test]
fn a_library_is_judged_by_its_file_by_whether_it_loads_and_by_what_it_can_reach() {
    let files = Scratch::create(&std::env::temp_dir(), "libraries").unwrap();
    for file in ["qatengine.so", "qatprovider.so"] {
        fs::write(files.path().join(file), "").unwrap();
    }
    let everywhere = Places {
        engines: Some(files.path().to_owned()),
        modules: Some(files.path().to_owned()),
        libraries: vec!["/lib/libqatzip.so.3".into(), "/lib/libqpl.so.1".into()],
    };
    let tried = Cell::new(0);
    let verdict = |wanted: Wanted, places: &Places, facts: &HostFacts, complaint: Option<&str>| {
        let library = wanted.judge(places, facts, &|_, _| {
            tried.set(tried.get() + 1);
            complaint.map(str::to_owned)
        });
        assert_eq!(library.file.is_some(), places.engines.is_some());
        format!("{}: {}", library.name, library.missing.unwrap_or_else(|| "usable".to_owned()))
    };
    let intel = HostFacts {
        cpu_vendor: Some("GenuineIntel".to_owned()),
        cpu_flags: vec!["avx512ifma".to_owned()],
        ..HostFacts::default()
    };
    let (nothing, nowhere) = (HostFacts::default(), Places::default());
    let mut lines: Vec<String> = Wanted::ALL.map(|wanted| verdict(wanted, &nowhere, &nothing, None)).into();
    assert_eq!(tried.get(), 0, "what is not there is not loaded");
    lines.push(verdict(Wanted::Qatengine, &everywhere, &intel, Some("libqat.so.4: no such file")));
    lines.extend(Wanted::ALL.map(|wanted| verdict(wanted, &everywhere, &nothing, None)));
    lines.push(verdict(Wanted::Qatengine, &everywhere, &intel, None));
    lines.push(verdict(Wanted::Qatprovider, &everywhere, &with_qat("asym"), None));
    lines.push(verdict(Wanted::Qatzip, &everywhere, &with_qat("sym;dc"), None));
    insta::assert_snapshot!(lines.join("\n"), @"
        qatengine: it is not installed: install the package qatengine (Debian 13), or build github.com/intel/QAT_Engine
        qatprovider: it is not installed: install the package openssl-provider-qat, or build github.com/intel/QAT_Engine with --enable-qat_provider
        QATzip: it is not installed: install the package libqatzip3 (Debian 13), or build github.com/intel/QATzip
        QPL: it is not installed: build github.com/intel/qpl
        qatengine: it cannot be loaded: libqat.so.4: no such file
        qatengine: it loads, and there is nothing for it to use: it takes a QAT device with the service `asym`, or an Intel CPU with AVX-512 IFMA; without either it leaves everything to OpenSSL and does not say so
        qatprovider: it loads, and there is nothing for it to use: it takes a QAT device with the service `asym`, or an Intel CPU with AVX-512 IFMA; without either it leaves everything to OpenSSL and does not say so
        QATzip: it loads, and there is no QAT device with the service `dc`: it would compress in software and not say so
        QPL: it loads, and there is no IAA device with an enabled work queue of type `user`: only its software path is left
        qatengine: usable
        qatprovider: usable
        QATzip: usable
        ");
}

#[test]
fn what_openssl_and_ldconfig_say_is_read() {
    let openssl = "ENGINESDIR: \"/usr/lib/engines-3\"\nMODULESDIR: \"/usr/lib/ossl-modules\"\n";
    assert_eq!(parse_directory(openssl, "ENGINESDIR"), Some("/usr/lib/engines-3".into()));
    assert_eq!(parse_directory(openssl, "MODULESDIR"), Some("/usr/lib/ossl-modules".into()));
    assert_eq!(
        (parse_directory("", "ENGINESDIR"), parse_directory("ENGINESDIR: N/A", "ENGINESDIR")),
        (None, None)
    );
    let cache =
        "2 libs found in cache `/etc/ld.so.cache'\n\tlibz.so.1 (libc6,x86-64) => /lib/libz.so.1\n\tbroken\n";
    assert_eq!(parse_cache(cache), [PathBuf::from("/lib/libz.so.1")]);
}

/// Libraries that every machine has stand in for those that few have.
#[test]
fn a_library_is_loaded_by_a_child_that_says_when_it_cannot() {
    let files = Scratch::create(&std::env::temp_dir(), "libraries").unwrap();
    let garbage = files.path().join("libqpl.so.1");
    fs::write(&garbage, "no library").unwrap();
    let places = Places { libraries: vec![garbage.clone()], ..Places::default() };
    let library = Wanted::Qpl.judge(&places, &HostFacts::default(), &libraries::complaint);
    assert!(library.missing.unwrap().starts_with("it cannot be loaded: "), "{garbage:?}");
    let Some(libc) = fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().last())
        .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
        .map(PathBuf::from)
    else {
        // A program that is linked with all its libraries has none to show.
        return;
    };
    assert_eq!(libraries::complaint(Wanted::Qpl, &libc), None);
}

#[test]
fn cpu_features_are_those_of_the_architecture() {
    let mut facts = HostFacts { architecture: "x86_64".to_owned(), ..HostFacts::default() };
    facts.cpu_flags = ["avx512ifma", "sha_ni"].map(str::to_owned).into();
    let present: Vec<&str> =
        cpu_features(&facts).iter().filter(|feature| feature.present).map(|feature| feature.name).collect();
    assert_eq!((present, cpu_features(&facts).len()), (vec!["AVX-512 IFMA", "SHA"], 5));
    facts.architecture = "aarch64".to_owned();
    assert_eq!(cpu_features(&facts), []);
}
