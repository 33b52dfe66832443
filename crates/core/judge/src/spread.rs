//! The spread of one variant's slots: the noise that a verdict has to see through.

use plumb_model::{Run, Statistic};
use plumb_stats::Moments;

use crate::table::Table;

/// The standard deviation of the logarithm of a metric over all measured slots of a run's first cell, of
/// every variant. The log ratio of a block, which rests on two slots of each side, has the same standard
/// deviation.
///
/// `None` if fewer than two slots have a value above 0. It is meaningful only if all variants are the same.
#[must_use]
pub fn spread(run: &Run, metric: &str, statistic: Option<Statistic>) -> Option<f64> {
    let table = Table::new(&run.header.plan, &run.slots);
    let of_cell = run.slots.iter().filter(|slot| slot.cell == 0);
    let values = of_cell.filter_map(|slot| table.number(slot.result()?, metric, statistic));
    let logs: Moments = values.filter(|value| *value > 0.0).map(f64::ln).collect();
    logs.standard_deviation()
}
