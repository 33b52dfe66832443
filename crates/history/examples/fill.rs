//! Fills a history with made-up runs of one experiment, to see how large and how fast it is: `fill DATABASE RUNS`.

#![expect(clippy::unwrap_used, reason = "what is made up is right")]

#[path = "../tests/made/mod.rs"]
mod made;

use std::io::Write;

use plumb_history::{Database, Location, Record};
use plumb_judge::judge;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, runs] = &arguments[..] else { return Err("usage: fill DATABASE RUNS".into()) };
    let mut history = Database::open(&Location::parse(database)?)?;
    let runs: u32 = runs.parse()?;
    for number in 0..runs {
        let factor = if number < runs - runs / 50 { 1.0 } else { 0.9 };
        let run = made::run("many", number, factor);
        history.add(&Record::of(&run, &judge(&run.header.plan, &run.slots), 0)?)?;
    }
    writeln!(std::io::stdout(), "{runs} runs")?;
    Ok(())
}
