//! The rules, each with its name, its check and its source. `plumb audit --explain` prints them.

use plumb_model::name::did_you_mean;

/// Declares the rules once; names and explanations follow from it.
macro_rules! rules {
    ($($variant:ident $name:literal $what:literal $checks:literal $source:expr;)*) => {
        /// The rule behind a finding or a ratio.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $what] $variant,)*
        }

        impl Rule {
            /// All of them, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
            /// Their names, in the same order.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The name, which stays the same from version to version.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The rule of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|rule| rule.name() == name)
            }

            /// The problem, in a few words.
            #[must_use]
            pub fn what(self) -> &'static str {
                match self { $(Self::$variant => $what),* }
            }

            /// Explains the check, in two or three sentences.
            #[must_use]
            pub fn checks(self) -> &'static str {
                match self { $(Self::$variant => $checks),* }
            }

            /// The source of the rule.
            #[must_use]
            pub fn source(self) -> &'static str {
                match self { $(Self::$variant => $source),* }
            }
        }
    };
}

const FLEMING: &str = "Fleming and Wallace, How not to lie with statistics, CACM 29(3), 1986: ratios are defined between like things.";
const LITTLE: &str =
    "Little's law: J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9(3), 1961.";
const GEORGES: &str =
    "Georges, Buytaert and Eeckhout, Statistically Rigorous Java Performance Evaluation, OOPSLA 2007.";

rules! {
    RatioOfRuns "ratio-of-runs" "a ratio of two runs"
        "Divides a run's first rate, or else its mean time, by the same metric of an earlier run. Both runs must use the same tool, \
         options and TLS. A heading, a caption, a command or a host must name the one difference."
        FLEMING;
    RatioOfRows "ratio-of-rows" "a ratio of two rows"
        "Divides a cell by an earlier cell of the same column, after converting both to one unit. The rows must be alternatives: a \
         heading such as `proxy`, or a name such as `baseline`, must say so. Rows that differ in a number, in the work or in two \
         things have no ratio."
        FLEMING;
    RatioOfColumns "ratio-of-columns" "a ratio of two columns"
        "Divides a cell by an earlier cell of the same row, after converting both to one unit. Rows must be metrics, tests or \
         settings, and columns must be alternatives. Columns that name different statistics or different work have no ratio."
        FLEMING;
    HowTheToolCounts "how-the-tool-counts" "how the tool counts"
        "Reports where a tool's way of counting misleads: a label with the wrong unit, or samples that were invented, dropped or \
         rounded. Each tool has its own list."
        "The source of each tool, such as ApacheBench's support/ab.c and wrk's src/wrk.c. Correction for coordinated omission: Gil \
         Tene, How NOT to Measure Latency, and wrk2's README.";
    CountDoesNotClose "count-does-not-close" "arithmetic does not close"
        "Multiplies the rate of requests by the duration and compares the product with the count in the same output. A \
         difference of more than 2% is a finding. A warm-up that the tool leaves out is taken into account."
        "The definition of a rate.";
    PercentilesOutOfOrder "percentiles-out-of-order" "percentiles out of order"
        "Compares the minimum, the median, the percentiles and the maximum of a time, in an output or in a table. Apart from \
         rounding, a higher percentile cannot be smaller than a lower one."
        "The definition of a percentile.";
    MoreInFlight "more-in-flight-than-connections" "more in flight than connections"
        "Multiplies the mean time of a request by the rate, which gives the mean number of requests in flight. In a closed loop each \
         connection has at most one request in flight. Open loops and tools that may pipeline are left out."
        LITTLE;
    OneResult "one-result-not-two" "one result, not two"
        "In a closed loop the rate is the number in flight divided by the mean time of a request. If the output \
         agrees, a higher rate and a shorter time are one gain, not two."
        LITTLE;
    TimeNoMetricHas "time-that-no-metric-has" "time that no metric has"
        "Divides the number of connections by the rate, which gives the time of one request in a closed loop. If the reported mean is \
         below 90% of that time, the load tool spends the rest between requests."
        LITTLE;
    BlindMetric "metric-leaves-out-connecting" "a metric that leaves out what was changed"
        "Compares http_req_duration with the whole time of a request. If connecting or the TLS handshake takes more than 20%, a \
         change to it hardly shows in http_req_duration."
        "k6's documentation of built-in metrics: http_req_duration is sending, waiting and receiving. In ab, Processing takes its \
         place (support/ab.c).";
    TimerOutlier "outlier-as-long-as-a-timer" "an outlier as long as a timer"
        "Looks for a slowest request that took 1, 3, 5 or 7 s longer than the median. Such a request waited for a timer, \
         for example until a lost packet was retransmitted."
        "tcp(7), tcp_syn_retries, and RFC 6298: the first retransmission timeout of a connection is 1 s.";
    LatencyByTheCap "latency-by-the-cap" "latency by the cap"
        "Divides the queue depth at which dbench measures latency by the measured IOPS. If the result equals the measured latency, \
         the latency comes from a limit on IOPS and says nothing about the volume."
        "Little's law (J. D. C. Little, 1961), and the iodepth in dbench's docker-entrypoint.sh.";
    BandwidthByTheCap "bandwidth-by-the-cap" "bandwidth by the cap"
        "Divides the bandwidth by the IOPS, for a volume whose latency shows a limit. If the result is a round operation size, the \
         bandwidth comes from the same limit."
        "The block sizes in dbench's docker-entrypoint.sh.";
    ShortRun "short-run" "a short run"
        "Reports a run under continuous load that took less than 10 s. Without a warm-up, start-up is a visible part of it. \
         Jobs that end by themselves, such as migrations and commands, are left out."
        "Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013.";
    FailedAnswers "failed-answers" "failed answers"
        "Divides the failures that the tool counted by its attempts. From 1% on, failures are a visible part of rates and times; they \
         are often faster or slower than good answers."
        "The tool's own counts.";
    OneRunEach "one-run-each" "one run each"
        "Reports that variants were measured once each. How much two runs of one variant differ is then unknown, so no difference \
         between variants has an interval."
        GEORGES;
    RunsOfOneSettingDiffer "runs-of-one-setting-differ" "runs of one setting differ"
        "Compares two runs whose options are equal and whose headings differ only in the number of requests. Their difference is \
         noise, so a difference of that size between variants means nothing yet."
        GEORGES;
    SettingsDiffer "settings-differ" "settings differ"
        "Compares the options of runs of one tool that have the same metric. An option in which they differ may cause the difference \
         between their results."
        "Mytkowicz et al., Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS 2009.";
    FasterWithALimit "faster-with-a-limit" "cells contradict each other"
        "Compares each volume that has a limit to the first volume, which has none. A limit cannot make a volume faster, so runs \
         differ by at least the gain for another reason."
        "The definition of a limit.";
    LoadCpuUnknown "load-cpu-unknown" "not in the output"
        "Reports that an output of a load tool does not say how busy the load's own CPUs were. If the load was the limit, the numbers \
         describe the load. Outputs with CPU figures, such as fio's usr_cpu, are left out."
        "Banga and Druschel, Measuring the Capacity of a Web Server, USITS 1997.";
    HandshakesUnknown "handshakes-unknown" "not in the output"
        "Reports that runs over TLS do not say how many handshakes were full and how many resumed a session. A resumed handshake needs \
         no private-key operation."
        "RFC 8446, section 2.2, and RFC 5077.";
    VolumeStateUnknown "volume-state-unknown" "not in the output"
        "Reports that a storage output does not say whether the volume was written before it was read, or how much was cached. Blocks \
         that were never written, or that are cached, may be read without touching the disk."
        "SNIA, Solid State Storage Performance Test Specification: purge and preconditioning.";
    AcceleratorUnproven "accelerator-unproven" "not in the output"
        "Reports that a text about an accelerator has no counter of its device. An engine that loads may still leave the work to \
         software."
        "Linux, Documentation/ABI/testing/debugfs-driver-qat: fw_counters.";
    FasterThanAPart "faster-than-a-part" "cells contradict each other"
        "Compares each row to the host's own network, which is part of every container's path. A path cannot be faster than a part of \
         it, so either more differs than the table says, or runs differ by as much."
        "A packet passes through every part of its path.";
    OneByteBandwidth "bandwidth-of-one-byte-messages" "bandwidth of one-byte messages"
        "Converts a bandwidth of one-byte messages to messages per second. Such a bandwidth measures the CPU cost of a send."
        "qperf(1): --msg_size is the size of one message.";
    FewDigits "few-digits" "few digits"
        "Compares the difference between two alternatives to their largest rounding errors. If rounding can explain half of the \
         difference, the digits do not support it."
        "JCGM 100:2008 (GUM), F.2.2.1: the resolution of a digital indication.";
    MeanAlone "mean-alone" "a mean alone"
        "Reports latencies of qperf, which are half of the mean round trip. Without percentiles, a mean hides rare long waits."
        "qperf(1), and Gil Tene, How NOT to Measure Latency.";
    MorePagesThanMemory "more-pages-than-memory" "arithmetic does not close"
        "Multiplies pages per second by the total time of a migration. If the product is more memory than the guest has, the rate \
         does not hold for the whole migration."
        "QEMU's qapi/migration.json: pages-per-second counts pages of 4,096 bytes on x86-64.";
    AboveTheCap "rate-above-its-cap" "a rate above its cap"
        "Compares the throughput of a migration to its bandwidth limit. If it is more than 1% above, the two are in different units or \
         count different things."
        "QEMU's qapi/migration.json: max-bandwidth is in bytes per second.";
    CpuWithoutTime "cpu-without-time" "CPU without time"
        "Multiplies CPU percentages by the total times of their rows, if these differ. A percentage without its time is not a cost."
        "CPU time is utilisation times elapsed time.";
    SlowerWithMore "slower-with-more-bandwidth" "cells contradict each other"
        "Compares the same job under a lower and a higher bandwidth limit. A higher limit cannot make it slower, so runs differ by at \
         least that much."
        "The definition of a limit.";
    OneNumberACell "one-number-a-cell" "one number per cell"
        "Reports tables of results with one number per cell. How much two measurements of one cell differ is then unknown, so no \
         difference between cells has an interval."
        GEORGES;
    NoSpread "repeated-without-spread" "a mean without its spread"
        "Reports tables of repeated measurements that show one number per cell. Without the spread of the repetitions, no difference \
         between cells has an interval. A `±`, a deviation, or a minimum and a maximum would show it."
        GEORGES;
    BitsOrBytes "bits-or-bytes" "bits or bytes"
        "Looks for the same number as a rate in Gbps and in GBps. They differ by a factor of 8, and the text seems to mean one rate."
        "IEC 80000-13: the bit and the byte.";
}

impl Rule {
    /// Names similar to an unknown one: the names that contain it or share a word with it, and the name with the nearest spelling.
    #[must_use]
    pub fn near(name: &str) -> Vec<&'static str> {
        let words: Vec<&str> =
            name.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3).collect();
        let has_word =
            |known: &&&str| known.contains(name) || known.split('-').any(|part| words.contains(&part));
        let mut near: Vec<&str> = Self::NAMES.iter().filter(has_word).copied().collect();
        let spelt = did_you_mean(name, Self::NAMES.iter().copied());
        near.extend(spelt.filter(|name| !near.contains(name)));
        near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_has_near_ones() {
        assert_eq!((Rule::near("few-digit"), Rule::near("few")), (vec!["few-digits"], vec!["few-digits"]));
        assert_eq!(Rule::near("latency by cap"), ["latency-by-the-cap"]);
        assert_eq!(Rule::near("spread"), ["repeated-without-spread"]);
        assert_eq!(Rule::near("xyz"), [""; 0]);
    }

    #[test]
    fn names_are_kebab_case_and_differ() {
        let mut names = Rule::NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rule::ALL.len());
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
    }

    #[test]
    fn explanations_are_two_or_three_sentences_with_a_source() {
        for rule in Rule::ALL {
            let sentences = rule.checks().matches(". ").count() + 1;
            assert!((2..=3).contains(&sentences) && rule.checks().ends_with('.'), "{}", rule.name());
            assert!(rule.source().ends_with('.'), "{}", rule.name());
        }
    }
}
