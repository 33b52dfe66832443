//! The statistics behind every verdict: slices in, numbers out.
//!
//! An experiment hands over one log ratio per block (`blocks`), gets a confidence sequence that stays honest while
//! somebody watches it grow (`confidence`), and has each claim judged against that (`claim`, `cap`). A history hands over one
//! value per run, and gets the runs at which the level shifted (`shift`). The crate knows no other crate of the workspace, no
//! clock and no file, so each number can be checked against its formula alone.

mod after;
mod apart;
mod blocks;
mod boundary;
mod cap;
mod confidence;
mod detectable;
mod effect;
mod forecast;
mod hypothesis;
mod looks;
mod missing;
mod moments;
mod outlier;
mod pilot;
mod quadrature;
mod quantile;
mod serial;
mod shares;
mod shift;
mod spent;
mod staircase;
mod student;
mod unusable;

pub use after::{AfterEffect, SlotPair, after_effect};
pub use apart::is_apart;
pub use blocks::{autocorrelation_lag1, is_autocorrelation_large, log_ratio};
pub use cap::{CapJudgement, judge_cap};
pub use confidence::{Interval, Level, confidence_sequence, half_width_over_s};
pub use detectable::{blocks_to_detect, detectable};
pub use effect::{Effect, effect};
pub use forecast::BLOCKS_LIMIT;
pub use hypothesis::{Decision, Direction, Hypothesis, alpha_per_claim};
pub use looks::Looks;
pub use missing::{Sample, Value};
pub use moments::Moments;
pub use outlier::{Side, outliers};
pub use pilot::{Pilot, PilotEnding};
pub use quantile::{median, quantile};
pub use serial::Design;
pub use shares::share_alpha;
pub use shift::{NotJudgeable, SHIFT_ALPHA, Shift, Shifts, Suspicion, shifts, suspected_shifts};
pub use spent::Spent;
pub use staircase::{Staircase, spread_above_step};
pub use unusable::Unusable;
