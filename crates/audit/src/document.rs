//! A text as lines with their numbers, and the parts of it that hold output or tables.

use crate::finding::Output;
use crate::tables::{Table, read_table};

/// A mail archive may put a whole message on one line. Such a line is split where quoted patches and tables begin a line.
const LONG_LINE: usize = 400;
/// What begins a line within one.
const LINE_STARTS: [&str; 3] = [" + ", " > +", " > "];

/// A text that is being read.
pub(crate) struct Document<'t> {
    /// Lines with their numbers; several have the same number where a long line was split.
    pub(crate) lines: Vec<(usize, &'t str)>,
}

impl<'t> Document<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let lines =
            numbered.flat_map(|(number, line)| split(line).into_iter().map(move |part| (number, part)));
        Self { lines: lines.collect() }
    }

    /// The headings above a line, the outermost first.
    pub(crate) fn place(&self, at: usize) -> String {
        let mut path: Vec<(usize, &str)> = Vec::new();
        let mut is_fenced = false;
        for (_, line) in &self.lines[..at] {
            is_fenced ^= is_fence(line);
            let Some((level, title)) = heading(line).filter(|_| !is_fenced) else { continue };
            path.retain(|(outer, _)| *outer < level);
            path.push((level, title));
        }
        path.iter().map(|(_, title)| *title).collect::<Vec<_>>().join(", ")
    }

    /// The outputs of tools.
    pub(crate) fn outputs(&self) -> Vec<Output> {
        let mut found = Vec::new();
        let mut start = 0;
        for at in 0..=self.lines.len() {
            let is_end = at == self.lines.len() || self.begins_part(at);
            if !is_end {
                continue;
            }
            let text: String = self.lines[start..at].iter().flat_map(|(_, line)| [line, "\n"]).collect();
            for run in plumb_tools::read(&text).unwrap_or_default() {
                let (line, place) = (self.lines[start].0, self.place(start));
                found.push(Output { line, place, run });
            }
            start = at;
        }
        found
    }

    /// Whether something other than the output above begins here: a fence, a prompt, a heading.
    fn begins_part(&self, at: usize) -> bool {
        let line = self.lines[at].1;
        is_fence(line)
            || line.trim_start().starts_with("$ ")
            || heading(line).is_some_and(|(level, _)| level > 1)
    }

    /// The tables, as Markdown and reStructuredText draw them.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.lines.len() {
            let rows: Vec<&str> = self.lines[at..]
                .iter()
                .map(|(_, line)| unquoted(line))
                .take_while(|line| is_row(line))
                .collect();
            if rows.len() > 2 {
                found.extend(read_table(&rows, self.lines[at].0, self.place(at), self.above(at)));
            }
            at += rows.len().max(1);
        }
        found
    }

    /// The text between the table or heading before a line and that line, where a caption or a command stands.
    fn above(&self, at: usize) -> String {
        let is_other = |line: &str| is_row(unquoted(line)) && !unquoted(line).is_empty();
        let lines = self.lines[..at].iter().rev().take_while(|(_, line)| !is_other(line)).take(12);
        let mut lines: Vec<&str> =
            lines.map(|(_, line)| unquoted(line)).filter(|line| !line.is_empty()).collect();
        lines.reverse();
        lines.join("\n")
    }

    /// The whole text, of which long lines are split.
    pub(crate) fn text(&self) -> String {
        self.lines.iter().flat_map(|(_, line)| [line, "\n"]).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_of_a_mail_is_split_into_the_lines_that_it_was() {
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
