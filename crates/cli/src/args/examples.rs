//! Examples below each command's help. A test reads every line of them as the program would.

pub const RUN: &str = "\
Examples:
  plumb run tls-offload --quick               # a built-in experiment, done within 90 s
  plumb run mine.yaml --output runs/monday    # a file of your own
  plumb run --resume runs/monday              # after Ctrl-C, a kill, or a power cut
  plumb run mine.yaml --only long --blocks 8 --json";

pub const CHECK: &str = "\
Examples:
  plumb check mine.yaml                       # what is wrong, with line and column; what would be skipped, and why
  plumb check overlay-tuning --json           # the plan of a built-in experiment";

pub const LIST: &str = "\
Examples:
  plumb list
  plumb list --show tls-offload > mine.yaml   # to start a file of your own from";

pub const REPORT: &str = "\
Examples:
  plumb report runs/monday
  plumb report runs/monday --format html > report.html
  plumb report runs/monday --format junit > junit.xml";

pub const HTTP: &str = "\
Examples:
  plumb http https://ingress.example/ -c 50 -d 30s
  plumb http https://ingress.example/ -n 10000 --reuse none     # a full handshake for every request
  plumb http https://ingress.example/ -c 200 --rate 2000/s      # open loop, timed from the intended start
  plumb http https://ingress.example/ --check 'status == 200' --check 'duration < 200 ms'";

pub const STORAGE: &str = "\
Examples:
  plumb storage /dev/nvme0n1 --rw randread -c 64 -d 30s         # reads only: nothing on the device is touched
  plumb storage ./new-file --size '2 GiB' --suite dbench        # on a file that is gone afterwards
  plumb storage ./new-file --size '1 GiB' --rw randrw --verify  # patterns, checked whenever they are read
  plumb storage nbd://127.0.0.1:10809/vol1 -R '500 IOPS'        # a fixed rate, timed from the intended start";

pub const NETWORK: &str = "\
Examples:
  plumb network serve --listen 192.0.2.7:19766                  # at the other end
  plumb network 192.0.2.7                                       # here: latency and bandwidth over TCP and UDP
  plumb network 192.0.2.7 tcp_lat udp_lat -m 1,1K -R 1000/s     # a fixed rate, timed from the intended send
  plumb network 192.0.2.7 udp_bw -m 64 --batch 64               # datagrams in segments
  plumb network 192.0.2.7 tcp_bw --format qperf";

pub const CRYPTO: &str = "\
Examples:
  plumb crypto --algorithms rsa-2048,x25519 --batch 1,8 --in-flight 1,20,100
  plumb crypto --algorithms aes-128-gcm --block 1KiB,16KiB --json";

pub const CODEC: &str = "\
Examples:
  plumb codec silesia/                                          # every codec that this host has
  plumb codec silesia/ --codecs zstd:1,zstd:3,lz4 --form unit
  plumb codec --zero 50%                                        # without files: what migrations are filled with";

pub const MIGRATE: &str = "\
Examples:
  plumb migrate --memory '4 GiB' --channels 4 --codec zstd --cap '10 Gbit/s'
  plumb migrate --dirty-rate '100 MB/s' --dirty-pattern hot-set # a guest that writes meanwhile
  plumb migrate serve --listen 192.0.2.7:4444                   # on another host
  plumb migrate --to 192.0.2.7:4444                             # then here
What is not given is as in an experiment that does not say it: `plumb schema` has the defaults.";

pub const VOLUMES: &str = "\
Examples:
  plumb volumes policy create capped --max-iops '500 IOPS'
  plumb volumes policy create per-gb --peak-iops '50 IOPS/GB' --peak-iops-allocation allocated-space
  plumb volumes create vol1 --size 100GB --policy capped
  plumb volumes serve                                           # by NBD, until Ctrl-C
  plumb volumes assign vol1 per-gb                              # while it is served
  plumb volumes serve --rest 127.0.0.1:8443                     # with ONTAP's REST interface; users: `user set`";

pub const HOST: &str = "\
Examples:
  plumb host
  plumb host --json";

pub const TUNE: &str = "\
Examples:
  plumb tune list                                               # what there is, needs and risks, and what this host can do
  plumb tune apply governor busy-read=100 sysctl=net.core.somaxconn=4096
  plumb tune status
  plumb tune revert                                             # puts everything back
In an experiment: `host: { tunings: [network-latency] }` in a variant, for its slots alone.";

pub const SCHEMA: &str = "\
Examples:
  plumb schema > experiment.schema.json                         # for your editor
  plumb schema run                                              # of `plumb run --json`";

pub const COMPLETIONS: &str = "\
Examples:
  plumb completions bash > ~/.local/share/bash-completion/completions/plumb
  plumb completions zsh > ~/.zfunc/_plumb";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::args::Arguments;

    /// The words of a line as a shell has them, as far as the examples need one.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(['#', '>']).next().unwrap_or_default();
        let pieces = line.split('\'').enumerate();
        pieces
            .flat_map(|(at, piece)| match at % 2 {
                0 => piece.split_whitespace().map(str::to_owned).collect(),
                _ => vec![piece.to_owned()],
            })
            .collect()
    }

    #[test]
    fn every_command_has_examples_and_the_program_understands_each() {
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            if command.is_hide_set() || name == "version" {
                continue;
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert!(examples.len() >= 2, "{name} has no examples: {help:?}");
            for example in examples {
                assert!(example.starts_with(&format!("plumb {name}")), "{name}: {example}");
                if let Err(error) = Arguments::try_parse_from(words(example)) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
