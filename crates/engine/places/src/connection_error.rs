//! Why a host cannot be used, in one sentence: the complaints of OpenSSH and the host's shell, and a remedy.
//!
//! The client exits with 255 for its own failures, and otherwise with the code of its remote command
//! (ssh(1)).

use std::fmt;
use std::time::Duration;

use plumb_host::process::Exit;

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The host's shell had not answered yet.
    Reach,
    /// The shell had been told which build to start.
    Begin,
    /// This program was being copied.
    Copy,
    /// The program had to start.
    Start,
    /// The connection had been established.
    Lost,
}

/// Why a connection could not be made, or has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionError {
    /// The progress of the connection.
    pub step: Step,
    /// The other end.
    pub peer: Peer,
    /// The last lines of standard error.
    pub said: Vec<String>,
    /// How long nothing came, if that was too long.
    pub waited: Option<Duration>,
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// A host behind ssh's client.
    Host {
        /// Where it is.
        destination: String,
        /// The command that reaches hosts.
        client: String,
        /// How the client ended; `None` if it still runs.
        exit: Option<Exit>,
    },
    /// A pod of the run.
    Pod {
        /// The name.
        name: String,
        /// How the shell in it ended, if that is known.
        exit: Option<String>,
        /// Why the pod does not run, according to the cluster.
        cause: Option<plumb_kubernetes::Error>,
    },
}

/// The client's exit code for its own failures.
const OF_CLIENT: Exit = Exit::Code(255);
/// The reason of a connection of which nothing else is known.
const ENDED: &str = "the connection ended";
/// How many lines of a client are shown. The last say most: a changed key comes with a page of warnings.
const LINES_MAX: usize = 3;
/// The part of a line that is quoted.
const LINE_CHARS_MAX: usize = 200;
/// Remedies for complaints, by words in them.
const REMEDIES: [(&[&str], &str); 2] = [
    (
        &["GLIBC_", "plumb: not found"],
        "this build needs a newer C library than the host's: build plumb on the oldest host",
    ),
    (
        &["No space left", "quota exceeded", "Read-only file system", "Permission denied"],
        "`TMPDIR` in that account's environment can name another directory than /tmp",
    ),
];

impl fmt::Display for ConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.why();
        let (at, to, remedy) = match &self.peer {
            Peer::Host { destination, .. } => {
                (format!("on {destination}"), destination.clone(), remedy(&why))
            }
            Peer::Pod { name, .. } => (format!("in pod {name}"), format!("pod {name}"), String::new()),
        };
        match (self.step, &self.peer) {
            (Step::Reach, Peer::Host { exit: Some(exit @ Exit::Code(_)), .. }) if *exit != OF_CLIENT => {
                let remedy = "the account needs `sh`, and a login shell that runs commands";
                write!(formatter, "start a shell {at}: {why}; {remedy}")
            }
            (Step::Reach, Peer::Host { client, .. }) => {
                let remedy = format!("see that `{client} -o BatchMode=yes {to} true` works");
                write!(formatter, "reach {to}: {why}; {remedy}")
            }
            (Step::Reach, Peer::Pod { .. }) => write!(formatter, "start a shell {at}: {why}"),
            (Step::Begin, _) => write!(formatter, "begin {at}: {why}"),
            (Step::Copy, _) => write!(formatter, "copy plumb to {to}: {why}{remedy}"),
            (Step::Start, _) => write!(formatter, "start plumb {at}: {why}{remedy}"),
            (Step::Lost, _) => write!(formatter, "reach {to} any more: {why}"),
        }
    }
}

impl ConnectionError {
    fn why(&self) -> String {
        let silence = self.waited.map(|waited| format!("no answer within {waited:?}"));
        let lines = self.said.iter().map(|line| line.trim().trim_end_matches('.'));
        let lines = lines.filter(|line| !line.is_empty()).map(|line| format!("{line:.LINE_CHARS_MAX$}"));
        let lines: Vec<String> = lines.collect();
        let first = match self.peer {
            Peer::Host { .. } => lines.len().saturating_sub(LINES_MAX),
            Peer::Pod { .. } => 0,
        };
        let said = lines[first..].join("; ");
        match &self.peer {
            Peer::Pod { exit, cause, .. } => {
                let how = cause.as_ref().map(ToString::to_string).or(silence).or_else(|| exit.clone());
                let how = how.unwrap_or_else(|| ENDED.to_owned());
                if said.is_empty() { how } else { format!("{said}; {how}") }
            }
            Peer::Host { exit, .. } => match (silence, exit) {
                (Some(silence), _) if said.is_empty() => silence,
                (Some(silence), _) => format!("{silence}, after `{said}`"),
                (None, _) if !said.is_empty() => said,
                (None, Some(exit)) => format!("ssh {exit}"),
                (None, None) => ENDED.to_owned(),
            },
        }
    }
}

fn remedy(why: &str) -> String {
    let remedy = REMEDIES.iter().find(|(words, _)| words.iter().any(|word| why.contains(word)));
    remedy.map(|(_, remedy)| format!("; {remedy}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(exit: Option<Exit>) -> Peer {
        Peer::Host { destination: "h".to_owned(), client: "ssh -F lab".to_owned(), exit }
    }

    fn text(step: Step, code: i32, said: &str) -> String {
        let said = said.lines().map(str::to_owned).collect();
        ConnectionError { step, peer: host(Some(Exit::Code(code))), said, waited: None }.to_string()
    }

    #[test]
    fn a_client_that_failed_can_be_tried_by_hand() {
        insta::assert_snapshot!(
            text(Step::Reach, 255, "root@h: Permission denied (publickey,password)."),
            @"reach h: root@h: Permission denied (publickey,password); see that `ssh -F lab -o BatchMode=yes h true` works"
        );
        // The output of OpenSSH 9.2 without its first lines.
        let changed = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\nPlease contact your system administrator.\nAdd correct host key in k to get \
                       rid of this message.\nOffending ED25519 key in k:1\n  remove with:\n  ssh-keygen -f \"k\" -R \"h\"\nHost key \
                       for h has changed and you have requested strict checking.\nHost key verification failed.";
        insta::assert_snapshot!(
            text(Step::Reach, 255, changed),
            @r#"reach h: ssh-keygen -f "k" -R "h"; Host key for h has changed and you have requested strict checking; Host key verification failed; see that `ssh -F lab -o BatchMode=yes h true` works"#
        );
    }

    #[test]
    fn a_host_with_much_to_say_is_quoted_in_part() {
        let said = text(Step::Reach, 255, &"a".repeat(10_000));
        assert!(said.starts_with("reach h: aaa") && said.len() < 500, "{said}");
    }

    #[test]
    fn an_account_without_a_shell_is_told_from_a_host_that_is_not_reached() {
        insta::assert_snapshot!(
            text(Step::Reach, 1, ""),
            @"start a shell on h: ssh ended with code 1; the account needs `sh`, and a login shell that runs commands"
        );
        let waited = Some(Duration::from_secs(9));
        insta::assert_snapshot!(
            ConnectionError { step: Step::Reach, peer: host(None), said: Vec::new(), waited },
            @"reach h: no answer within 9s; see that `ssh -F lab -o BatchMode=yes h true` works"
        );
    }

    #[test]
    fn the_cluster_knows_more_about_a_pod_than_the_connection() {
        let text = |waited, cause| {
            let peer =
                Peer::Pod { name: "p".to_owned(), exit: Some("it ended with code 1".to_owned()), cause };
            ConnectionError { step: Step::Lost, peer, said: vec!["no space left.".to_owned()], waited }
                .to_string()
        };
        let gone = plumb_kubernetes::Error::Pod { pod: "p".to_owned(), reason: "it was deleted".to_owned() };
        let waited = Some(Duration::from_secs(9));
        assert_eq!(text(None, None), "reach pod p any more: no space left; it ended with code 1");
        assert_eq!(text(waited, None), "reach pod p any more: no space left; no answer within 9s");
        assert_eq!(
            text(waited, Some(gone)),
            "reach pod p any more: no space left; use pod p: it was deleted"
        );
    }

    #[test]
    fn a_place_for_the_program_can_be_named() {
        insta::assert_snapshot!(
            text(Step::Copy, 1, "head: error writing 'standard output': No space left on device"),
            @"copy plumb to h: head: error writing 'standard output': No space left on device; `TMPDIR` in that account's environment can name another directory than /tmp"
        );
        insta::assert_snapshot!(
            text(Step::Start, 1, "/tmp/plumb-x/plumb: libc.so.6: version `GLIBC_2.38' not found"),
            @"start plumb on h: /tmp/plumb-x/plumb: libc.so.6: version `GLIBC_2.38' not found; this build needs a newer C library than the host's: build plumb on the oldest host"
        );
    }
}
