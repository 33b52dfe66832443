//! A text as numbered lines, and the parts of it that are outputs or tables.

use std::rc::Rc;

use crate::audit::finding::{NotRead, Output};
use crate::audit::repetitions::repetitions;
use crate::audit::tables::{Table, read_table};
use crate::{NoReading, ReadError};

/// A mail archive may put a whole message on one line. Such a line is split where quoted patches and tables begin a line.
const LONG_LINE: usize = 400;
/// Marks that begin a line within a long line.
const LINE_STARTS: [&str; 3] = [" + ", " > +", " > "];

/// A text that is being read.
pub(crate) struct Document<'t> {
    /// Lines with their numbers. The parts of a long line share its number.
    pub(crate) lines: Vec<(usize, &'t str)>,
    /// These lines as one text.
    text: String,
    /// The index in `paths` of the headings above each line.
    path_of: Vec<usize>,
    /// Headings, the outermost first.
    paths: Vec<Vec<String>>,
}

impl<'t> Document<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let lines: Vec<(usize, &str)> = numbered
            .flat_map(|(number, line)| split(line).into_iter().map(move |part| (number, part)))
            .collect();
        let text = lines.iter().flat_map(|(_, line)| [line, "\n"]).collect();
        let mut document = Self { lines, text, path_of: Vec::new(), paths: vec![Vec::new()] };
        document.find_headings();
        document
    }

    fn find_headings(&mut self) {
        let mut path: Vec<(usize, &str)> = Vec::new();
        let mut is_fenced = false;
        for (_, line) in &self.lines {
            self.path_of.push(self.paths.len() - 1);
            is_fenced ^= is_fence(line);
            let Some((level, title)) = heading(line).filter(|_| !is_fenced) else { continue };
            path.retain(|(outer, _)| *outer < level);
            path.push((level, title));
            self.paths.push(path.iter().map(|(_, title)| (*title).to_owned()).collect());
        }
        self.path_of.push(self.paths.len() - 1);
    }

    /// The headings above a line, the outermost first.
    fn headings(&self, at: usize) -> Vec<String> {
        self.paths[self.path_of[at]].clone()
    }

    /// The headings above a line as one text.
    fn place(&self, at: usize) -> String {
        self.headings(at).join(", ")
    }

    /// The outputs of tools, and the outputs that a reader recognises but refuses. Lines of tables are skipped.
    pub(crate) fn outputs(&self, is_of_table: &[bool]) -> (Vec<Output>, Vec<NotRead>) {
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        let mut start = 0;
        let ends = (1..self.lines.len()).filter(|at| self.begins_part(*at)).chain([self.lines.len()]);
        for end in ends {
            let part = self.lines[start..end].iter().zip(&is_of_table[start..end]);
            let text: String = part
                .flat_map(|((_, line), is_of_table)| [if *is_of_table { "" } else { line }, "\n"])
                .collect();
            let text: Rc<str> = text.into();
            let first_line = self.lines.get(start).map_or(1, |(number, _)| *number);
            let runs = crate::read_at(&text, first_line).unwrap_or_else(|error| {
                if !matches!(error, ReadError::Unknown { .. }) {
                    let why = format!("the output of a tool: failed to {error}");
                    refused.push(NotRead { line: first_line, why, is_failure: true });
                }
                Vec::new()
            });
            for run in runs {
                let line = self.lines[(start + run.line - first_line).min(end.saturating_sub(1))].0;
                if let Some(failure) = &run.failure {
                    let why = match failure {
                        NoReading::Failed(reason) => {
                            format!("a run of {} without figures: {reason}", run.tool)
                        }
                        NoReading::Unread(reason) => format!("a run of {}: {reason}", run.tool),
                    };
                    refused.push(NotRead { line, why, is_failure: true });
                } else {
                    let (headings, caption) = (self.headings(start), self.caption(start));
                    found.push(Output { line, headings, caption, text: Rc::clone(&text), run });
                }
            }
            start = end;
        }
        (found, refused)
    }

    /// The line directly above a part, if it ends with a colon and is not a heading.
    fn caption(&self, start: usize) -> String {
        let above = self.lines[..start].iter().rev().map(|(_, line)| unquoted(line));
        let above = above.take(3).find(|line| !line.is_empty() && !is_fence(line));
        let caption = above.and_then(|line| line.strip_suffix(':')).filter(|line| heading(line).is_none());
        caption.unwrap_or_default().trim_matches(['*', '_', ' ']).to_owned()
    }

    /// The first line that mentions repeated measurements, with its words about them.
    pub(crate) fn repetitions(&self) -> Option<(usize, String)> {
        let mut is_fenced = false;
        self.lines.iter().find_map(|(number, line)| {
            is_fenced ^= is_fence(unquoted(line));
            let is_prose = !is_fenced && !is_row(unquoted(line));
            Some((*number, repetitions(line).filter(|_| is_prose)?))
        })
    }

    /// Whether a line ends the output above: a fence, a prompt or a heading.
    fn begins_part(&self, at: usize) -> bool {
        let line = self.lines[at].1;
        is_fence(unquoted(line))
            || line.trim_start().starts_with("$ ")
            || heading(line).is_some_and(|(level, _)| level > 1)
    }

    /// The tables of Markdown and reStructuredText, and whether each line belongs to one.
    pub(crate) fn tables(&self) -> (Vec<Table>, Vec<bool>) {
        let (mut found, mut is_of_table) = (Vec::new(), vec![false; self.lines.len()]);
        let mut at = 0;
        while at < self.lines.len() {
            let rows = self.table_at(at);
            let end = at + rows.len().max(1);
            let table = (rows.len() > 2).then(|| read_table(&rows, self.place(at), self.above(at))).flatten();
            is_of_table[at..end].fill(table.is_some());
            found.extend(table);
            at = end;
        }
        (found, is_of_table)
    }

    /// The lines of the table that begins at a line; empty if there is none.
    fn table_at(&self, at: usize) -> Vec<(usize, &'t str)> {
        let rest = || self.lines[at..].iter().map(|(number, line)| (*number, unquoted(line)));
        // If rows have no bars at both ends, only the rule below the headings shows a table.
        let has_rule = rest().nth(1).is_some_and(|(_, line)| is_open_rule(line));
        let is_open = has_rule && rest().next().is_some_and(|(_, line)| line.contains('|'));
        let is_of_table = |line: &str| {
            is_row(line)
                || is_grid_rule(line)
                || is_open && line.contains('|')
                || is_open && is_open_rule(line)
        };
        let rows: Vec<(usize, &str)> = rest().take_while(|(_, line)| is_of_table(line)).collect();
        if rows.iter().any(|(_, line)| line.contains('|') && !is_open_rule(line)) { rows } else { Vec::new() }
    }

    /// Tables in formats that are not supported.
    pub(crate) fn foreign_tables(&self) -> Vec<NotRead> {
        let has_digit = |(_, line): &(usize, &str)| line.contains(|c: char| c.is_ascii_digit());
        // The rule above the headings, not the one below them or below the figures.
        let is_top_rule = |at: usize| {
            let above = self.lines[..at].iter().rev().take_while(|(_, text)| !unquoted(text).is_empty());
            self.lines[at + 1..].iter().take(4).any(has_digit)
                && !above.into_iter().any(|line| has_digit(line) || is_simple_rule(unquoted(line.1)))
        };
        let forms = self.lines.iter().enumerate().filter_map(|(at, (line, text))| {
            let text = unquoted(text);
            let why = if text.to_lowercase().contains("<table") {
                "an HTML table: only Markdown and grid tables are read"
            } else if is_simple_rule(text) && is_top_rule(at) {
                "a simple table of reStructuredText: only Markdown and grid tables are read"
            } else {
                return None;
            };
            Some(NotRead { line: *line, why: why.to_owned(), is_failure: false })
        });
        forms.collect()
    }

    /// The text between a line and the table before it, such as a caption or a command.
    fn above(&self, at: usize) -> String {
        let lines = self.lines[..at].iter().rev().take_while(|(_, line)| !is_row(unquoted(line))).take(12);
        let mut lines: Vec<&str> =
            lines.map(|(_, line)| unquoted(line)).filter(|line| !line.is_empty()).collect();
        lines.reverse();
        lines.join("\n")
    }

    /// The whole text, with long lines split.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

fn split(line: &str) -> Vec<&str> {
    if line.len() < LONG_LINE {
        return vec![line];
    }
    let mut parts = Vec::new();
    let mut rest = line;
    loop {
        let next = LINE_STARTS.iter().filter_map(|start| rest.get(1..)?.find(start).map(|at| at + 1)).min();
        let Some(at) = next else { break };
        parts.push(&rest[..at]);
        rest = &rest[at..];
    }
    parts.push(rest);
    parts
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Level and title of a Markdown heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line[level..].trim().trim_end_matches('#').trim();
    ((1..=6).contains(&level) && line[level..].starts_with(' ') && !title.is_empty())
        .then_some((level, title))
}

/// The line without marks of quotation and of patches.
fn unquoted(line: &str) -> &str {
    line.trim_start_matches(['>', '+', ' ', '\t']).trim_end()
}

fn is_row(line: &str) -> bool {
    line.starts_with('|') && line.matches('|').count() >= 3
}

/// The `+----+----+` of a grid. `unquoted` has removed the first cross.
fn is_grid_rule(line: &str) -> bool {
    line.len() > 3 && line.contains('+') && line.chars().all(|c| "+-=".contains(c))
}

/// `---|:---:` below headings without bars at both ends.
fn is_open_rule(line: &str) -> bool {
    line.contains('-') && line.contains(['|', '+']) && line.chars().all(|c| "-:|+ ".contains(c))
}

/// `=====  ====` of a simple table.
fn is_simple_rule(line: &str) -> bool {
    let columns: Vec<&str> = line.split_whitespace().collect();
    columns.len() > 1 && columns.iter().all(|column| column.len() > 1 && column.chars().all(|c| c == '='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_of_a_mail_is_split_into_its_original_lines() {
        let line = format!("{} + |a |b | + |--|--| + |x | 1|", "w ".repeat(300));
        let document = Document::new(&line);
        let rows: Vec<&str> =
            document.lines.iter().map(|(_, line)| unquoted(line)).filter(|line| is_row(line)).collect();
        assert_eq!(rows, ["|a |b |", "|--|--|", "|x | 1|"]);
        assert!(document.lines.iter().all(|(number, _)| *number == 1));
    }

    #[test]
    fn a_place_is_the_headings_above() {
        let document = Document::new("# A\n## B\n### C\n## D\n```\n# not one\n```\ntext");
        assert_eq!(document.place(3), "A, B, C");
        assert_eq!(document.place(8), "A, D");
    }
}
