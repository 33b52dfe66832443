//! Devices in turn: each round measures every row of an algorithm in a random order and then in its reverse, so that drift
//! and what disturbs the machine meet all of them.

use plumb_crypto::measure::{Keys, Point, Series, Source};
use plumb_host::time::monotonic_ns;
use plumb_model::Span;
use plumb_runner::block_order;

use super::progress::Progress;
use crate::exit::Failure;

/// A window's warm-up is this part of it; the engine makes it longer where that is too short.
const WARMUP_PART: u64 = 8;

/// Measures every point, for `duration` in all, and returns them in the order in which they came.
pub fn measure(
    points: &[Point],
    keys: &mut Keys,
    duration: Span,
    rounds: u32,
    progress: &mut Progress,
) -> Result<Vec<Series>, Failure> {
    let seed = monotonic_ns();
    let mut measured = Vec::with_capacity(points.len());
    let by_algorithm = points.chunk_by(|a, b| a.work.algorithm == b.work.algorithm);
    for (cell, points) in by_algorithm.enumerate() {
        let mut series: Vec<Series> = points.iter().copied().map(Series::new).collect();
        let is_in_rounds = |index: &usize| matches!(points[*index].source, Source::Device(_));
        let (in_rounds, once): (Vec<usize>, Vec<usize>) = (0..points.len()).partition(is_in_rounds);
        // Measures that take whole seconds run once, in the middle, where drift matters least.
        for index in order(seed, cell, rounds, &in_rounds, &once) {
            let window = Span((duration.0 / u64::from(2 * rounds)).max(1));
            let round = (series[index].windows.len() / 2) as u32 + 1;
            progress.window(&points[index], round, rounds);
            let window = if once.contains(&index) { duration } else { window };
            let warmup = Span(window.0 / WARMUP_PART);
            let row = points[index].measure(keys, warmup, window, &mut |_| {}).map_err(Failure::harness)?;
            series[index].windows.push(row.measurement);
        }
        measured.extend(series);
    }
    Ok(measured)
}

/// Every window of one algorithm.
fn order(seed: u64, cell: usize, rounds: u32, in_rounds: &[usize], once: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    for round in 0..rounds {
        if round == rounds / 2 {
            order.extend(once);
        }
        order.extend(block_order(seed, cell, round, in_rounds));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_two_windows_in_each_round_and_a_program_one_in_the_middle() {
        let order = order(7, 0, 6, &[0, 1, 2], &[3]);
        assert_eq!(order.len(), 6 * 6 + 1);
        assert_eq!(order[18], 3);
        let devices: Vec<usize> = order.iter().copied().filter(|index| *index != 3).collect();
        for round in devices.chunks(6) {
            let reversed: Vec<usize> = round.iter().rev().copied().collect();
            assert_eq!(round, reversed);
            assert!((0..3).all(|device| round.iter().filter(|index| **index == device).count() == 2));
        }
    }
}
