//! Writes every form of the report of made-up runs into a directory, to look at them while changing them:
//! `cargo run -p plumb-report --example gallery -- DIRECTORY`.

use std::path::PathBuf;

use plumb_model::{Judgement, Run};
use plumb_report::TextStyle;

#[path = "../tests/fixture/mod.rs"]
mod fixture;

type Form = (&'static str, fn(&Run, &Judgement) -> String);

const FORMS: [Form; 5] = [
    ("html", plumb_report::html),
    ("md", plumb_report::markdown),
    ("json", plumb_report::json),
    ("xml", plumb_report::junit),
    ("txt", |run, judgement| plumb_report::text(run, judgement, &TextStyle { colour: true, width: 100 })),
];

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("gallery"), PathBuf::from);
    std::fs::create_dir_all(&directory)?;
    let runs = [
        ("tls-offload", fixture::Scenario::tls_offload().run()),
        ("interrupted", fixture::interrupted_at_once()),
        ("one-block", fixture::one_block()),
        ("troubled", fixture::troubled()),
        ("several-agents", fixture::several_agents()),
        ("crowded", fixture::crowded(5)),
        ("hostile", fixture::hostile()),
    ];
    for (name, (run, judgement)) in &runs {
        for (ending, form) in FORMS {
            std::fs::write(directory.join(format!("{name}.{ending}")), form(run, judgement))?;
        }
    }
    Ok(())
}
