//! The claims as JUnit test cases, for build servers: each claim in each cell is a case, so that a refuted claim turns a
//! build red, and one without proof turns it red in another way.
//!
//! The form is the common denominator that Jenkins and GitLab read (<https://github.com/testmoapp/junitxml>): `holds`
//! passes, `refuted` is a failure, `undecided` and `skipped` are skipped, `void` is an error.

use plumb_model::{ClaimVerdict, Judgement, Run, Verdict};

use crate::figures;
use crate::summary::{verdict_count, verdict_words};
use crate::view::View;

/// The claims as a JUnit file, with a line feed at its end.
#[must_use]
pub fn junit(run: &Run, judgement: &Judgement) -> String {
    let view = &View::new(run, judgement);
    let name = escaped(&view.plan().name);
    let time = run.took_s.filter(|seconds| seconds.is_finite()).unwrap_or(0.0);
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{time:.3}\"",
        judgement.claims.len(),
        verdict_count(view, Verdict::Refuted),
        verdict_count(view, Verdict::Void),
        verdict_count(view, Verdict::Undecided) + verdict_count(view, Verdict::Skipped),
    );
    let started_at = escaped(&run.header.started_at);
    let mut lines = vec![
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned(),
        format!("<testsuites name=\"{name}\" {counts}>"),
        format!("  <testsuite name=\"{name}\" {counts} timestamp=\"{started_at}\">"),
        "    <properties>".to_owned(),
    ];
    lines.extend(properties(view));
    lines.push("    </properties>".to_owned());
    lines.extend(judgement.claims.iter().map(|found| case(view, found)));
    lines.extend(["  </testsuite>".to_owned(), "</testsuites>".to_owned()]);
    lines.join("\n") + "\n"
}

fn properties(view: &View<'_>) -> Vec<String> {
    let header = &view.run.header;
    let own = [
        ("title".to_owned(), header.plan.title.clone()),
        ("directory".to_owned(), view.run.directory.clone()),
        ("seed".to_owned(), header.plan.seed.to_string()),
        ("plumb".to_owned(), header.program_version.clone()),
    ];
    let host = view.facts().into_iter().map(|(name, value)| (format!("host.{name}"), value));
    let warnings = view.warnings().into_iter().map(|warning| ("warning".to_owned(), warning));
    let all = own.into_iter().chain(host).chain(warnings);
    all.map(|(name, value)| {
        format!("      <property name=\"{}\" value=\"{}\"/>", escaped(&name), escaped(&value))
    })
    .collect()
}

fn case(view: &View<'_>, found: &ClaimVerdict) -> String {
    let (text, cell) = (view.claim_text(found), view.cell_label(found.cell));
    let class =
        if cell.is_empty() { view.plan().name.clone() } else { format!("{} [{cell}]", view.plan().name) };
    let open = format!("    <testcase classname=\"{}\" name=\"{}\"", escaped(&class), escaped(text));
    let interval = found.ratio.zip(found.low).map(|(ratio, low)| figures::effect(ratio, low, found.high));
    let inside = |element: &str| {
        let message = escaped(&format!("{}: {}", verdict_words(found), found.reason));
        let detail = escaped(interval.as_deref().unwrap_or_default());
        format!(
            "{open}>\n      <{element} message=\"{message}\" type=\"{}\">{detail}</{element}>\n    </testcase>",
            found.verdict.word()
        )
    };
    match found.verdict {
        Verdict::Holds => format!("{open}/>"),
        Verdict::Refuted => inside("failure"),
        Verdict::Void => inside("error"),
        // Readers of this form expect an empty element with a message here.
        Verdict::Undecided | Verdict::Skipped => {
            let message = escaped(&format!("{}: {}", verdict_words(found), found.reason));
            format!("{open}>\n      <skipped message=\"{message}\"/>\n    </testcase>")
        }
    }
}

/// The text as the content of an element or of an attribute in double quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // XML 1.0 has no way to write most control characters (section 2.2).
    for character in plumb_model::printable_lines(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};
    use proptest::prelude::*;

    #[test]
    fn claims_become_test_cases() {
        let (run, judgement) = Scenario::tls_offload().run();
        insta::assert_snapshot!(junit(&run, &judgement), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites name="tls-offload" tests="5" failures="1" errors="1" skipped="1" time="342.777">
          <testsuite name="tls-offload" tests="5" failures="1" errors="1" skipped="1" time="342.777" timestamp="2026-07-01T09:00:00Z">
            <properties>
              <property name="title" value="Does offloading TLS handshakes help an ingress?"/>
              <property name="directory" value="plumb-runs/2026-07-01-tls-offload"/>
              <property name="seed" value="42"/>
              <property name="plumb" value="0.1.0"/>
              <property name="host.cpu" value="AMD EPYC 9R14"/>
              <property name="host.cpus" value="2"/>
              <property name="host.memory" value="8.2 GB"/>
              <property name="host.kernel" value="Linux 6.1.0-18-amd64"/>
              <property name="host.governor" value="none (virtual machine)"/>
              <property name="host.turbo" value="unknown"/>
              <property name="host.openssl" value="3.0.17"/>
            </properties>
            <testcase classname="tls-offload" name="threads.http_reqs &gt;= 1.2 * software.http_reqs"/>
            <testcase classname="tls-offload" name="threads.http_req_duration.p95 &lt; software.http_req_duration.p95"/>
            <testcase classname="tls-offload" name="haproxy.http_reqs &gt;= 1.1 * software.http_reqs">
              <failure message="refuted: the ratio is 0.993, below 1.1" type="refuted">×0.99 [0.92, 1.07]</failure>
            </testcase>
            <testcase classname="tls-offload" name="haproxy.http_reqs == software.http_reqs within 1%">
              <skipped message="undecided: the ratio is 0.993, the interval reaches across 1"/>
            </testcase>
            <testcase classname="tls-offload" name="engine.http_reqs &gt;= 1.1 * software.http_reqs">
              <error message="void: there is no proof that `engine` was in effect" type="void"></error>
            </testcase>
          </testsuite>
        </testsuites>
        "#);
    }

    #[test]
    fn cells_are_classes() {
        let (run, judgement) = fixture::crowded(3);
        let text = junit(&run, &judgement);
        assert_eq!(text.matches("<testcase ").count(), 16);
        assert!(
            text.contains("classname=\"tls-offload [load.connections=200, system.origin.body=612 B]\""),
            "{text}"
        );
    }

    #[test]
    fn hostile_texts_stay_texts() {
        let (run, judgement) = fixture::hostile();
        let text = junit(&run, &judgement);
        assert!(!text.contains("<script") && !text.contains('\u{1b}'));
        assert!(
            text.contains("claim &lt;script&gt;alert(&apos;x&apos;)&lt;/script&gt;&amp;&quot;|`\\u{1b}[31m"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn nothing_escaped_can_end_a_text_or_an_attribute(text in "\\PC{0,40}|[\\x00-\\x7f]{0,40}") {
            let out = escaped(&text);
            let is_markup = |c: char| matches!(c, '<' | '>' | '"' | '\'' | '\u{0}'..='\u{1f}');
            prop_assert!(!out.chars().any(is_markup), "{:?}", out);
            let bare = out.split('&').skip(1).all(|rest| rest.split_once(';').is_some_and(|(name, _)| name.len() <= 4));
            prop_assert!(bare, "{}", out);
        }
    }
}
