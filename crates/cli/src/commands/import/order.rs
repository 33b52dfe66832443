//! In which order runs were made, how that is known, and whether the variants took turns.

use plumb_model::OrderSource;

/// A run, as far as its place in time matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Placed {
    /// Index of its variant.
    pub(super) variant: usize,
    /// When it began by what its output says, in seconds since 1970.
    pub(super) stamp_s: Option<f64>,
    /// When its file was modified.
    pub(super) modified_s: Option<f64>,
    /// How long it took; 0 where that is not known.
    pub(super) took_s: f64,
}

/// The order of runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Order {
    /// Indexes of the runs, the first run first.
    pub(super) runs: Vec<usize>,
    /// Seconds from the first run to each, in the order of the runs.
    pub(super) offsets_s: Vec<f64>,
    pub(super) source: OrderSource,
    /// Whether every variant has one run among the first few, one among the next few, and so on.
    pub(super) interleaved: bool,
}

/// Finds the order: by the times in all outputs, else by those of all files, else as the runs were given.
pub(super) fn order(runs: &[Placed], variants: usize) -> Order {
    let by_stamps = times(runs, |run| run.stamp_s).filter(|times| are_apart(runs, times, |_| 0.0));
    // A file is complete when its run ends, so files that lie closer together than a run takes were copied.
    let by_files =
        || times(runs, |run| run.modified_s).filter(|times| are_apart(runs, times, |run| run.took_s / 2.0));
    let (source, times) = match by_stamps {
        Some(times) => (OrderSource::Stamps, times),
        None => match by_files() {
            Some(times) => (OrderSource::Files, times),
            None => (OrderSource::Given, one_after_another(runs)),
        },
    };
    let mut sorted: Vec<usize> = (0..runs.len()).collect();
    sorted.sort_by(|one, other| times[*one].total_cmp(&times[*other]));
    let first = sorted.first().map_or(0.0, |run| times[*run]);
    let offsets_s = sorted.iter().map(|run| times[*run] - first).collect();
    let interleaved = sorted.chunks(variants.max(1)).all(|turn| has_each_once(runs, turn));
    Order { runs: sorted, offsets_s, source, interleaved }
}

fn times(runs: &[Placed], time: impl Fn(&Placed) -> Option<f64>) -> Option<Vec<f64>> {
    runs.iter().map(time).collect()
}

/// Whether the times tell the runs apart: each is later than the one before by more than `gap_s` of it.
fn are_apart(runs: &[Placed], times: &[f64], gap_s: impl Fn(&Placed) -> f64) -> bool {
    let mut sorted: Vec<usize> = (0..runs.len()).collect();
    sorted.sort_by(|one, other| times[*one].total_cmp(&times[*other]));
    sorted.windows(2).all(|pair| times[pair[1]] - times[pair[0]] > gap_s(&runs[pair[1]]))
}

/// Times for runs of which none is known: as if each began when the one before ended.
fn one_after_another(runs: &[Placed]) -> Vec<f64> {
    let mut now_s = 0.0;
    let begin = |run: &Placed| {
        let begun_s = now_s;
        now_s += run.took_s.max(1.0);
        begun_s
    };
    runs.iter().map(begin).collect()
}

fn has_each_once(runs: &[Placed], turn: &[usize]) -> bool {
    let mut variants: Vec<usize> = turn.iter().map(|run| runs[*run].variant).collect();
    variants.sort_unstable();
    variants.dedup();
    variants.len() == turn.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(variant: usize, stamp_s: Option<f64>, modified_s: Option<f64>) -> Placed {
        Placed { variant, stamp_s, modified_s, took_s: 10.0 }
    }

    #[test]
    fn times_in_the_output_come_first() {
        let runs = [(0, 100.0, 9.0), (0, 140.0, 8.0), (1, 120.0, 7.0), (1, 160.0, 6.0)];
        let runs = runs.map(|(variant, stamp, modified)| run(variant, Some(stamp), Some(modified)));
        let found = order(&runs, 2);
        assert_eq!(
            (found.runs, found.source, found.interleaved),
            (vec![0, 2, 1, 3], OrderSource::Stamps, true)
        );
        assert_eq!(found.offsets_s, [0.0, 20.0, 40.0, 60.0]);
    }

    #[test]
    fn files_that_were_copied_do_not_tell_the_order() {
        let files = |times: [f64; 4]| {
            let runs = [(0, times[0]), (0, times[1]), (1, times[2]), (1, times[3])];
            order(&runs.map(|(variant, modified)| run(variant, None, Some(modified))), 2)
        };
        let kept = files([0.0, 24.0, 12.0, 36.0]);
        assert_eq!((kept.source, kept.interleaved), (OrderSource::Files, true));
        let copied = files([0.0, 0.2, 0.1, 0.3]);
        assert_eq!(
            (copied.source, copied.interleaved, copied.runs),
            (OrderSource::Given, false, vec![0, 1, 2, 3])
        );
        assert_eq!(files([5.0, 5.0, 5.0, 5.0]).source, OrderSource::Given);
    }

    #[test]
    fn turns_may_be_in_any_order_and_the_last_may_lack_a_run() {
        let turns = |variants: &[usize]| {
            let runs: Vec<Placed> = variants.iter().map(|variant| run(*variant, None, None)).collect();
            order(&runs, 2).interleaved
        };
        assert!(turns(&[0, 1, 1, 0, 1, 0]) && turns(&[0, 1, 0]) && turns(&[0, 1]));
        assert!(!turns(&[0, 0, 1, 1]) && !turns(&[0, 1, 0, 0]));
    }
}
