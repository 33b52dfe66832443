//! Tools that can drive the load: qperf, iperf3, sockperf and netperf. Each has a server, which is then the system's end.

mod abilities;
mod client;
mod series;
mod server;

use plumb_path::tool::{NotInstalled, Program};

use crate::settings::Driver;

pub(crate) use self::abilities::{check, lacks};
pub(crate) use self::client::driven_load;
pub(crate) use self::server::ToolServer;

/// Whether this host has the tool, at the load's end and at the system's.
///
/// # Errors
/// One sentence that says what to install.
pub(crate) fn feasible(driver: Driver) -> Result<(), NotInstalled> {
    program(driver).map_or(Ok(()), |program| program.find().and_then(|_| server(program).find()).map(drop))
}

fn program(driver: Driver) -> Option<Program> {
    let (version, remedy) = match driver {
        Driver::Native => return None,
        Driver::Qperf => ("--version", "on Debian: apt install qperf"),
        Driver::Iperf3 => ("--version", "on Debian: apt install iperf3"),
        Driver::Sockperf => ("--version", "on Debian: apt install sockperf"),
        Driver::Netperf => ("-V", "on Debian, where `non-free` is among the sources: apt install netperf"),
    };
    Some(Program { name: driver.program()?, version, remedy })
}

/// The program at the system's end: the same one but for netperf.
fn server(program: Program) -> Program {
    if program.name == "netperf" { Program { name: "netserver", ..program } } else { program }
}
