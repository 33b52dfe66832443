//! Examples below each command's help. A test reads every line of them as the program would.

pub const RUN: &str = "\
Examples:
  plumb run tls-offload --quick            # a built-in one, done within 90 s
  plumb run mine.yaml --output runs/monday # a file of your own
  plumb run --resume runs/monday           # after Ctrl-C, a kill, a power cut
  plumb run --resume runs/monday --blocks 40 # still undecided: up to 40
  plumb run mine.yaml --only resumed --blocks 8 --json
  plumb run mine.yaml --record --label ci=true # see `plumb history`";

pub const INIT: &str = "\
Examples:
  plumb init --external https://a.example/ https://b.example/
  plumb init --nginx-config /etc/nginx/nginx.conf
  plumb init --storage /dev/sda nbd://127.0.0.1:10809/vol1 --file disks.yaml
  plumb init --network 192.0.2.1 192.0.2.2
  plumb init --migration
  plumb init --crypto --file devices.yaml";

pub const CHECK: &str = "\
Examples:
  plumb check mine.yaml             # what is wrong or skipped, and why
  plumb check overlay-tuning --json # the plan of a built-in experiment";

pub const LIST: &str = "\
Examples:
  plumb list
  plumb list --show tls-cost > mine.yaml # to start a file of your own from";

pub const REPORT: &str = "\
Examples:
  plumb report runs/monday          # what fits on a screen
  plumb report runs/monday --full   # every metric, all evidence
  plumb report runs/monday --format html > report.html
  plumb report runs/monday --format junit > junit.xml";

pub const COMPARE: &str = "\
Examples:
  plumb compare runs/monday runs/tuesday # is the effect the same twice?
  plumb compare runs/old-kernel runs/new-kernel --json

Exit codes: 0 effects were compared, 4 nothing could be compared fairly; the output says why.";

pub const EXPORT: &str = "\
Examples:
  plumb export runs/monday --format csv > slots.csv # a row for each slot
  plumb export runs/* --format parquet --output slots.parquet
  plumb export runs/monday --format columns # units and meanings
  plumb export runs/monday --to http://127.0.0.1:4318 # by OTLP

OTEL_EXPORTER_OTLP_ENDPOINT is the collector where neither --format nor --to is given, and
OTEL_EXPORTER_OTLP_HEADERS has headers for it, such as `authorization=Bearer%20SECRET`.
Exit codes: 0 done, whatever the verdicts, 2 usage, 5 the collector did not take all of it.";

pub const UI: &str = "\
Examples:
  plumb ui                               # the runs in ./plumb-runs
  plumb ui runs ci-runs                  # those in other folders
  plumb ui --listen 127.0.0.1:8080       # a fixed port, to forward it by ssh -L
  plumb ui --database postgres://team@db/history   # a team's recorded runs

The first line of its output is the address to open, with the token that every request needs.
Ctrl-C ends the page; runs that it started go on.";

pub const AUDIT: &str = "\
Examples:
  plumb audit README.md                          # what its figures support
  plumb audit issue.txt --experiment settle.yaml # and what would settle it
  plumb audit docs/*.md --json
  plumb audit --explain few-digits               # what a rule checks";

pub const GATE: &str = "\
Examples:
  plumb gate --base main --build make --command ./bench --budget 60s
  plumb gate --base v1.2 --build make --run bench.yaml --worse-than 5%
  plumb gate --base-command old/bench --head-command new/bench --format json

Exit codes: 0 not worse by that margin, 1 worse, 2 usage, 3 undecided, 4 not comparable,
5 a build failed.";

pub const HISTORY: &str = "\
Examples:
  plumb history add plumb-runs                       # every run in a folder
  plumb history list --experiment bench --limit 10
  plumb history trend bench                          # of what claims speak of
  plumb history trend bench --metric wall_time.p95 --variant b
  plumb history accept bench --metric wall_time.p95 --note 'a new codec'
  plumb history bisect bench --metric wall_time.p95 --build make
  plumb history list --database postgres://team@db.example/plumb

Exit codes of trend: 0 no change for the worse that is open, 1 a confirmed one, 2 usage,
3 a suspected one, or runs too much alike to tell, 5 the database failed. A change that
was accepted or taken back is not open.";

pub const COMMAND: &str = "\
Examples:
  plumb command 'sleep 0.05'                     # one: its time, CPU and memory
  plumb command 'gzip -1k file' 'gzip -6k file' --prepare 'rm -f file.gz'
  plumb command 'xz -T{t} -k file' -P t=1,2,4 --prepare 'rm -f file.xz'
  plumb command --shell sh 'seq 1e5 | sort -R | wc -l' --within 1%
  plumb command 'curl -s 127.0.0.1:8000' --start 'python3 -m http.server'";

pub const IMPORT: &str = "\
Examples:
  plumb import wrk.txt
  plumb import fio.json --json
  plumb import --variant 'a=a/*.json' --variant 'b=b/*.json' --claim 'b.x > a.x'
  plumb import times.csv --column latency:ms";

pub const HTTP: &str = "\
Examples:
  plumb http https://a.example/ -c 50 -d 30s
  plumb http https://a.example/ -n 10000 --reuse none # full handshakes
  plumb http https://a.example/ --rate 2000/s         # an open loop
  plumb http https://a.example/ --check 'status == 200' --check 'duration < 1s'";

pub const STORAGE: &str = "\
Examples:
  plumb storage /dev/nvme0n1 --rw randread -c 64 -d 30s     # reads only
  plumb storage ./new-file --size '2 GiB' --suite dbench    # gone afterwards
  plumb storage ./new-file --size '1 GiB' --rw rw --verify  # what is read, too
  plumb storage nbd://127.0.0.1:10809/vol1 -R '500 IOPS'    # a fixed rate";

pub const NETWORK: &str = "\
Examples:
  plumb network serve --listen 192.0.2.7:19766          # at the other end
  plumb network 192.0.2.7                               # here: all but tcp_crr
  plumb network 192.0.2.7 tcp_lat -m 1,1K -R 1000/s     # at a fixed rate
  plumb network 192.0.2.7 udp_bw -m 64 --batch 64       # in segments
  plumb network 192.0.2.7 tcp_bw --format qperf";

pub const CRYPTO: &str = "\
Examples:
  plumb crypto --algorithms rsa-2048,x25519 --batch 1,8 --in-flight 1,20,100
  plumb crypto --algorithms aes-128-gcm --block 1KiB,16KiB --json";

pub const CODEC: &str = "\
Examples:
  plumb codec silesia/                    # every codec that this host has
  plumb codec silesia/ --codecs zstd:1,zstd:3,lz4 --form unit
  plumb codec --zero 50%                  # what migrations are filled with";

pub const MIGRATE: &str = "\
Examples:
  plumb migrate --memory '4 GiB' --codec zstd --channels 4 --cap '10 Gbit/s'
  plumb migrate --dirty-rate '100 MB/s' --dirty-pattern hot-set
  plumb migrate --tls on serve --listen 192.0.2.7:4444 > ca.pem # another host
  plumb migrate --tls on --to 192.0.2.7:4444 --ca ca.pem        # then here";

pub const VOLUMES: &str = "\
Examples:
  plumb volumes policy create capped --max-iops '500 IOPS'
  plumb volumes policy create per-gb --peak-iops '50 IOPS/GB'
  plumb volumes create vol1 --size 100GB --policy capped
  plumb volumes serve                       # by NBD, until Ctrl-C
  plumb volumes assign vol1 per-gb          # while it is served
  plumb volumes user set admin              # who may use the REST interface
  plumb volumes serve --rest 127.0.0.1:8443 # by NBD, with the REST interface";

pub const HOST: &str = "\
Examples:
  plumb host
  plumb host --json
  plumb host --on ssh://root@server1";

pub const PLACES: &str = "\
Examples:
  plumb places check lab.yaml
  plumb places check --system-on ssh://root@server1 --load-on client1,client2
  plumb places check lab.yaml --experiment tls-offload # what variants lack";

pub const TUNE: &str = "\
Examples:
  plumb tune list            # what there is, and what this host can do
  plumb tune apply busy-read=100 sysctl=net.core.somaxconn=4096
  plumb tune status
  plumb tune revert          # puts everything back
A variant has tunings for its slots alone by `host: { tunings: [governor] }`.";

pub const SCHEMA: &str = "\
Examples:
  plumb schema > experiment.schema.json # for your editor
  plumb schema run                      # of `plumb run --json`";

pub const COMPLETIONS: &str = "\
Examples:
  plumb completions bash > ~/.local/share/bash-completion/completions/plumb
  plumb completions zsh > ~/.zfunc/_plumb";

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use plumb_codec::CodecKind;

    use crate::args::Arguments;

    /// The words of a line as a shell has them, as far as the examples need one.
    fn shell_words(line: &str) -> Vec<String> {
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
    fn help_names_every_codec() {
        let command = Arguments::command();
        for (name, without) in [("codec", Some(CodecKind::Uadk)), ("migrate", None)] {
            let help = command.find_subcommand(name).unwrap().clone().render_long_help().to_string();
            for kind in CodecKind::ALL.into_iter().filter(|kind| Some(*kind) != without) {
                assert!(help.contains(kind.name()), "{name} does not name {}", kind.name());
            }
        }
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
                // Longer ones are broken by a terminal of 80 columns.
                assert!(example.len() <= 78, "{name}: {example}");
                assert!(example.starts_with(&format!("plumb {name}")), "{name}: {example}");
                if let Err(error) = Arguments::try_parse_from(shell_words(example)) {
                    panic!("{example}: {error}");
                }
            }
        }
    }
}
