//! A run and its judgement as text for a terminal, Markdown, HTML, JSON and JUnit; one measurement as text and JSON;
//! pages with tables for a terminal.
//!
//! Every form is a pure function from the same two values to a text, so that each can be made again from a run
//! directory at any time, and none can say something that another does not. Reading directories, choosing a form and
//! printing it are the command's business.

mod break_even;
mod brief;
mod capacities;
mod capacity;
mod cautions;
mod choice;
mod contrast;
mod costs;
pub mod figures;
mod html;
mod json;
mod junit;
mod layout;
mod limits;
mod load;
mod markdown;
mod measurement;
mod notices;
mod observed;
mod page;
mod rows;
mod scale;
mod section;
pub mod sheet;
mod spread;
mod summary;
mod text;
mod view;
mod waits;

pub use brief::brief;
pub use capacity::{search_so_far, trial_line};
pub use cautions::sentence as caution;
pub use contrast::{
    COMPARE_FORMAT, CompareDocument, Difference, RunLine, ShiftDocument, contrast_json, contrast_text,
};
pub use figures::plural;
pub use html::chart::{centred, level, path, percent, pixels};
pub use html::html;
pub use html::parts::{
    PastLook, headline, html_contrast, html_narrowing, html_report, html_slots, html_style,
};
pub use json::{
    AgentDocument, ClaimDocument, ComparisonDocument, LimitDocument, LoadAgentsDocument, MetricDocument,
    RUN_FORMAT, RunDocument, StateDocument, StatisticDocument, VariantDocument, json, pretty,
};
pub use junit::junit;
pub use layout::wrap;
pub use markdown::markdown;
pub use measurement::{
    LoadDocument, MEASUREMENT_FORMAT, MeasurementDocument, MeasurementReport, ObservedDocument,
    ReadingDocument, Source, open_end, too_many_failures,
};
pub use notices::sentence as notice;
pub use scale::Scale;
pub use sheet::TextStyle;
pub use summary::mark;
pub use text::text;
pub use view::{command_again, quoted};

#[cfg(test)]
#[path = "../tests/fixture/mod.rs"]
mod fixture;

#[cfg(test)]
mod tests {
    use crate::{TextStyle, brief, fixture, html, json, junit, markdown, text};

    #[test]
    fn no_form_has_anything_that_a_terminal_would_obey() {
        let (run, judgement) = &fixture::hostile();
        let style = TextStyle::default();
        let forms = [
            ("brief", brief(run, judgement, &style)),
            ("text", text(run, judgement, &style)),
            ("markdown", markdown(run, judgement)),
            ("html", html(run, judgement)),
            ("json", json(run, judgement)),
            ("junit", junit(run, judgement)),
        ];
        for (name, form) in forms {
            let obeyed = form.chars().find(|c| *c == '\r' || plumb_model::is_unprintable(*c));
            assert_eq!(obeyed, None, "{name}");
            assert!(
                form.contains("1b") && form.contains("202e"),
                "{name} shows that something was there: {form}"
            );
        }
        let value: serde_json::Value = serde_json::from_str(&json(run, judgement)).unwrap();
        assert!(value.to_string().contains('\u{202e}'), "JSON means what it meant");
    }
}
