//! Instructions that a load takes for a request, counted by valgrind's callgrind. They differ by less than one in a thousand from run to
//! run, where CPU times differ by a tenth. The kernel's are not among them.

use std::fs;
use std::path::Path;

use plumb_host::cpu::CpuSet;
use plumb_host::process::which;

use crate::Outcome;
use crate::tool::Tool;

/// Flags, a URL, and the requests of a short and of a long run, whose difference leaves out start and end.
pub type Row<'a> = (&'a str, &'a str, [u32; 2]);

/// The instructions of `plumb http` for each request, with these flags; `None` if valgrind is not installed.
pub fn per_request(program: &Path, (flags, url, requests): Row<'_>, cpus: &CpuSet) -> Outcome<Option<f64>> {
    let Some(valgrind) = which("valgrind") else { return Ok(None) };
    let directory = std::env::temp_dir().join(format!("plumb-bench-instructions-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let count = |requests: u32| -> Outcome<f64> {
        let out = directory.join(requests.to_string());
        let counting = ["--tool=callgrind".to_owned(), "--separate-threads=yes".to_owned()];
        let files = [format!("--callgrind-out-file={}", out.display()), program.display().to_string()];
        let load = format!("http --json --quiet -t 1 -d 300s -n {requests} {flags} {url}");
        let load = load.split(' ').map(str::to_owned);
        let arguments = counting.into_iter().chain(files).chain(load).collect();
        let tool = Tool { name: "valgrind", program: valgrind.clone(), arguments, read: |_| None };
        let output = tool.output(cpus)?;
        busiest(&directory, requests)
            .ok_or_else(|| format!("valgrind counted nothing: {}", output.stderr).into())
    };
    let counts = requests.map(count);
    fs::remove_dir_all(&directory)?;
    let [short, long] = counts;
    Ok(Some((long? - short?) / f64::from(requests[1] - requests[0])))
}

/// The instructions of the busiest thread but the first, which writes the result.
fn busiest(directory: &Path, requests: u32) -> Option<f64> {
    let threads = (2..100)
        .map_while(|thread| fs::read_to_string(directory.join(format!("{requests}-{thread:02}"))).ok());
    let counts = threads.filter_map(|text| {
        let line =
            text.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")))?;
        line.trim().parse().ok()
    });
    counts.max_by(f64::total_cmp)
}
