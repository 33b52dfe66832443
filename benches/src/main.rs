//! Side-by-side measurements against peers: `make bench`.
//!
//! Every row runs Plumbline and its peer on the same server, in random palindromic blocks, and prints ratios with
//! their anytime-valid intervals from Plumbline's own statistics. Nothing here asserts: a figure that is not reached
//! is printed as it is.

mod bare;
mod blocks;
mod capacity;
mod echo;
mod harness;
mod history;
mod http;
mod import;
mod instructions;
mod limiter;
mod link;
mod migration;
mod network;
mod nginx;
mod results;
mod shifts;
mod standstill;
mod storage;
mod tool;

use std::process::ExitCode;

/// What a bench ends with.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("http") => arguments.get(1).map_or_else(http::run, |old| http::run_against(old)),
        Some("http3") => http::run_h3(),
        Some("bare") => bare::run(&arguments[1..]),
        Some("echo") => echo::run(&arguments[1..]),
        Some("harness") => harness::run(),
        Some("migration") => migration::run(&arguments[1..]),
        Some("storage") => storage::run(arguments.get(1).map(String::as_str)),
        Some("limiter") => limiter::run(),
        Some("nbd") => limiter::run_unlimited(),
        Some("network") => network::run(arguments.get(1).map(String::as_str)),
        Some("link") => link::run(),
        Some("capacity") => capacity::run(),
        Some("capacities") => capacity::comparison::run(),
        Some("collapse") => capacity::collapse::run(),
        Some("shifts") => shifts::run(),
        Some("history") => history::run(),
        Some("import") => import::run(),
        _ => Err(
            "say which: http, http3, harness, migration, storage, limiter, nbd, network, link, capacity, capacities, collapse, shifts, history or import"
                .into(),
        ),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            say(&format!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints progress.
#[expect(clippy::print_stderr, reason = "a bench talks to its user")]
fn say(text: &str) {
    eprintln!("{text}");
}
