//! `plumb compare RUN RUN`: two run directories side by side.

use plumb_judge::contrast;
use plumb_report::{TextStyle, contrast_json, contrast_text};

use crate::args::CompareArguments;
use crate::commands::report::read;
use crate::exit::{HOLDS, Outcome, VOID};
use crate::output;

/// Prints in what two runs differ, and how their effects differ.
pub fn compare(arguments: &CompareArguments) -> Outcome {
    let (first, second) = (read(&arguments.first)?, read(&arguments.second)?);
    let found = contrast(&first, &second);
    if arguments.json {
        output::result(&contrast_json([&first, &second], &found))?;
    } else {
        let style = TextStyle { colour: output::colour_on_stdout(), width: output::width(120) };
        output::painted(&contrast_text([&first, &second], &found, &style))?;
    }
    Ok(if found.shifts.is_empty() { VOID } else { HOLDS })
}
