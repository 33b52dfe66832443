//! HTTP/3 of the programs and the browser that only the laboratory has.

use std::path::Path;
use std::time::Duration;

use openssl::base64::encode_block;
use openssl::sha::sha256;
use openssl::x509::X509;
use plumb_host::process::{run_for_output, which};

use super::protocols::{proven, snapshot_where};
use super::*;
use crate::settings::Spoken::{H1, H3};
use crate::system::counter;

/// A minute is too little on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn skip(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "test skipped: system::tests::laboratory::{test}: {reason}").unwrap();
}

#[test]
fn lab_programs_of_debian_13_speak_h3() {
    let programs = Path::new("/opt/plumb-tests/debian13/bin");
    if !programs.is_dir() {
        return skip("lab_programs_of_debian_13_speak_h3", "Debian 13's programs are not installed");
    }
    let (path, program) = (std::env::var("PATH").unwrap(), std::env::current_exe().unwrap());
    let path = format!("PATH={}:{path}", programs.display());
    let test =
        "system::tests::protocols::each_kind_that_speaks_h3_counts_the_requests_of_the_load_and_of_curl";
    let arguments = [&*path, program.to_str().unwrap(), "--exact", test, "--nocapture"];
    let output = run_for_output(Path::new("/usr/bin/env"), arguments, PATIENCE).unwrap();
    let said = output.stdout;
    assert!(output.exit.is_success(), "{said}{}", output.stderr);
    for kind in ["Embedded", "Haproxy", "Nginx"] {
        assert!(said.contains(&format!("{kind} speaks h3 with the load and with curl")), "{said}");
    }
}

#[test]
fn lab_chromium_speaks_h3_with_the_embedded_ingress() {
    let Some(chromium) = which("chromium") else {
        return skip("lab_chromium_speaks_h3_with_the_embedded_ingress", "chromium is not installed");
    };
    let mut spec = spec(IngressKind::Embedded, TlsVersion::V13);
    spec.ingress.protocols = vec![H1, H3];
    let mut started = Started::new(&spec);
    let before = proven(&mut started);
    let leaf = started.scratch.path().join("certificates").join(KeyKind::EcdsaP256.name()).join("leaf.pem");
    let leaf = X509::from_pem(&std::fs::read(leaf).unwrap()).unwrap();
    let key = encode_block(&sha256(&leaf.public_key().unwrap().public_key_to_der().unwrap()));
    let url = &started.target.url;
    let authority = url.trim_start_matches("https://").trim_end_matches('/');
    let profile = started.scratch.path().join("profile");
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        &format!("--user-data-dir={}", profile.display()),
        &format!("--origin-to-force-quic-on={authority}"),
        &format!("--ignore-certificate-errors-spki-list={key}"),
        "--host-resolver-rules=MAP localhost 127.0.0.1",
        "--dump-dom",
        url,
    ];
    let output = run_for_output(&chromium, arguments, PATIENCE).unwrap();
    let text = output.stdout.split_once("<pre").and_then(|(_, rest)| rest.split_once("</pre>"));
    let text = text.and_then(|(text, _)| text.split_once('>')).map(|(_, text)| text.len());
    assert_eq!(text, Some(612), "{}{}", output.stdout, output.stderr);
    // It also asks for an icon.
    let moved = |after: &Snapshot, protocol| after.moved(&before, counter(protocol));
    snapshot_where(&mut started, |after| moved(after, H1) == Some(0) && moved(after, H3) >= Some(1));
}
