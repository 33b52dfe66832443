//! Building blocks of all figures: places in per cent, the look of a variant, marks, axes, and the plumb line of no change.
//!
//! Figures have no view box: across they are measured in per cent and down in pixels. So a figure is as wide as its
//! window, and its letters and marks keep their size from a phone to a wall.

use maud::{Markup, html};

use crate::layout::shorten;
use crate::view::View;

/// How a variant looks in every figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The class that sets its colour.
    pub class: &'static str,
    /// The outline of its mark, around the origin, in pixels.
    outline: &'static str,
    /// The class of its lines: after all hues were used once they are dashed, then dotted.
    pub dash: &'static str,
}

const HUES: [&str; 6] = ["v1", "v2", "v3", "v4", "v5", "v6"];
const DASHES: [&str; 3] = ["", "dash1", "dash2"];
const CIRCLE: &str = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z";
/// One outline fewer than there are hues, so that the pair of both repeats late.
const OUTLINES: [&str; 5] = [
    "M-4.1-4.1h8.2v8.2h-8.2z",
    "M0-5.8L5.8 0 0 5.8-5.8 0z",
    "M0-5.4L5.2 4.2H-5.2z",
    "M0 5.4L5.2-4.2H-5.2z",
    "M-1.7-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
];

impl Look {
    /// The baseline is a grey circle; the others take hues and outlines in turn.
    pub fn of_variant(view: &View<'_>, variant: usize) -> Self {
        if variant == view.plan().baseline {
            return Self { class: "v0", outline: CIRCLE, dash: "" };
        }
        let at = view.others().position(|other| other == variant).unwrap_or(0);
        Self {
            class: HUES[at % HUES.len()],
            outline: OUTLINES[at % OUTLINES.len()],
            dash: DASHES[at / HUES.len() % DASHES.len()],
        }
    }

    /// The mark beside a name.
    pub fn swatch(self) -> Markup {
        html! {
            svg width="13" height="13" viewBox="-6.5 -6.5 13 13" aria-hidden="true" {
                path class={ "mark " (self.class) } d=(self.outline) {}
            }
        }
    }

    /// The mark at a place of a figure, with what a pointer over it tells.
    pub fn mark(self, x: &str, y: f64, is_hollow: bool, title: &str) -> Markup {
        let hollow = if is_hollow { " hollow" } else { "" };
        html! {
            svg x=(x) y=(pixels(y)) {
                path class={ "mark " (self.class) (hollow) } d=(self.outline) { title { (title) } }
            }
        }
    }

    /// A short line at the left or right end of a figure that says: it goes on.
    pub fn arrow(self, y: f64, to_the_right: bool) -> Markup {
        let (x, outline) = if to_the_right { ("100%", "M1 0l-8-4.5v9z") } else { ("0%", "M-1 0l8-4.5v9z") };
        html! { svg x=(x) y=(pixels(y)) { path class={ "arrow " (self.class) } d=(outline) {} } }
    }
}

/// The name of a variant with its mark.
pub fn name(view: &View<'_>, variant: usize) -> Markup {
    html! { span.name { (Look::of_variant(view, variant).swatch()) span { (view.name(variant)) } } }
}

/// Which mark is which variant.
pub fn legend(view: &View<'_>, variants: &[usize], class: &str) -> Markup {
    html! {
        ul class={ "legend " (class) } { @for variant in variants { li { (name(view, *variant)) } } }
    }
}

/// A sentence of the judgement, with what stands between backticks in code type.
pub fn prose(text: &str) -> Markup {
    let pieces: Vec<&str> = text.split('`').collect();
    // An odd backtick has no partner, and is left as it is.
    let is_paired = pieces.len() % 2 == 1;
    html! {
        @if is_paired {
            @for (at, piece) in pieces.iter().enumerate() { @if at % 2 == 1 { code { (piece) } } @else { (piece) } }
        } @else { (text) }
    }
}

/// A share of the width.
pub fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

/// A length in pixels, to a tenth.
pub fn pixels(length: f64) -> String {
    format!("{length:.1}")
}

/// A vertical line over a height.
pub fn upright(class: &str, share: f64, height: f64) -> Markup {
    let x = percent(share);
    html! { line class=(class) x1=(x) x2=(x) y1="0" y2=(pixels(height)) {} }
}

/// A horizontal line across a figure with its label on the left.
pub fn level(y: f64, label: &str) -> Markup {
    html! {
        line class="grid" x1="0" x2="100%" y1=(pixels(y)) y2=(pixels(y)) {}
        text x="-9" y=(pixels(y + 4.0)) text-anchor="end" { (label) }
    }
}

/// A label below a figure that has room on both sides.
pub fn centred(share: f64, y: f64, label: &str) -> Markup {
    html! { text x=(percent(share)) y=(pixels(y)) text-anchor="middle" { (label) } }
}

/// A label below a figure that has none: at the ends it is held inside.
pub fn below(share: f64, y: f64, label: &str) -> Markup {
    let anchor = match share {
        share if share < 0.03 => "start",
        share if share > 0.97 => "end",
        _ => "middle",
    };
    html! { text x=(percent(share)) y=(pixels(y)) text-anchor=(anchor) { (label) } }
}

/// A line through points whose first coordinate is a share of the width and whose second is in pixels.
pub fn path(points: &[(f64, f64)], class: &str, height: f64) -> Markup {
    let step = |(at, (x, y)): (usize, &(f64, f64))| {
        format!("{}{:.1} {y:.1}", if at == 0 { "M" } else { "L" }, 1000.0 * x)
    };
    let outline: String = points.iter().enumerate().map(step).collect();
    html! {
        svg x="0" y="0" width="100%" height=(pixels(height)) viewBox={ "0 0 1000 " (pixels(height)) } preserveAspectRatio="none" {
            path class={ "stroke " (class) } vector-effect="non-scaling-stroke" d=(outline) {}
        }
    }
}

/// Names at the right end of lines, moved apart so that none covers another.
pub fn end_labels(view: &View<'_>, ends: &[(usize, f64)], height: f64) -> Markup {
    const APART: f64 = 15.0;
    let mut places: Vec<(usize, f64)> = ends.to_vec();
    places.sort_by(|left, right| left.1.total_cmp(&right.1));
    let mut floor = f64::NEG_INFINITY;
    for place in &mut places {
        place.1 = place.1.max(floor + APART);
        floor = place.1;
    }
    let mut ceiling = height + APART;
    for place in places.iter_mut().rev() {
        place.1 = place.1.min(ceiling - APART);
        ceiling = place.1;
    }
    html! {
        g class="only-wide" {
            @for (variant, y) in places {
                @let look = Look::of_variant(view, variant);
                svg x="100%" y=(pixels(y)) {
                    text class={ "ink " (look.class) } x="10" y="4" { (shorten(view.name(variant), 15)) title { (view.name(variant)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use std::collections::BTreeSet;

    #[test]
    fn twelve_variants_look_different() {
        let (run, judgement) = fixture::crowded(1);
        let view = View::new(&run, &judgement);
        let looks: BTreeSet<(&str, &str)> = (0..12)
            .map(|variant| Look::of_variant(&view, variant))
            .map(|look| (look.class, look.outline))
            .collect();
        assert_eq!(looks.len(), 12);
    }

    #[test]
    fn backticks_in_pairs_become_code() {
        assert_eq!(prose("`a` < b").into_string(), "<code>a</code> &lt; b");
        assert_eq!(prose("a ` b").into_string(), "a ` b");
    }

    #[test]
    fn labels_at_the_same_height_are_moved_apart() {
        let (run, judgement) = fixture::crowded(1);
        let view = View::new(&run, &judgement);
        let ends: Vec<(usize, f64)> = (0..12).map(|variant| (variant, 250.0)).collect();
        let drawn = end_labels(&view, &ends, 260.0).into_string();
        let places: Vec<f64> = drawn
            .split(" y=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .filter(|y| *y != 4.0)
            .collect();
        assert_eq!(places.len(), 12);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 14.9), "{places:?}");
    }
}
