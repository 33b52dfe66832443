//! Anything that takes part in a run on other hosts is killed at some moment, or a host is cut off: nothing is left anywhere.
//!
//! `PLUMB_KILLS=50` kills that often at random, beginning with the seed `PLUMB_KILLS_SEED`. A short list is the default.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{changed, is_clean};
use crate::common::{Random, code, signal, slots_on_disk, stderr, wait, wait_until};
use crate::lab::hosts::Hosts;

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Runner,
    Ssh,
    Shell,
    /// The shell while it copies the program, so that it has no keeper yet.
    Copier,
    Keeper,
    Agent,
    Link,
}

use Victim::{Agent, Copier, Keeper, Link, Runner, Shell, Ssh};

const VICTIMS: [Victim; 7] = [Runner, Ssh, Shell, Copier, Keeper, Agent, Link];
/// The sides of the run are on this many hosts, the system on the first.
const HOSTS: usize = 2;
/// A run that is not disturbed takes longer. Some kills come before anything is measured.
const LATEST: Duration = Duration::from_secs(8);

/// The moment of a kill.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// With this many slots on disk.
    Slots(usize),
    /// This long after the start.
    After(Duration),
}

/// What is killed on which host, and when.
type Kill = (Victim, usize, Moment);

const FEW: [Kill; 5] = [
    (Runner, 1, Moment::Slots(3)),
    (Copier, 2, Moment::Slots(0)),
    (Keeper, 1, Moment::Slots(2)),
    (Ssh, 2, Moment::Slots(0)),
    (Agent, 2, Moment::Slots(1)),
];

impl Victim {
    /// Whether there was something to kill.
    fn kill(self, hosts: &Hosts, host: usize, runner: &Child) -> bool {
        let pid = match self {
            Runner => Some(runner.id()),
            Link => {
                hosts.link(host, false);
                return true;
            }
            Ssh => clients(runner.id()).get(host - 1).copied(),
            // The shell's own command line has all of its script.
            Copier if !hosts.processes(host).iter().any(|process| process.command.starts_with("head ")) => {
                None
            }
            Shell | Copier => hosts.process(host, "plumb-shell"),
            Keeper => hosts.process(host, " keep /tmp/"),
            Agent => hosts.process(host, "/proc/self/exe agent"),
        };
        // It may end between the look and the kill.
        pid.is_some_and(|pid| {
            std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap().success()
        })
    }
}

/// The clients of ssh that a runner has started.
pub(super) fn clients(runner: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{runner}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    let is_client = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "ssh")
    };
    children.into_iter().filter(is_client).collect()
}

/// What one kill led to.
struct Round {
    /// How much the runner measured, how it ended, and what it said last.
    slots: usize,
    exit: (Option<i32>, String),
    /// Until nothing ran: from the kill of a runner or a link, and from the runner's end.
    quiet: Duration,
    /// What the next start had to put in order.
    left: Vec<String>,
}

/// The hosts, and what a run changes there.
struct Lab {
    hosts: Hosts,
    changed: PathBuf,
}

impl Lab {
    fn up() -> Option<Self> {
        let hosts = Hosts::own(HOSTS)?;
        (1..=HOSTS).for_each(|host| hosts.install(host));
        let changed = hosts.path(1, "/root/app.conf");
        std::fs::write(&changed, "mode slow\n").unwrap();
        Some(Self { hosts, changed })
    }

    /// What is on the hosts that should not be there.
    fn left(&self) -> Vec<String> {
        let files = (1..=HOSTS).flat_map(|host| {
            self.hosts.files(host).into_iter().map(move |file| format!("host{host}: {file}"))
        });
        let is_changed = std::fs::read_to_string(&self.changed).unwrap() != "mode slow\n";
        files.chain(is_changed.then(|| "host1: a change".to_owned())).collect()
    }

    fn is_quiet(&self) -> bool {
        (1..=HOSTS).all(|host| self.hosts.processes(host).is_empty())
    }

    fn command(&self, directory: &Path, blocks: u32) -> std::process::Command {
        let changes = "[{ file: { path: /root/app.conf, replace: ^mode, with: mode fast } }]";
        let file = changed(directory, blocks, changes);
        let mut command = self.hosts.plumb();
        command.arg("run").arg(file).args(["--system-on", "host1", "--load-on", "host2", "--output"]);
        command.arg(directory.join("run")).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn round(&self, (victim, host, moment): Kill) -> Round {
        let directory = tempfile::tempdir().unwrap();
        let slots = || slots_on_disk(&directory.path().join("run"));
        if victim == Copier {
            self.hosts.uninstall(host);
        }
        let mut runner = self.command(directory.path(), 40).spawn().unwrap();
        match moment {
            // A copy lasts for a moment only.
            _ if victim == Copier => {}
            Moment::Slots(count) => wait_until("the slots before the kill", || slots() >= count),
            Moment::After(after) => std::thread::sleep(after),
        }
        wait_until("something to kill", || victim.kill(&self.hosts, host, &runner));
        let begun = Instant::now();
        match victim {
            Runner => wait_until("nothing to run on the hosts", || self.is_quiet()),
            Link => {
                wait_until("nothing to run on the host that is cut off", || {
                    self.hosts.processes(host).is_empty()
                });
            }
            // What is lost is measured again, which is interrupted at some moment, too.
            Ssh | Shell | Copier | Keeper | Agent => match moment {
                Moment::Slots(count) => wait_until("as many slots again, or the end", || {
                    slots() >= 2 * count || runner.try_wait().unwrap().is_some()
                }),
                Moment::After(after) => std::thread::sleep(after / 3),
            },
        }
        let alone = if matches!(victim, Runner | Link) { begun.elapsed() } else { Duration::ZERO };
        if victim != Runner && runner.try_wait().unwrap().is_none() {
            signal(runner.id(), "INT");
        }
        let output = wait(runner);
        let begun = Instant::now();
        if victim == Link {
            self.hosts.link(host, true);
        }
        wait_until("nothing to run on the hosts", || self.is_quiet());
        let quiet = begun.elapsed().max(alone);
        if victim == Copier {
            self.hosts.install(host);
        }
        let left = self.left();
        if !left.is_empty() {
            self.start_again();
        }
        let exit = (output.status.code(), stderr(&output).lines().last().unwrap_or_default().to_owned());
        Round { slots: slots(), exit, quiet, left }
    }

    /// The next start puts in order what was left.
    fn start_again(&self) {
        let directory = tempfile::tempdir().unwrap();
        let output = self.command(directory.path(), 2).output().unwrap();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        wait_until("the hosts to be clean", || is_clean(&self.hosts, HOSTS));
        assert_eq!(self.left(), Vec::<String>::new());
    }
}

/// Kills at random.
fn many(count: usize) -> Vec<Kill> {
    let seed = std::env::var("PLUMB_KILLS_SEED").map_or(1, |text| text.parse().unwrap());
    let mut random = Random(seed);
    let kill = |_| {
        let victim = VICTIMS[random.below(VICTIMS.len() as u64) as usize];
        let host = 1 + random.below(HOSTS as u64) as usize;
        let after = Duration::from_millis(random.below(LATEST.as_millis() as u64));
        (victim, host, Moment::After(after))
    };
    (0..count).map(kill).collect()
}

#[test]
fn whatever_is_killed_nothing_is_left_on_any_host() {
    let Some(lab) = Lab::up() else { return };
    let count = std::env::var("PLUMB_KILLS").ok().map(|text| text.parse().unwrap());
    let kills = count.map_or_else(|| FEW.to_vec(), many);
    let mut victims: BTreeMap<Victim, usize> = BTreeMap::new();
    for (number, kill) in kills.into_iter().enumerate() {
        let Round { slots, exit, quiet, left } = lab.round(kill);
        println!("{}: {kill:?}: {slots} slots, quiet after {quiet:.1?}, left {left:?}, {exit:?}", number + 1);
        *victims.entry(kill.0).or_default() += 1;
        if kill.0 == Runner {
            assert_eq!(exit.0, None);
        } else {
            assert!(matches!(exit.0, Some(1..=9 | 130)), "{exit:?}");
        }
    }
    println!("killed {victims:?}");
}
