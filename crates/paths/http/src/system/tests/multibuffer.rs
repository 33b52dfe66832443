//! The embedded ingress with `offload: multibuffer`, where the host has AVX-512 IFMA and libcrypto_mb.

use std::sync::Barrier;

use openssl::ssl::{SslConnector, SslMethod};
use openssl::x509::X509;

use super::*;
use crate::settings::{Offload, OffloadMode};

const CLIENTS: u64 = 50;

fn multibuffer(tls: TlsVersion, key: KeyKind, mode: Option<OffloadMode>) -> SystemSettings {
    let mut spec = spec(IngressKind::Embedded, tls);
    (spec.ingress.key, spec.ingress.offload, spec.ingress.offload_mode) = (key, Offload::Multibuffer, mode);
    spec
}

fn kinds() -> impl Iterator<Item = (TlsVersion, KeyKind)> {
    let versions = [TlsVersion::V12, TlsVersion::V13];
    versions.into_iter().flat_map(|tls| [(tls, KeyKind::Rsa2048), (tls, KeyKind::EcdsaP256)])
}

/// Has this many clients make a full handshake and two requests each at the same time; what moved.
fn serve_many(started: &mut Started) -> impl Fn(&str) -> u64 + use<> {
    let before = started.snapshot();
    let start = Barrier::new(usize::try_from(CLIENTS).unwrap());
    let shared = &*started;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = shared.client();
                start.wait();
                assert_eq!(client.get("/").status, 200);
                assert_eq!(client.get("/").status, 200);
            });
        }
    });
    let after = started.snapshot();
    move |counter| after.moved(&before, counter).unwrap()
}

#[test]
fn parallel_handshakes_are_signed_in_batches_or_where_they_do_not_pay_in_software() {
    for (tls, key) in kinds() {
        let spec = multibuffer(tls, key, None);
        if !is_feasible(
            "multibuffer::parallel_handshakes_are_signed_in_batches_or_where_they_do_not_pay_in_software",
            &spec,
        ) {
            return;
        }
        let mut started = Started::new(&spec);
        let moved = serve_many(&mut started);
        assert_eq!(moved("handshakes_full"), CLIENTS);
        assert_eq!(moved("requests"), 2 * CLIENTS);
        assert_eq!(moved("key_operations_device") + moved("key_operations_declined"), CLIENTS);
        assert_eq!(moved("key_operations_inline"), 0);
        assert_eq!(moved(&format!("device_{}", key.name())), moved("key_operations_device"));
        assert_eq!(moved("device_x25519-generate"), moved("device_x25519-derive"));
        let by_fill = (1..=8).map(|fill| fill * moved(&format!("device_passes_of_{fill}")));
        assert_eq!(by_fill.sum::<u64>(), moved("device_operations"));
        assert_eq!((moved("device_failed"), moved("device_faults_caught")), (0, 0));
        assert_eq!(started.snapshot().states["offload"], "multibuffer");
    }
}

#[test]
fn in_sync_mode_every_operation_has_a_pass_of_its_own() {
    for (tls, key) in kinds() {
        let spec = multibuffer(tls, key, Some(OffloadMode::Sync));
        if !is_feasible("multibuffer::in_sync_mode_every_operation_has_a_pass_of_its_own", &spec) {
            return;
        }
        let mut started = Started::new(&spec);
        let moved = serve_many(&mut started);
        for counter in ["key_operations_device", "device_x25519-generate", "device_x25519-derive"] {
            assert_eq!(moved(counter), CLIENTS, "{counter}");
        }
        assert_eq!(moved(&format!("device_{}", key.name())), CLIENTS);
        assert_eq!((moved("device_passes"), moved("device_passes_of_1")), (3 * CLIENTS, 3 * CLIENTS));
        assert_eq!((moved("key_operations_declined"), moved("key_operations_inline")), (0, 0));
    }
}

#[test]
fn a_lone_client_is_served() {
    for mode in [OffloadMode::Async, OffloadMode::Sync] {
        let spec = multibuffer(TlsVersion::V12, KeyKind::Rsa2048, Some(mode));
        if !is_feasible("multibuffer::a_lone_client_is_served", &spec) {
            return;
        }
        let mut started = Started::new(&spec);
        let before = started.snapshot();
        assert_eq!(started.client().get("/").status, 200);
        let after = started.snapshot();
        let moved = |counter| after.moved(&before, counter).unwrap();
        assert_eq!(moved("key_operations_device") + moved("key_operations_declined"), 1);
        assert_eq!(moved("key_operations_inline"), 0);
    }
}

#[test]
fn openssl_accepts_every_group_and_every_size_of_key() {
    for key in [KeyKind::Rsa2048, KeyKind::Rsa3072, KeyKind::Rsa4096, KeyKind::EcdsaP256] {
        for tls in [TlsVersion::V12, TlsVersion::V13] {
            let spec = multibuffer(tls, key, Some(OffloadMode::Sync));
            if !is_feasible("multibuffer::openssl_accepts_every_group_and_every_size_of_key", &spec) {
                return;
            }
            let mut started = Started::new(&spec);
            // P-256 is among the groups where it is the certificate's curve, which a client of TLS 1.2 has to offer.
            let groups: &[(&str, u64)] = match key {
                KeyKind::EcdsaP256 => &[("X25519:P-256", 3), ("P-256", 3)],
                KeyKind::Rsa2048 | KeyKind::Rsa3072 | KeyKind::Rsa4096 => {
                    &[("X25519", 3), ("P-256", 3), ("P-384", 1)]
                }
            };
            for &(group, operations) in groups {
                let before = started.snapshot();
                let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
                let authority = X509::from_pem(started.target.ca_pem.as_deref().unwrap().as_bytes()).unwrap();
                connector.cert_store_mut().add_cert(authority).unwrap();
                connector.set_groups_list(group).unwrap();
                let tcp = started.client().tcp().peer_addr().and_then(std::net::TcpStream::connect).unwrap();
                let mut stream = connector.build().connect("localhost", tcp).unwrap();
                stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
                let mut answer = Vec::new();
                std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
                assert!(answer.starts_with(b"HTTP/1.1 200 "), "{key:?} {tls:?} {group}");
                let after = started.snapshot();
                assert_eq!(
                    after.moved(&before, "device_operations"),
                    Some(operations),
                    "{key:?} {tls:?} {group}"
                );
            }
        }
    }
}

#[test]
fn clients_that_leave_during_their_handshakes_cost_nobody_else_theirs() {
    let spec = multibuffer(TlsVersion::V13, KeyKind::Rsa2048, None);
    if !is_feasible("multibuffer::clients_that_leave_during_their_handshakes_cost_nobody_else_theirs", &spec)
    {
        return;
    }
    let mut started = Started::new(&spec);
    for _ in 0..5 {
        (0..20).for_each(|_| started.client().begin_handshake());
        assert_eq!(started.client().get("/").status, 200);
    }
    assert_eq!(started.counter("key_operations_inline"), 0);
}
