//! How far the load agents of a run differed, in words.

use plumb_model::finding::{AgentPart, Outlying, Spread};

use crate::figures;
use crate::layout::clean;
use crate::view::View;

/// The sentence on the section's content.
pub const ABOUT: &str = "Each agent's part of the work and the median of its times, as medians over slots. An agent is an outlier where it differs \
                         from the median agent by more than 5% and three times the noise, to the same side in at least three of four slots.";

/// The variant, with its cell where there are several.
pub fn label(view: &View<'_>, spread: &Spread) -> String {
    let cell = view.cell_label(spread.cell);
    let name = view.name(spread.variant);
    if cell.is_empty() { name.to_owned() } else { format!("{name} at {cell}") }
}

/// The work of one agent: `25.1%, 7.31 ms`.
pub fn part(agent: &AgentPart) -> String {
    let share = figures::share_coarse(agent.share);
    agent.median_ns.map_or(share.clone(), |median_ns| format!("{share}, {}", figures::time_ns(median_ns)))
}

/// The work of all of a variant's agents, as a sentence: from the least to the most.
pub fn range(spread: &Spread) -> String {
    let range = |values: &mut dyn Iterator<Item = f64>, show: &dyn Fn(f64) -> String| {
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        (low <= high).then(|| match (show(low), show(high)) {
            (low, high) if low == high => low,
            (low, high) => format!("{low} to {high}"),
        })
    };
    let agents = || spread.agents.iter();
    let work = range(&mut agents().map(|agent| agent.share), &figures::share_coarse).unwrap_or_default();
    let times = range(&mut agents().filter_map(|agent| agent.median_ns), &figures::time_ns);
    let times = times.zip(spread.metric.as_ref());
    let times = times.map(|(times, metric)| format!(", with a median {} of {times}", clean(metric)));
    format!(
        "{} did {work} of the work each{}",
        figures::plural(spread.agents.len(), "agent"),
        times.unwrap_or_default()
    )
}

/// A sentence on each outlier.
pub fn outliers(view: &View<'_>, spread: &Spread) -> Vec<String> {
    let of = |agent: &&AgentPart| !agent.outlying.is_empty();
    let label = label(view, spread);
    spread.agents.iter().filter(of).map(|agent| outlier(&label, agent)).collect()
}

fn outlier(label: &str, agent: &AgentPart) -> String {
    let meant = agent.asked.map(figures::share_coarse).unwrap_or_default();
    let share = figures::share_coarse(agent.share);
    let time = agent.median_ns.map(figures::time_ns).unwrap_or_default();
    let words: Vec<String> = agent
        .outlying
        .iter()
        .map(|outlying| match outlying {
            Outlying::LessWork => format!("it did less work ({share}) than its part of the load ({meant})"),
            Outlying::MoreWork => format!("it did more work ({share}) than its part of the load ({meant})"),
            Outlying::Slower => format!("its median time is longer ({time})"),
            Outlying::Faster => format!("its median time is shorter ({time})"),
        })
        .collect();
    format!("{} is an outlier among the load agents of {label}: {}", agent.agent, words.join(", and "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TextStyle;
    use crate::fixture;

    #[test]
    fn agents_are_told_apart_and_the_one_that_differs_is_named() {
        let (run, judgement) = fixture::several_agents();
        let view = View::new(&run, &judgement);
        let spreads = &judgement.findings.spreads;
        insta::assert_snapshot!(range(&spreads[1]), @"4 agents did 19.0% to 27.0% of the work each, with a median http_req_duration of 4.27 ms to 6.05 ms");
        insta::assert_snapshot!(outliers(&view, &spreads[1]).join("\n"), @"client3 is an outlier among the load agents of threads: it did less work (19.0%) than its part of the load (25.0%), and its median time is longer (6.05 ms)");
        assert_eq!(outliers(&view, &spreads[0]), [""; 0]);
        let text = crate::text(&run, &judgement, &TextStyle { colour: false, width: 100 });
        let section = text.lines().skip_while(|line| *line != "Load agents").skip(4);
        let section: Vec<&str> = section.take_while(|line| !line.is_empty()).collect();
        insta::assert_snapshot!(section.join("\n"), @r"
          threads: 4 agents did 19.0% to 27.0% of the work each, with a median http_req_duration of 4.27 ms
          to 6.05 ms (client1 26.7%, 4.31 ms; client2 27.0%, 4.28 ms; ! client3 19.0%, 6.05 ms; client4
          27.0%, 4.27 ms).
          plain: 4 agents did 24.7% to 25.1% of the work each, with a median http_req_duration of 894 µs to
          907 µs (client1 24.9%, 900 µs; client2 25.1%, 894 µs; client3 24.7%, 907 µs; client4 25.1%, 896
          µs).
          haproxy: 4 agents did 24.7% to 25.4% of the work each, with a median http_req_duration of 7.31 ms
          to 7.50 ms (client1 24.9%, 7.40 ms; client2 24.7%, 7.47 ms; client3 24.8%, 7.50 ms; client4 25.4%,
          7.31 ms).
          engine: 4 agents did 24.8% to 25.3% of the work each, with a median http_req_duration of 7.21 ms
          to 7.33 ms (client1 25.0%, 7.25 ms; client2 25.3%, 7.21 ms; client3 24.8%, 7.33 ms; client4 25.0%,
          7.32 ms).
          ! client3 is an outlier among the load agents of threads: it did less work (19.0%) than its part
            of the load (25.0%), and its median time is longer (6.05 ms).
        ");
        let brief = crate::brief(&run, &judgement, &TextStyle { colour: false, width: 120 });
        assert!(brief.contains("! client3 is an outlier among the load agents of threads"), "{brief}");
        let page = crate::html(&run, &judgement);
        assert!(
            page.contains("id=\"agents\"")
                && page.contains("client3 is an outlier among the load agents of threads")
        );
        assert!(crate::markdown(&run, &judgement).contains("client3 is an outlier"));
    }

    #[test]
    fn a_run_with_one_load_agent_has_no_such_section() {
        let (run, judgement) = fixture::Scenario::tls_offload().run();
        assert!(judgement.findings.spreads.is_empty());
        assert!(!crate::html(&run, &judgement).contains("Load agents"));
    }
}
