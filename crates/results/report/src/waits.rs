//! Why requests waited before or while they were sent, and why answers waited for the load: the waiting time by reason, with a bar for
//! each.

use plumb_model::{LoadWindow, Measurement, Metric, Reading, Statistic, Wait};
use plumb_stats::median;

use crate::figures;
use crate::layout::{Paint, bar, columns};
use crate::section::{CellKind, Line, Look, Part, Section, Table, TableCell, section};
use crate::view::View;

/// A kind of wait, with its reasons.
struct Ledger {
    /// The name of its section and table.
    name: &'static str,
    title: &'static str,
    about: &'static str,
    /// The noun for what waited, in the singular.
    noun: &'static str,
    /// The heading of the number of waits.
    heading: &'static str,
    reasons: Vec<Reason>,
}

/// A reason for a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reason {
    metric: Metric,
    words: &'static str,
}

impl From<Wait> for Reason {
    fn from(wait: Wait) -> Self {
        let words = match wait {
            Wait::Connection => "no connection",
            Wait::Streams => "stream limit",
            Wait::ConnectionWindow => "connection window",
            Wait::StreamWindow => "stream window",
            Wait::CongestionWindow => "congestion window",
            Wait::Pacing => "pacing",
            Wait::Socket => "socket full",
        };
        Self { metric: wait.metric(), words }
    }
}

impl From<LoadWindow> for Reason {
    fn from(window: LoadWindow) -> Self {
        Self { metric: window.metric(), words: window.name() }
    }
}

fn of_requests() -> Ledger {
    Ledger {
        name: "waits",
        title: "Why requests waited",
        about: "Waits before a request was sent, or while it was sent: the medians over slots of the time that all requests of a window \
                waited, and of their number. A request may have waited for several reasons.",
        noun: "request",
        heading: "Requests",
        reasons: Wait::ALL.map(Reason::from).to_vec(),
    }
}

fn of_answers() -> Ledger {
    Ledger {
        name: "answer-waits",
        title: "Why answers waited for the load",
        about: "How often the server had used up a flow-control window of the load, and the time until the kernel took the load's \
                WINDOW_UPDATEs: the medians over slots. Larger windows (load.windows) avoid these waits.",
        noun: "time",
        heading: "Times",
        reasons: LoadWindow::ALL.map(Reason::from).to_vec(),
    }
}

/// The waits for one reason.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waits {
    reason: Reason,
    count: f64,
    time_ns: f64,
}

impl Waits {
    /// Those of one measurement. Without a reading there are none: a window that was never used up has no reading.
    fn in_measurement(measurement: &Measurement, reason: Reason) -> Self {
        let Some(Reading::Trend(times)) = measurement.readings.get(reason.metric.name) else {
            return Self { reason, count: 0.0, time_ns: 0.0 };
        };
        // A request that did not wait counts as 0.
        let waited = times.bins().filter(|(wait_ns, _)| *wait_ns > 0).map(|(_, count)| count);
        let count = waited.sum::<u64>() as f64;
        let mean_ns = times.statistic_ns(Statistic::Avg).unwrap_or(0.0);
        Self { reason, count, time_ns: mean_ns * times.count() as f64 }
    }

    /// The share of the time of all reasons, from 0 to 1; NaN if that time is 0.
    fn share(&self, all: &[Self]) -> f64 {
        self.time_ns / all.iter().map(|waits| waits.time_ns).sum::<f64>()
    }

    fn figures(&self, all: &[Self]) -> [String; 3] {
        [figures::share(self.share(all)), figures::time_ns(self.time_ns), figures::count(self.count)]
    }
}

/// Why the requests and answers of one measurement waited, as lines for a terminal; none where nothing waited.
pub fn lines(measurement: &Measurement, paint: Paint) -> [Vec<String>; 2] {
    [of_requests(), of_answers()].map(|ledger| of_ledger(&ledger, measurement, paint))
}

fn of_ledger(ledger: &Ledger, measurement: &Measurement, paint: Paint) -> Vec<String> {
    let all = ledger.reasons.iter().map(|reason| Waits::in_measurement(measurement, *reason));
    let all: Vec<Waits> = all.filter(|waits| waits.count > 0.0).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let row = |waits: &Waits| {
        let first = std::iter::once(waits.reason.words.to_owned());
        first.chain(waits.figures(&all)).chain([bar(waits.share(&all))]).collect()
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let heading = ledger.heading.to_lowercase();
    columns(paint, 4, &[ledger.title, "share", "total time", &heading, ""], &rows)
}

/// The waits of a variant in one cell for one reason.
struct Typical {
    cell: usize,
    variant: usize,
    waits: Waits,
    /// Slots in which anything waited for it, and all slots.
    slots: [usize; 2],
}

fn typical(view: &View<'_>, ledger: &Ledger, cell: usize, variant: usize) -> Vec<Typical> {
    let of_reason = |reason: &Reason| {
        let slots =
            view.results(cell, variant).map(|result| Waits::in_measurement(&result.measurement, *reason));
        let slots: Vec<Waits> = slots.collect();
        let middle = |of: fn(&Waits) -> f64| median(&slots.iter().map(of).collect::<Vec<f64>>());
        let waits = Waits {
            reason: *reason,
            count: middle(|waits| waits.count)?,
            time_ns: middle(|waits| waits.time_ns)?,
        };
        let waited = slots.iter().filter(|waits| waits.count > 0.0).count();
        (waited > 0).then_some(Typical { cell, variant, waits, slots: [waited, slots.len()] })
    };
    ledger.reasons.iter().filter_map(of_reason).collect()
}

/// Why the requests of each variant waited, and why the answers did.
pub fn of_variants<'a>(view: &View<'a>) -> [Section<'a>; 2] {
    [of_requests(), of_answers()].map(|ledger| section_of(&ledger, view))
}

fn section_of<'a>(ledger: &Ledger, view: &View<'a>) -> Section<'a> {
    let cells = 0..view.plan().cells.len();
    let groups = cells.flat_map(|cell| (0..view.variants().len()).map(move |variant| (cell, variant)));
    let (mut rows, mut words) = (Vec::new(), Vec::new());
    for (cell, variant) in groups {
        let found = typical(view, ledger, cell, variant);
        let all: Vec<Waits> = found.iter().map(|typical| typical.waits).collect();
        rows.extend(found.iter().map(|typical| row(view, typical, &all)));
        words.extend(found.iter().map(|typical| line(view, ledger, typical, &all)));
    }
    let texts = ["Variant", "Reason", "Share of the time"].map(TableCell::text);
    let numbers = ["Total time", ledger.heading, "Slots"].map(TableCell::number);
    let table = Table::new(ledger.name, Look::Cards, texts.into_iter().chain(numbers).collect(), rows);
    Section { about: ledger.about, ..section(ledger.name, ledger.title, vec![Part::Table(table, words)]) }
}

fn place(view: &View<'_>, typical: &Typical) -> String {
    match view.cell_label(typical.cell) {
        label if label.is_empty() => label,
        label => format!(", {label}"),
    }
}

fn row<'a>(view: &View<'a>, typical: &Typical, all: &[Waits]) -> Vec<TableCell<'a>> {
    let [_, time, count] = typical.waits.figures(all);
    let [waited, of] = typical.slots;
    vec![
        TableCell::new(CellKind::Variant(typical.variant, place(view, typical))),
        TableCell::text(typical.waits.reason.words),
        TableCell::new(CellKind::Share(typical.waits.share(all))),
        TableCell::number(time),
        TableCell::number(count),
        TableCell::number(format!("{waited} of {of}")),
    ]
}

/// The bar comes first, so that the bars of all lines begin in one column.
fn line(view: &View<'_>, ledger: &Ledger, typical: &Typical, all: &[Waits]) -> Line {
    let (bar, reason) = (bar(typical.waits.share(all)), typical.waits.reason.words);
    let [share, time, _] = typical.waits.figures(all);
    let count = figures::several(typical.waits.count, ledger.noun);
    let (name, place) = (view.name(typical.variant), place(view, typical));
    let slots = match typical.slots {
        [waited, of] if waited == of => String::new(),
        [waited, of] => format!(", in {waited} of {of} slots"),
    };
    Line::plain(format!("{bar} {name}{place}: {reason} {share}, {time}, {count}{slots}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Dice};
    use crate::{TextStyle, html, markdown, text};

    #[test]
    fn a_measurement_shows_a_bar_for_each_reason() {
        let mut measurement = fixture::measurement(&mut Dice::new(3), &fixture::SOFTWARE, 5.0, 10);
        let none: [Vec<String>; 2] = Default::default();
        assert_eq!(lines(&measurement, Paint { colour: false }), none, "it measures no waits");
        fixture::wait(&mut measurement, &[]);
        assert_eq!(lines(&measurement, Paint { colour: false }), none, "nothing waited");
        fixture::wait(&mut measurement, &[(Wait::Streams, 1200), (Wait::Connection, 400), (Wait::Socket, 1)]);
        insta::assert_snapshot!(lines(&measurement, Paint { colour: false }).concat().join("\n"), @r"
            Why requests waited   share  total time  requests
            no connection        24.98%      4.00 s       400  █████···············
            stream limit         74.95%      12.0 s     1,200  ███████████████·····
            socket full           0.06%     10.0 ms         1  █···················
        ");
    }

    #[test]
    fn a_measurement_shows_the_windows_of_the_load_that_were_used_up() {
        let mut measurement = fixture::measurement(&mut Dice::new(3), &fixture::SOFTWARE, 5.0, 10);
        fixture::use_up(&mut measurement, LoadWindow::Stream, 63);
        insta::assert_snapshot!(lines(&measurement, Paint { colour: false }).concat().join("\n"), @r"
            Why answers waited for the load  share  total time  times
            stream window                     100%      126 ms     63  ████████████████████
        ");
    }

    #[test]
    fn a_run_shows_the_windows_that_were_used_up_in_every_form() {
        let (mut run, judgement) = fixture::Scenario::tls_offload().run();
        for slot in run.slots.iter_mut().filter(|slot| slot.variant == "threads") {
            let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome else { continue };
            fixture::use_up(&mut result.measurement, LoadWindow::Stream, 300);
        }
        for slot in run.slots.iter_mut().filter(|slot| slot.variant == "software") {
            let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome else { continue };
            fixture::use_up(&mut result.measurement, LoadWindow::Stream, 1);
        }
        let title = of_answers().title;
        let style = TextStyle { colour: false, width: 120 };
        let text = text(&run, &judgement, &style);
        let (_, rest) = text.split_once(title).unwrap();
        insta::assert_snapshot!(rest.lines().skip(1).take(2).collect::<Vec<_>>().join("\n"), @r"
          ████████████████████ software: stream window 100%, 2.00 ms, 1 time
          ████████████████████ threads: stream window 100%, 600 ms, 300 times
        ");
        let row = "| `threads` | stream window | ████████████████████ 100% | 600 ms | 300 | 12 of 12 |";
        assert!(markdown(&run, &judgement).contains(row));
        assert!(html(&run, &judgement).contains(title));
    }

    #[test]
    fn a_run_shows_the_waits_of_each_variant_in_every_form() {
        let (run, judgement) = fixture::waiting();
        let title = of_requests().title;
        let part = |form: &str, title: &str, end: &str| {
            let (_, rest) = form.split_once(title).unwrap();
            rest.split_once(end).unwrap().0.trim_matches('\n').to_owned()
        };
        let style = TextStyle { colour: false, width: 120 };
        insta::assert_snapshot!(part(&text(&run, &judgement, &style), title, "\n\n"), @r"
          ████████████████████ software: stream limit 100%, 3.00 s, 300 requests
          ···················· software: socket full 0%, 0, 0 requests, in 1 of 12 slots
          ███████████████····· threads: no connection 75.00%, 3.00 s, 300 requests
          █████··············· threads: stream limit 25.00%, 1.00 s, 100 requests
        ");
        insta::assert_snapshot!(part(&markdown(&run, &judgement), title, "\n## "), @r"
        Waits before a request was sent, or while it was sent: the medians over slots of the time that all requests of a window waited, and of their number. A request may have waited for several reasons.

        | Variant | Reason | Share of the time | Total time | Requests | Slots |
        |:---|:---|:---|:---|:---|:---|
        | `software` | stream limit | ████████████████████ 100% | 3.00 s | 300 | 12 of 12 |
        | `software` | socket full | ···················· 0% | 0 | 0 | 1 of 12 |
        | `threads` | no connection | ███████████████····· 75.00% | 3.00 s | 300 | 12 of 12 |
        | `threads` | stream limit | █████··············· 25.00% | 1.00 s | 100 | 12 of 12 |
        ");
        let page = html(&run, &judgement);
        for width in ["100.00%", "75.00%", "25.00%", "0.00%"] {
            let bar = format!("<rect class=\"bob\" width=\"{width}\"");
            assert_eq!(page.matches(&bar).count(), 1, "{width}");
        }
    }

    #[test]
    fn a_run_without_waits_has_no_such_section() {
        let (run, judgement) = fixture::Scenario::tls_offload().run();
        for form in [
            text(&run, &judgement, &TextStyle::default()),
            markdown(&run, &judgement),
            html(&run, &judgement),
        ] {
            assert!(!form.contains(of_requests().title) && !form.contains(of_answers().title));
        }
    }
}
