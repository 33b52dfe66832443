//! `openssl speed`: what people compare with, as a source of a table and as a driver.
//!
//! It is asked for elapsed time, since it takes its process' user time otherwise, and an engine or another
//! process that works for it would count as nothing. Its clock has steps of 10 ms. Its words for a key exchange are the
//! derivation alone, without a fresh key.

use plumb_host::cpu::CpuTime;
use plumb_model::{Bytes, Measurement, Metric, NoticeKind, Reading};
use plumb_path::AnyError;
use plumb_path::tool::{Invocation, Program, Tool, whole_seconds};
use plumb_readers::{ToolRun, format_named, only, read_as};

use crate::algorithm::Algorithm;
use crate::metrics::{CPU_LOAD, METRICS, OPS};

/// The program.
pub(crate) const OPENSSL: Program =
    Program { name: "openssl", version: "version", remedy: "install Debian's package openssl" };

/// The engine that did the work, as `openssl speed` says.
pub(crate) const ENGINE: &str = "engine";

/// OpenSSL 3.5 measures five operations for RSA one after another: it also makes keys, and encapsulates them.
const OPERATIONS_MAX: u64 = 5;

/// `openssl speed -mr -elapsed` of one algorithm. OpenSSL before 1.1.1 is not understood: it has no `-seconds` either.
#[derive(Debug, Clone)]
pub(crate) struct OpensslSpeed {
    pub(crate) algorithm: Algorithm,
    /// The size of blocks.
    pub(crate) block: Bytes,
    /// Processes at a time.
    pub(crate) threads: u32,
    /// Operations that a process has under way at a time, where the engine can.
    pub(crate) async_jobs: Option<u32>,
    pub(crate) engine: Option<String>,
    pub(crate) provider: Option<String>,
    /// Further words for its command line.
    pub(crate) options: Vec<String>,
}

/// Why what `openssl speed` says is not a measurement.
#[derive(Debug, thiserror::Error)]
enum SpeedError {
    #[error("it measured without the engine {engine} and wrote: {line}")]
    WithoutEngine { engine: String, line: String },
    #[error("it does not say that it used the engine {engine}")]
    NoEngine { engine: String },
    #[error("it has no rate of {name} with its count")]
    NoRate { name: &'static str },
}

impl OpensslSpeed {
    /// One process, with OpenSSL's own software.
    pub(crate) fn new(algorithm: Algorithm, block: Bytes) -> Self {
        Self {
            algorithm,
            block,
            threads: 1,
            async_jobs: None,
            engine: None,
            provider: None,
            options: Vec::new(),
        }
    }

    /// Whether the process does only what is measured: where it signs, it verifies afterwards.
    pub(crate) fn does_one_thing(algorithm: Algorithm) -> bool {
        algorithm.signature().is_none()
    }

    /// Without the engine, `openssl speed` does not fail but measures its own software.
    fn check_engine(&self, said: &str) -> Result<(), SpeedError> {
        let Some(engine) = &self.engine else { return Ok(()) };
        let quoted = format!("\"{engine}\"");
        let line = said.lines().find(|line| line.contains("ngine") && line.contains(&quoted));
        match line {
            Some(line) if line.contains("set.") => Ok(()),
            Some(line) => {
                Err(SpeedError::WithoutEngine { engine: engine.clone(), line: line.trim().to_owned() })
            }
            None => Err(SpeedError::NoEngine { engine: engine.clone() }),
        }
    }
}

impl Tool for OpensslSpeed {
    fn program(&self) -> Program {
        OPENSSL
    }

    fn invocation(&self, window_ns: u64) -> Result<Invocation, AnyError> {
        let mut arguments = ["speed", "-mr", "-elapsed", "-seconds"].map(str::to_owned).to_vec();
        arguments.push(whole_seconds(window_ns).to_string());
        let mut option = |name: &str, value: Option<String>| {
            arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        };
        option("-multi", (self.threads > 1).then(|| self.threads.to_string()));
        option("-async_jobs", self.async_jobs.map(|jobs| jobs.to_string()));
        option("-engine", self.engine.clone());
        option("-provider", self.provider.clone());
        option("-bytes", self.algorithm.is_bulk().then(|| self.block.0.to_string()));
        arguments.extend(self.options.iter().cloned());
        if self.algorithm.is_bulk() {
            if matches!(
                self.algorithm,
                Algorithm::Aes128Gcm | Algorithm::Aes256Gcm | Algorithm::Chacha20Poly1305
            ) {
                // A nonce, additional data and a tag for every block, as here.
                arguments.push("-aead".to_owned());
            }
            arguments.push("-evp".to_owned());
        }
        arguments.push(name_of(self.algorithm).to_owned());
        // How often it did something stands on standard error.
        Ok(Invocation { arguments, joins_errors: true, ..Invocation::default() })
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn threads(&self) -> u32 {
        self.threads
    }

    fn lasts_ns(&self, window_ns: u64) -> u64 {
        window_ns.saturating_mul(OPERATIONS_MAX)
    }

    fn own_share(&self, _: CpuTime) -> f64 {
        0.0
    }

    fn read_run(&self, said: &str) -> Result<ToolRun, AnyError> {
        self.check_engine(said)?;
        let format = format_named("openssl").ok_or("its format is not known")?;
        let mut run = only(read_as(format, said)?)?;
        let name = metric_of(self.algorithm, self.block);
        let Some(Reading::Rate { value, count }) = run.measurement.readings.remove(&name) else {
            return Err(SpeedError::NoRate { name: name_of(self.algorithm) }.into());
        };
        // Blocks are counted in bytes.
        let size = if self.algorithm.is_bulk() { self.block.0.max(1) } else { 1 };
        let (value, count) = (value / size as f64, count / size);
        run.measurement = Measurement {
            window_ns: (count as f64 / value * 1e9).round() as u64,
            work: count,
            readings: [(OPS.name.to_owned(), Reading::Rate { value, count })].into(),
            ..Measurement::default()
        };
        if let Some(engine) = &self.engine {
            run.measurement.observed.insert(ENGINE.to_owned(), [(engine.clone(), count)].into());
        }
        Ok(run)
    }

    fn complete(&self, measurement: &mut Measurement) {
        if !Self::does_one_thing(self.algorithm) {
            // Zeros stand for CPU time that is not known.
            (measurement.cpu_user_ns, measurement.cpu_system_ns) = (0, 0);
            measurement.readings.remove(CPU_LOAD.name);
        }
        if matches!(self.algorithm, Algorithm::X25519 | Algorithm::P256) {
            measurement.notices.push(NoticeKind::DerivationAlone.into());
        }
        if self.threads > 1 {
            measurement.notices.push(NoticeKind::SumOfProcesses.with([f64::from(self.threads)]));
        }
    }
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

/// The name of its rate among what `openssl speed` says.
fn metric_of(algorithm: Algorithm, block: Bytes) -> String {
    let name = match algorithm {
        Algorithm::Rsa2048 => "rsa_2048_sign",
        Algorithm::Rsa3072 => "rsa_3072_sign",
        Algorithm::Rsa4096 => "rsa_4096_sign",
        Algorithm::EcdsaP256 => "ecdsa_256_sign",
        Algorithm::X25519 => "ecdh_253",
        Algorithm::P256 => "ecdh_256",
        bulk => return format!("{}_{}", name_of(bulk).replace('-', "_"), block.0),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_after(change: impl FnOnce(&mut OpensslSpeed)) -> String {
        let mut tool = OpensslSpeed::new(Algorithm::Rsa2048, Bytes(1024));
        change(&mut tool);
        tool.invocation(2_000_000_000).unwrap().arguments.join(" ")
    }

    #[test]
    fn settings_become_options() {
        assert_eq!(arguments_after(|_| ()), "speed -mr -elapsed -seconds 2 rsa2048");
        assert_eq!(
            arguments_after(|tool| {
                tool.threads = 3;
                tool.async_jobs = Some(8);
                tool.engine = Some("qatengine".to_owned());
            }),
            "speed -mr -elapsed -seconds 2 -multi 3 -async_jobs 8 -engine qatengine rsa2048"
        );
        assert_eq!(
            arguments_after(|tool| {
                tool.algorithm = Algorithm::Aes128Gcm;
                tool.provider = Some("default".to_owned());
            }),
            "speed -mr -elapsed -seconds 2 -provider default -bytes 1024 -aead -evp aes-128-gcm"
        );
    }

    #[test]
    fn an_engine_that_did_not_load_is_an_error_although_there_are_numbers() {
        let mut tool = OpensslSpeed::new(Algorithm::Rsa2048, Bytes(1));
        let numbers = "+F2:2:2048:930.0:38226.0\n+DTP:2048:private:rsa:1\n+R1:930:2048:1.00\n";
        let run = tool.read_run(numbers).unwrap();
        assert_eq!((run.measurement.work, run.measurement.window_ns), (930, 1_000_000_000));
        tool.engine = Some("foo".to_owned());
        let failed = tool.read_run(&format!("{numbers}Invalid engine \"foo\"\n")).unwrap_err();
        assert_eq!(
            failed.to_string(),
            "it measured without the engine foo and wrote: Invalid engine \"foo\""
        );
        assert!(tool.read_run(numbers).is_err());
        let run = tool.read_run(&format!("{numbers}Engine \"foo\" set.\n")).unwrap();
        assert_eq!(run.measurement.observed_count(ENGINE, "foo"), 930);
    }

    #[test]
    fn blocks_are_counted_and_not_their_bytes() {
        let tool = OpensslSpeed::new(Algorithm::Aes128Gcm, Bytes(1024));
        let said =
            "+H:1024\n+F:25:AES-128-GCM:204800.00\n+DT:AES-128-GCM:1:1024\n+R:202:AES-128-GCM:1.010000\n";
        let run = tool.read_run(said).unwrap();
        assert_eq!(run.measurement.readings["ops"], Reading::Rate { value: 200.0, count: 202 });
    }

    #[test]
    fn an_answer_without_the_number_is_an_error() {
        let tool = OpensslSpeed::new(Algorithm::Rsa2048, Bytes(1));
        for said in [
            "",
            "+F2:2:1024:5.0:6.0\n",
            "+F2:2:2048\n",
            "+F2:2:2048:x:1\n",
            "+F2:2:2048:inf:1",
            "+F2:2:2048:5.0:6.0\n",
        ] {
            assert!(tool.read_run(said).is_err(), "{said}");
        }
    }
}
