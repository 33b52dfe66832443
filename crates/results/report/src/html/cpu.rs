//! CPU time per unit of work on each side, so that a gain is seen together with what pays for it.

use maud::{Markup, html};

use super::chart::{name, percent};
use crate::costs::{Costs, SideCost};
use crate::figures;
use crate::load;
use crate::view::View;

/// The costs of one cell on one scale, or nothing where no work was done.
pub fn cpu(view: &View<'_>, cell: usize) -> Markup {
    let found: Vec<(usize, Costs)> = (0..view.variants().len())
        .filter_map(|variant| Some((variant, Costs::of_variant(view, cell, variant)?)))
        .collect();
    let most = found
        .iter()
        .flat_map(|(_, costs)| costs.system.iter().chain([&costs.load]))
        .map(SideCost::total_us)
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return html! {};
    }
    html! {
        figure {
            figcaption {
                h3 { "What it costs" }
                "CPU time per unit of work on each side, over all slots."
                ul.legend {
                    li { span.key.su {} "system, user" } li { span.key.ss {} "system, kernel" }
                    li { span.key.lu {} "load, user" } li { span.key.ls {} "load, kernel" }
                }
            }
            @for (variant, costs) in &found { (variant_costs(view, *variant, costs, most)) }
        }
    }
}

fn variant_costs(view: &View<'_>, variant: usize, costs: &Costs, most: f64) -> Markup {
    let (busy, softirq) = (load::of_variant(&costs.health), figures::share_coarse(costs.softirq));
    html! {
        div.cost {
            (name(view, variant))
            @match &costs.system {
                Some(system) => { (side("system", system, ["su", "ss"], most)) }
                None => {
                    span.quiet { "system" }
                    span {}
                    span.total { "–" }
                }
            }
            span.parts { (costs.system_words().join(" · ")) }
            (side("load", &costs.load, ["lu", "ls"], most))
            span.parts.last { (busy) " · host's softirq " (softirq) }
        }
    }
}

fn side(label: &str, cost: &SideCost, classes: [&str; 2], most: f64) -> Markup {
    let total = figures::time_ns(cost.total_us() * 1e3);
    let parts = [(cost.user_us, "user"), (cost.system_us, "kernel")];
    let words: Vec<String> =
        parts.iter().map(|(time_us, mode)| format!("{mode} {}", figures::time_ns(time_us * 1e3))).collect();
    html! {
        span.quiet { (label) }
        svg height="15" role="img" aria-label={ (label) ": " (total) ", " (words.join(", ")) } {
            rect class=(classes[0]) x="0" y="1" height="13" width=(percent(cost.user_us / most)) { title { (label) ", " (words[0]) } }
            rect class=(classes[1]) x=(percent(cost.user_us / most)) y="1" height="13" width=(percent(cost.system_us / most)) {
                title { (label) ", " (words[1]) }
            }
        }
        span.total { (total) }
    }
}
