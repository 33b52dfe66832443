//! Slots over time with what else the host did meanwhile: an outlier and its cause stand one above the other.

use maud::{Markup, html};
use plumb_model::{Noise, Slot, SlotOutcome};

use super::chart::{Look, centred, end_labels, legend, level, percent, pixels, upright};
use crate::figures;
use crate::load;
use crate::rows::Row;
use crate::scale::Scale;
use crate::view::View;

const HEIGHT: f64 = 260.0;
const STRIP_HEIGHT: f64 = 30.0;

/// A kind of noise.
#[derive(Clone, Copy)]
struct NoiseKind {
    label: &'static str,
    /// The share from which on a bar stands out, and at which a strip is full unless there is more. Tasks wait for a
    /// CPU often where load is driven at all, so pressure means little below a higher share.
    loud: f64,
    of: fn(&Noise) -> Option<f64>,
}

const KINDS: [NoiseKind; 4] = [
    NoiseKind { label: "steal", loud: 0.02, of: |noise| Some(noise.steal) },
    NoiseKind { label: "others", loud: 0.05, of: |noise| Some(noise.others) },
    NoiseKind { label: "softirq", loud: 0.10, of: |noise| Some(noise.softirq) },
    NoiseKind { label: "pressure", loud: 0.20, of: |noise| noise.pressure_cpu },
];

/// The slots of one cell in their order, or a sentence where there is none.
pub fn timeline(view: &View<'_>, cell: usize) -> Markup {
    let slots: Vec<&Slot> = view.cell_slots(cell).collect();
    let Some((row, time)) = view.main_row().zip(Time::spanning(view, &slots)) else {
        return html! { p.quiet { "No slot was measured here." } };
    };
    // Nobody looked at the host while another tool measured.
    let watched = if view.plan().imported.is_some() { &[][..] } else { &slots };
    let shown: Vec<usize> =
        (0..view.variants().len()).filter(|variant| view.slots(cell, *variant).next().is_some()).collect();
    html! {
        figure {
            figcaption {
                h3 { "Slots over time" }
                code { (row.key()) } " of every slot, in the order in which they ran; the bands are blocks, the levels medians. "
                "A ring marks a slot in which the load was the limit, a cross one that failed. "
                "Below, on the same axis, the share of CPU time that others took: the hypervisor (steal), other processes, "
                "softirq, and tasks that waited for a CPU (pressure)."
            }
            (legend(view, &shown, "only-narrow"))
            div.chart.labelled {
                (values(view, cell, row, &time, &shown))
                (noise(watched, &time))
            }
        }
    }
}

/// The axis of time.
struct Time {
    from_s: f64,
    to_s: f64,
    window_s: f64,
}

impl Time {
    fn spanning(view: &View<'_>, slots: &[&Slot]) -> Option<Self> {
        let window_s = view.plan().window_ns as f64 / 1e9;
        let from_s = slots.iter().map(|slot| slot.offset_s).fold(f64::INFINITY, f64::min);
        let to_s = slots.iter().map(|slot| slot.offset_s + window_s).fold(f64::NEG_INFINITY, f64::max);
        (from_s.is_finite() && to_s.is_finite() && to_s > from_s).then_some(Self { from_s, to_s, window_s })
    }

    fn share(&self, at_s: f64) -> f64 {
        ((at_s - self.from_s) / (self.to_s - self.from_s)).clamp(0.0, 1.0)
    }

    /// Where a slot's window begins, and how wide it is.
    fn span(&self, slot: &Slot) -> (f64, f64) {
        let from = self.share(slot.offset_s);
        (from, self.share(slot.offset_s + self.window_s) - from)
    }

    /// Round times with their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        let length_s = self.to_s - self.from_s;
        let (unit_s, symbol) = match length_s {
            length if length > 3.0 * 3600.0 => (3600.0, "h"),
            length if length > 240.0 => (60.0, "min"),
            _ => (1.0, "s"),
        };
        let scale = Scale::even(self.from_s / unit_s, self.to_s / unit_s);
        scale
            .ticks(8)
            .into_iter()
            .map(|tick| (self.share(tick * unit_s), format!("{} {symbol}", (tick * 1e6).round() / 1e6)))
            .collect()
    }
}

fn values(view: &View<'_>, cell: usize, row: Row<'_>, time: &Time, shown: &[usize]) -> Markup {
    let of = |variant: &usize| view.values(cell, *variant, row);
    let all: Vec<f64> = shown.iter().flat_map(of).filter_map(|(_, value)| value).collect();
    let scale = Scale::of_values(all.iter().copied());
    let y = |value: f64| scale.map_or(HEIGHT, |scale| HEIGHT * (1.0 - scale.place(value)));
    let medians: Vec<(usize, f64)> =
        shown.iter().filter_map(|variant| Some((*variant, y(view.median(cell, *variant, row)?)))).collect();
    html! {
        svg height=(HEIGHT) role="img" aria-label={ (row.key()) " of every slot over time" } {
            (bands(view, cell, time))
            @for tick in scale.map(|scale| scale.ticks(6)).unwrap_or_default() {
                (level(y(tick), &figures::tick(tick, row.metric.unit)))
            }
            line.frame x1="0" x2="100%" y1=(HEIGHT) y2=(HEIGHT) {}
            @for (variant, y) in &medians {
                line class={ "stroke thin " (Look::of_variant(view, *variant).class) } x1="0" x2="100%" y1=(pixels(*y)) y2=(pixels(*y)) {}
            }
            @for variant in shown {
                @for (slot, value) in view.values(cell, *variant, row) {
                    (mark(view, *variant, row, slot, value.map(|value| (value, y(value))), time))
                }
            }
            (end_labels(view, &medians, HEIGHT))
        }
    }
}

fn bands(view: &View<'_>, cell: usize, time: &Time) -> Markup {
    let blocks = view.cell_slots(cell).map(|slot| slot.block).max().map_or(0, |last| last + 1);
    let extent = |block: u32| {
        let spans = || view.cell_slots(cell).filter(|slot| slot.block == block).map(|slot| time.span(slot));
        let from = spans().map(|(from, _)| from).fold(1.0, f64::min);
        let to = spans().map(|(from, width)| from + width).fold(0.0, f64::max);
        (from, (to - from).max(0.0))
    };
    html! {
        @for block in (0..blocks).step_by(2) {
            @let (from, width) = extent(block);
            rect.band x=(percent(from)) y="0" width=(percent(width)) height=(pixels(HEIGHT)) { title { "block " (block + 1) } }
        }
    }
}

fn mark(
    view: &View<'_>,
    variant: usize,
    row: Row<'_>,
    slot: &Slot,
    value: Option<(f64, f64)>,
    time: &Time,
) -> Markup {
    let look = Look::of_variant(view, variant);
    let (from, width) = time.span(slot);
    let x = percent(from + width / 2.0);
    let title = title(view, row, slot, value.map(|(value, _)| value));
    let is_load_bound = slot.result().is_some_and(|result| result.measurement.health.is_load_bound());
    html! {
        @match value {
            Some((_, y)) => {
                (look.mark(&x, y, false, &title))
                @if is_load_bound { circle.ring cx=(x) cy=(pixels(y)) r="8" {} }
            }
            None => svg x=(x) y=(pixels(HEIGHT - 9.0)) {
                path class={ "cross " (look.class) } d="M-5-5L5 5M-5 5L5-5" { title { (title) } }
            }
        }
    }
}

/// Everything that is known of a slot, for the pointer over its mark.
fn title(view: &View<'_>, row: Row<'_>, slot: &Slot, value: Option<f64>) -> String {
    let mut lines = vec![format!(
        "{}, block {}, place {}, {}",
        slot.variant,
        slot.block + 1,
        slot.position + 1,
        figures::duration_s(slot.offset_s)
    )];
    lines.extend(value.map(|value| format!("{} {}", row.key(), row.show(value))));
    match &slot.outcome {
        SlotOutcome::Failed { reason, .. } => lines.push(format!("failed: {reason}")),
        SlotOutcome::Measured(_) if view.plan().imported.is_some() => {}
        SlotOutcome::Measured(result) => {
            let share = |kind: &NoiseKind| {
                Some(format!("{} {}", kind.label, figures::share_coarse((kind.of)(&result.noise)?)))
            };
            let shares = KINDS.iter().filter_map(share);
            lines.push(shares.collect::<Vec<String>>().join(", "));
            lines.push(format!("load: {}", load::of_variant(&result.measurement.health)));
        }
    }
    lines.extend(slot.retried.iter().map(|reason| format!("retried after: {reason}")));
    lines.join("\n")
}

/// A strip of bars per kind of noise, then the axis of time.
fn noise(slots: &[&Slot], time: &Time) -> Markup {
    let height = STRIP_HEIGHT * KINDS.len() as f64;
    html! {
        svg height=(pixels(height + 8.0)) role="img" aria-label="noise of the host in every slot" {
            @for (at, kind) in KINDS.iter().enumerate() {
                (strip(slots, time, *kind, STRIP_HEIGHT * (at + 1) as f64))
            }
            @for (share, label) in time.ticks() {
                (upright("grid", share, height))
                (centred(share, height + 18.0, &label))
            }
        }
    }
}

fn strip(slots: &[&Slot], time: &Time, kind: NoiseKind, floor: f64) -> Markup {
    let NoiseKind { label, loud, of } = kind;
    let share = |slot: &&Slot| of(&slot.result()?.noise).filter(|share| share.is_finite());
    let shares: Vec<(&Slot, f64)> = slots.iter().filter_map(|slot| Some((*slot, share(slot)?))).collect();
    let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    let full = most.max(loud);
    let remark = if shares.is_empty() {
        "not known".to_owned()
    } else {
        format!("≤ {}", figures::share_coarse(most))
    };
    html! {
        text x="-9" y=(pixels(floor - 4.0)) text-anchor="end" { (label) }
        line.frame x1="0" x2="100%" y1=(pixels(floor)) y2=(pixels(floor)) {}
        @for (slot, share) in &shares {
            @let (from, width) = time.span(slot);
            @let height = (STRIP_HEIGHT - 6.0) * share / full;
            rect class={ "noise" @if *share >= loud { " loud" } } x=(percent(from)) width=(percent(width * 0.9))
                y=(pixels(floor - height)) height=(pixels(height)) {
                title { (slot.variant) ", block " (slot.block + 1) ": " (label) " " (figures::share_coarse(*share)) }
            }
        }
        g class="only-wide" { svg x="100%" y=(pixels(floor)) { text x="10" y="-4" { (remark) } } }
    }
}
