//! Interleaved runs of several tools, and the ratios that come out of them.

use plumb_host::cpu::CpuSet;
use plumb_stats::{Effect, effect, log_ratio, median};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::Outcome;
use crate::say;
use crate::tool::{Sample, Tool};

/// Samples of every tool: by tool, then by block, two each.
pub struct Samples<S = Sample> {
    by_tool: Vec<Vec<[S; 2]>>,
}

/// Runs `blocks` random palindromic blocks of all tools.
pub fn interleave(
    tools: &[Tool],
    blocks: usize,
    (cpus, server_pid): (&CpuSet, Option<u32>),
    seed: u64,
) -> Outcome<Samples> {
    interleave_by(tools.len(), blocks, seed, &mut |tool| {
        let sample = tools[tool].run(cpus, server_pid)?;
        say(&format!(
            "{}: {:.0}/s {:.2} us {:.0}%",
            tools[tool].name,
            sample.requests_per_s,
            sample.cpu_us_per_request,
            sample.busy * 100.0
        ));
        Ok(sample)
    })
}

/// Calls `run` with the number of each of `tools` tools, in `blocks` random palindromic blocks.
pub fn interleave_by<S>(
    tools: usize,
    blocks: usize,
    seed: u64,
    run: &mut dyn FnMut(usize) -> Outcome<S>,
) -> Outcome<Samples<S>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut by_tool: Vec<Vec<[S; 2]>> = (0..tools).map(|_| Vec::new()).collect();
    for _ in 0..blocks {
        let mut order: Vec<usize> = (0..tools).collect();
        order.shuffle(&mut random);
        let mut taken: Vec<Vec<S>> = (0..tools).map(|_| Vec::new()).collect();
        for index in order.iter().chain(order.iter().rev()) {
            taken[*index].push(run(*index)?);
        }
        for (index, samples) in taken.into_iter().enumerate() {
            by_tool[index].extend(<[S; 2]>::try_from(samples));
        }
    }
    Ok(Samples { by_tool })
}

impl<S: Copy> Samples<S> {
    /// Median of a value over all of a tool's runs.
    pub fn median(&self, tool: usize, value: fn(&S) -> f64) -> f64 {
        let values: Vec<f64> = self.by_tool[tool].iter().flatten().map(value).collect();
        median(&values).unwrap_or(f64::NAN)
    }

    /// The first tool's value over another's, with its interval at 95%.
    pub fn ratio(&self, of: usize, over: usize, value: fn(&S) -> f64) -> Option<Effect> {
        let pairs = self.by_tool[of].iter().zip(&self.by_tool[over]);
        let effects: Vec<f64> = pairs
            .filter_map(|(ours, theirs)| log_ratio(theirs.map(|s| value(&s)), ours.map(|s| value(&s))).ok())
            .collect();
        effect(&effects, 0.05)
    }
}
