//! `openssl speed` as one more source: what people compare with.
//!
//! It is asked for elapsed time, since it takes the user time of its own process otherwise, and an engine or another
//! process that works for it would count as nothing. Its clock has steps of 10 ms. Its words for a key exchange are the
//! derivation alone, without a fresh key.

use std::time::Duration;

use plumb_host::process::{Output, run_for_output, which};
use plumb_model::Bytes;

use super::algorithm::Algorithm;

/// What `openssl speed` says of one algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct Speed {
    /// Operations per second; for AEAD and hashes, blocks per second.
    pub ops_per_s: f64,
    /// How many operations that were, where it says so.
    pub count: Option<u64>,
}

/// Why there is no such number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpeedError {
    /// There is no `openssl` on this machine.
    #[error("run `openssl speed`: there is no openssl; install Debian's package openssl")]
    NoProgram,
    /// It does not even say its version.
    #[error("run `openssl version`: {0}")]
    NoVersion(String),
    /// It did not run to its end.
    #[error("run `openssl speed {algorithm}`: {reason}")]
    Failed {
        /// What it was to measure.
        algorithm: String,
        /// Why not.
        reason: String,
    },
    /// Its answer has not the line that was asked for.
    #[error("read what `openssl speed {algorithm}` says: there is no line `+{tag}:…` with a number in it")]
    Unreadable {
        /// What it measured.
        algorithm: String,
        /// How the line would begin.
        tag: &'static str,
    },
}

/// Has `openssl speed -mr -elapsed` measure an algorithm for this many seconds on this thread's CPUs.
///
/// Returns its own version too. OpenSSL before 1.1.1 is not understood: it has no `-seconds` either.
///
/// # Errors
///
/// When there is no such program, it fails, or it says something else.
pub fn openssl_speed(
    algorithm: Algorithm,
    block: Bytes,
    seconds: u64,
) -> Result<(Speed, String), SpeedError> {
    let version = openssl_version()?;
    // Signatures are verified too, and later versions encapsulate keys by RSA beside.
    let timeout = Duration::from_secs(seconds.saturating_mul(10).saturating_add(60));
    let failed = |reason| SpeedError::Failed { algorithm: name_of(algorithm).to_owned(), reason };
    let output = run_openssl(arguments(algorithm, block, seconds), timeout, failed)?;
    read_speed(algorithm, block, &output.stdout, &output.stderr).map(|speed| (speed, version))
}

/// What the program `openssl` says of its own version.
///
/// # Errors
///
/// When there is no such program, or it fails.
pub fn openssl_version() -> Result<String, SpeedError> {
    let output = run_openssl(vec!["version".to_owned()], Duration::from_secs(60), SpeedError::NoVersion)?;
    Ok(output.stdout.trim().to_owned())
}

fn run_openssl(
    arguments: Vec<String>,
    timeout: Duration,
    failed: impl Fn(String) -> SpeedError,
) -> Result<Output, SpeedError> {
    let program = which("openssl").ok_or(SpeedError::NoProgram)?;
    let output = run_for_output(&program, arguments, timeout).map_err(|error| failed(error.to_string()))?;
    if output.exit.is_success() {
        return Ok(output);
    }
    let last_line = output.stderr.lines().last().unwrap_or_default();
    Err(failed(format!("it {}: {last_line}", output.exit)))
}

fn arguments(algorithm: Algorithm, block: Bytes, seconds: u64) -> Vec<String> {
    let mut arguments = ["speed", "-mr", "-elapsed", "-seconds"].map(str::to_owned).to_vec();
    arguments.push(seconds.to_string());
    if algorithm.is_bulk() {
        arguments.extend(["-bytes".to_owned(), block.0.to_string()]);
        if matches!(algorithm, Algorithm::Aes128Gcm | Algorithm::Aes256Gcm | Algorithm::Chacha20Poly1305) {
            // A nonce, additional data and a tag for every block, as here.
            arguments.push("-aead".to_owned());
        }
        arguments.push("-evp".to_owned());
    }
    arguments.push(name_of(algorithm).to_owned());
    arguments
}

fn name_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Rsa2048 => "rsa2048",
        Algorithm::Rsa3072 => "rsa3072",
        Algorithm::Rsa4096 => "rsa4096",
        Algorithm::EcdsaP256 => "ecdsap256",
        Algorithm::X25519 => "ecdhx25519",
        Algorithm::P256 => "ecdhp256",
        Algorithm::Aes128Gcm => "aes-128-gcm",
        Algorithm::Aes256Gcm => "aes-256-gcm",
        Algorithm::Chacha20Poly1305 => "chacha20-poly1305",
        Algorithm::Sha256 => "sha256",
        Algorithm::Sha512 => "sha512",
    }
}

/// How the line with the result begins, the bits that it names after its index, and which field has the result.
///
/// `+F2:index:bits:sign/s:verify/s…`, `+F4` likewise for ECDSA, `+F5:index:bits:op/s:s` for ECDH, and
/// `+F:index:name:bytes/s` for blocks (`apps/speed.c` of OpenSSL 1.1.1 to 3.5).
fn line_of(algorithm: Algorithm) -> (&'static str, Option<&'static str>) {
    match algorithm {
        Algorithm::Rsa2048 => ("F2", Some("2048")),
        Algorithm::Rsa3072 => ("F2", Some("3072")),
        Algorithm::Rsa4096 => ("F2", Some("4096")),
        Algorithm::EcdsaP256 => ("F4", Some("256")),
        Algorithm::X25519 => ("F5", Some("253")),
        Algorithm::P256 => ("F5", Some("256")),
        _ => ("F", None),
    }
}

/// Reads the two streams of `openssl speed -mr` for one algorithm.
///
/// # Errors
///
/// When the line is not there, or its number is none.
pub fn read_speed(
    algorithm: Algorithm,
    block: Bytes,
    stdout: &str,
    stderr: &str,
) -> Result<Speed, SpeedError> {
    let (tag, bits) = line_of(algorithm);
    let value = stdout.lines().find_map(|line| {
        let mut fields = line.strip_prefix('+')?.strip_prefix(tag)?.strip_prefix(':')?.split(':');
        let (_, name_or_bits) = (fields.next()?, fields.next()?);
        if bits.is_some_and(|bits| bits != name_or_bits) {
            return None;
        }
        fields.next()?.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0)
    });
    let value =
        value.ok_or_else(|| SpeedError::Unreadable { algorithm: name_of(algorithm).to_owned(), tag })?;
    let ops_per_s = if algorithm.is_bulk() { value / block.0 as f64 } else { value };
    Ok(Speed { ops_per_s, count: stderr.lines().find_map(count_of) })
}

/// The count in `+R5:count:…`; the first such line is that of the operation itself, the others are of its inverse.
fn count_of(line: &str) -> Option<u64> {
    let (tag, rest) = line.strip_prefix("+R")?.split_once(':')?;
    let is_tag = tag.bytes().all(|byte| byte.is_ascii_digit());
    rest.split(':').next().filter(|_| is_tag)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(algorithm: Algorithm, stdout: &str, stderr: &str, ops_per_s: f64, count: u64) {
        let speed = read_speed(algorithm, Bytes(1024), stdout, stderr).unwrap();
        assert!((speed.ops_per_s / ops_per_s - 1.0).abs() < 1e-9, "{speed:?}");
        assert_eq!(speed.count, Some(count));
    }

    #[test]
    fn openssl_1_1_1_is_understood() {
        check(
            Algorithm::Rsa2048,
            "+F2:2:2048:920.792079:38226.000000\n",
            "+DTP:2048:private:rsa:1\n+R1:930:2048:1.01\n+DTP:2048:public:rsa:1\n+R2:38226:2048:1.00\n",
            920.792_079,
            930,
        );
        check(
            Algorithm::EcdsaP256,
            "+F4:3:256:26849.000000:8528.000000\n",
            "+DTP:256:sign:ecdsa:1\n+R5:26849:256:1.00\n+DTP:256:verify:ecdsa:1\n+R6:8528:256:1.00\n",
            26849.0,
            26849,
        );
        check(
            Algorithm::X25519,
            "+F5:22:253:20056.000000:0.000050\n",
            "+DTP:253::ecdh:1\n+R7:20056:253:1.00\n",
            20056.0,
            20056,
        );
        check(
            Algorithm::Aes128Gcm,
            "+H:1024\n+F:22:aes-128-gcm:2086159360.00\n",
            "+DT:aes-128-gcm:1:1024\n+R:2037265:aes-128-gcm:1.000000\n",
            2_037_265.0,
            2_037_265,
        );
    }

    #[test]
    fn openssl_3_0_is_understood() {
        check(
            Algorithm::Rsa2048,
            "+F2:2:2048:1747.000000:35295.000000\n+F4:3:256:36898.000000:11081.000000\n+F5:3:256:15020.000000:0.000067\n",
            "+DTP:2048:private:rsa:1\n+R1:1747:2048:1.00\n+DTP:2048:public:rsa:1\n+R2:35295:2048:1.00\n",
            1747.0,
            1747,
        );
        check(
            Algorithm::P256,
            "+F5:22:253:24483.000000:0.000041\n+F5:3:256:15020.000000:0.000067\n",
            "+DTP:256::ecdh:1\n+R7:15020:256:1.00\n",
            15020.0,
            15020,
        );
        check(
            Algorithm::Chacha20Poly1305,
            "+H:1024\n+F:25:ChaCha20-Poly1305:2826700800.00",
            "+DT:ChaCha20-Poly1305:1:1024\n+R:2760450:ChaCha20-Poly1305:1.000000\n",
            2_760_450.0,
            2_760_450,
        );
    }

    #[test]
    fn openssl_3_5_is_understood() {
        check(
            Algorithm::Rsa2048,
            "+F2:2:2048:2279.000000:35631.000000:37789.000000:2341.000000\n+F9:2:16.346154:46157.000000:2140.000000\n\
             +F10:2:17.924528:2304.000000:41337.623762\n",
            "+DTP:2048:private:rsa sign:1\n+R1:2279:2048:1.00\n+DTP:2048:public:rsa verify:1\n+R2:35631:2048:1.00\n\
             +DTP:rsa2048:keygen:1\n+R15:17:rsa2048:1.04\n",
            2279.0,
            2279,
        );
        check(
            Algorithm::X25519,
            "+F5:22:253:21667.326733:0.000046\n",
            "+DTP:253::ecdh:1\n+R9:21884:253:1.01\n",
            21_667.326_733,
            21884,
        );
        check(
            Algorithm::Sha256,
            "+H:1024\n+F:25:sha256:1129016320.00\n",
            "+DT:sha256:1:1024\n+R:1102555:sha256:1.000000\n",
            1_102_555.0,
            1_102_555,
        );
    }

    #[test]
    fn an_answer_without_the_number_is_an_error() {
        for stdout in [
            "",
            "+F2:2:1024:5.0:6.0\n",
            "+F2:2:2048\n",
            "+F2:2:2048:x:1\n",
            "+F2:2:2048:0.0:1\n",
            "+F2:2:2048:inf:1",
        ] {
            let error = read_speed(Algorithm::Rsa2048, Bytes(1), stdout, "").unwrap_err();
            assert_eq!(
                error.to_string(),
                "read what `openssl speed rsa2048` says: there is no line `+F2:…` with a number in it"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(stdout in "(\\+F[0-9]?[:0-9a-z.-]{0,30}\n){0,4}\\PC{0,20}", stderr in "(\\+R[:0-9a-z]{0,20}\n){0,4}") {
            for algorithm in Algorithm::ALL {
                let _ = read_speed(algorithm, Bytes(64), &stdout, &stderr);
            }
        }
    }

    #[test]
    fn this_machines_openssl_is_understood() {
        use std::io::Write;
        if which("openssl").is_none() {
            let line = "test skipped: this_machines_openssl_is_understood: there is no openssl";
            writeln!(std::io::stderr(), "{line}").unwrap();
            return;
        }
        for algorithm in [Algorithm::EcdsaP256, Algorithm::Aes128Gcm] {
            let (speed, version) = openssl_speed(algorithm, Bytes(1024), 1).unwrap();
            assert!(speed.ops_per_s > 0.0 && speed.count.is_some() && version.starts_with("OpenSSL "));
        }
    }
}
