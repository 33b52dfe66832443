//! Why a host cannot be used, in one sentence: the complaints of OpenSSH and the host's shell, and a remedy.
//!
//! The client exits with 255 for its own failures, and otherwise with the code of its remote command
//! (ssh(1)).

use std::time::Duration;

use plumb_host::process::Exit;

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
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

/// The facts about a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The last lines of standard error.
    pub said: Vec<String>,
    /// How the client ended; `None` if it still runs.
    pub exit: Option<Exit>,
    /// How long nothing came, if that was too long.
    pub waited: Option<Duration>,
}

/// The client's exit code for its own failures.
const OF_CLIENT: Exit = Exit::Code(255);
/// The last lines say most: a changed key comes with a page of warnings.
const LINES_MAX: usize = 3;
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

impl Trouble {
    /// The failure and its reason, which completes "failed to …". `client` is the command that reaches hosts.
    pub(crate) fn text(&self, step: Step, destination: &str, client: &str) -> String {
        let why = self.why();
        match (step, self.exit) {
            (Step::Reach, Some(exit)) if exit != OF_CLIENT && matches!(exit, Exit::Code(_)) => {
                format!(
                    "start a shell on {destination}: {why}; the account needs `sh`, and a login shell that runs commands"
                )
            }
            (Step::Reach, _) => {
                format!(
                    "reach {destination}: {why}; see that `{client} -o BatchMode=yes {destination} true` works"
                )
            }
            (Step::Begin, _) => format!("begin on {destination}: {why}"),
            (Step::Copy, _) => format!("copy plumb to {destination}: {why}{}", remedy(&why)),
            (Step::Start, _) => format!("start plumb on {destination}: {why}{}", remedy(&why)),
            (Step::Lost, _) => format!("reach {destination} any more: {why}"),
        }
    }

    fn why(&self) -> String {
        let lines = self.said.iter().map(|line| line.trim().trim_end_matches('.'));
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let said = lines[lines.len().saturating_sub(LINES_MAX)..].join("; ");
        match (self.waited, self.exit) {
            (Some(waited), _) if said.is_empty() => format!("no answer within {waited:?}"),
            (Some(waited), _) => format!("no answer within {waited:?}, after `{said}`"),
            (None, _) if !said.is_empty() => said,
            (None, Some(exit)) => format!("ssh {exit}"),
            (None, None) => "the connection ended".to_owned(),
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

    fn text(step: Step, code: i32, said: &str) -> String {
        let said = said.lines().map(str::to_owned).collect();
        Trouble { said, exit: Some(Exit::Code(code)), waited: None }.text(step, "h", "ssh -F lab")
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
    fn an_account_without_a_shell_is_told_from_a_host_that_is_not_reached() {
        insta::assert_snapshot!(
            text(Step::Reach, 1, ""),
            @"start a shell on h: ssh ended with code 1; the account needs `sh`, and a login shell that runs commands"
        );
        let silent = Trouble { waited: Some(Duration::from_secs(9)), ..Trouble::default() };
        insta::assert_snapshot!(
            silent.text(Step::Reach, "h", "ssh"),
            @"reach h: no answer within 9s; see that `ssh -o BatchMode=yes h true` works"
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
