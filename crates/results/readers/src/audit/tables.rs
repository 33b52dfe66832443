//! Tables of figures: headings, which may span several rows, names in the first column, and cells.

use crate::audit::figures::{Content, Figure, Separators, cell};
use crate::audit::finding::NotRead;
use crate::audit::headings::{Heading, Role};

/// A table with figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// The line on which it begins.
    pub(crate) line: usize,
    /// The headings above it.
    pub(crate) place: String,
    /// The text right above it.
    pub(crate) caption: String,
    /// The heading of the first column.
    pub(crate) corner: String,
    /// The headings of the other columns.
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Row>,
    /// Rows and cells that were left out.
    pub(crate) left_out: Vec<NotRead>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) name: String,
    /// The other cells as text.
    pub(crate) texts: Vec<String>,
    /// The content of each of these texts.
    contents: Vec<Content>,
}

impl Row {
    /// The figure in a column.
    pub(crate) fn figure(&self, column: usize) -> Option<&Figure> {
        self.contents.get(column)?.figure()
    }
}

impl Table {
    /// The column whose heading has all of these words.
    pub(crate) fn column(&self, words: &[&str]) -> Option<usize> {
        self.columns.iter().position(|heading| {
            let heading = heading.text.to_lowercase();
            words.iter().all(|word| heading.contains(word))
        })
    }

    /// The value in a cell, in the heading's unit; `None` if the cell names a different unit.
    pub(crate) fn value(&self, row: usize, column: usize) -> Option<f64> {
        let figure = self.rows.get(row)?.figure(column)?;
        (figure.unit.is_none() || figure.unit == self.columns[column].unit).then_some(figure.value)
    }

    /// Whether a column has a figure.
    pub(crate) fn has_figures(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row.figure(column).is_some())
    }

    /// Whether a column has figures and its heading has the role of a result.
    pub(crate) fn is_result(&self, column: usize) -> bool {
        self.has_figures(column) && self.columns[column].role() == Role::Result
    }
}

/// Reads the rows of a table; `None` if it has no figures.
pub(crate) fn read_table(lines: &[(usize, &str)], place: String, caption: String) -> Option<Table> {
    let rows: Vec<TextRow> = lines.iter().map(|(line, text)| (*line, cells(text))).collect();
    let (head, body) = head_and_body(&rows);
    let mut headings: Vec<String> = Vec::new();
    for (_, row) in head {
        headings.resize(headings.len().max(row.len()), String::new());
        for (heading, cell) in headings.iter_mut().zip(row) {
            *heading = format!("{heading} {cell}").trim().to_owned();
        }
    }
    let mut headings = headings.into_iter();
    let corner = headings.next()?;
    let columns: Vec<Heading> = headings.map(|text| Heading::new(&text)).collect();
    let line = lines.first()?.0;
    let mut table = Table { line, place, caption, corner, columns, rows: Vec::new(), left_out: Vec::new() };
    let separators =
        Separators::seen_in(body.iter().flat_map(|(_, row)| row.iter().skip(1).map(String::as_str)));
    for (line, row) in &body {
        table.read_row(*line, row, separators);
    }
    table.list_left_out_cells();
    let has_figures = (0..table.columns.len()).any(|column| table.has_figures(column));
    (has_figures || !table.left_out.is_empty()).then_some(table)
}

impl Table {
    fn read_row(&mut self, line: usize, row: &[String], separators: Separators) {
        let Some((name, texts)) = row.split_first() else { return };
        let contents: Vec<Content> = texts.iter().map(|text| cell(text, separators)).collect();
        let has_surplus = texts.iter().skip(self.columns.len()).any(|text| !text.is_empty());
        if has_surplus && contents.iter().any(|content| content.figure().is_some()) {
            let why = format!(
                "the row `{name}` has {} cells, and the heading has {}",
                row.len(),
                self.columns.len() + 1
            );
            self.left_out.push(NotRead { line, why, is_failure: false });
            return;
        }
        let texts: Vec<String> = texts.iter().take(self.columns.len()).cloned().collect();
        self.rows.push(Row { line, name: name.clone(), texts, contents });
    }

    /// Lists the first ambiguous number and the first result that is not a single number, each with a count of the others.
    fn list_left_out_cells(&mut self) {
        let mut ambiguous: Vec<(usize, String)> = Vec::new();
        let mut not_one: Vec<(usize, String)> = Vec::new();
        let is_result = |column: usize| {
            let is_metric = self.columns[column].is_metric() && self.columns[column].role() == Role::Result;
            is_metric || self.is_result(column)
        };
        let is_result: Vec<bool> = (0..self.columns.len()).map(is_result).collect();
        for row in &self.rows {
            for (column, (text, content)) in row.texts.iter().zip(&row.contents).enumerate() {
                let place = || format!("in `{}` of `{}`", self.columns[column].text, row.name);
                match content {
                    Content::Ambiguous(readings) => {
                        ambiguous.push((row.line, format!("`{text}` could be {readings}, {}", place())));
                    }
                    Content::NotOne if is_result[column] => {
                        not_one.push((row.line, format!("`{text}` is not a single number, {}", place())));
                    }
                    Content::NotOne | Content::Figure(_) | Content::Text => {}
                }
            }
        }
        for found in [ambiguous, not_one] {
            let more = match found.len() {
                0 | 1 => String::new(),
                2 => "; another cell has the same problem".to_owned(),
                all => format!("; {} other cells have the same problem", all - 1),
            };
            let first = found.into_iter().next();
            self.left_out.extend(first.map(|(line, why)| NotRead {
                line,
                why: why + &more,
                is_failure: false,
            }));
        }
    }
}

/// A row as text, with its line.
type TextRow = (usize, Vec<String>);

/// Splits a table at the rule below its headings, or else before the first row with figures.
fn head_and_body(rows: &[TextRow]) -> (Vec<&TextRow>, Vec<&TextRow>) {
    let skipped = rows.iter().take_while(|(_, row)| is_rule(row)).count();
    let rows = &rows[skipped..];
    let is_figure = |text: &String| matches!(cell(text, Separators::default()), Content::Figure(_));
    let begins = |(_, row): &TextRow| row.iter().skip(1).any(is_figure);
    let end = rows
        .iter()
        .position(|(_, row)| is_rule(row))
        .or_else(|| rows.iter().position(begins))
        .unwrap_or(rows.len());
    let (head, body) = rows.split_at(end);
    (without_rules(head), without_rules(body))
}

fn without_rules(rows: &[TextRow]) -> Vec<&TextRow> {
    rows.iter().filter(|(_, row)| !is_rule(row)).collect()
}

/// The cells of a line; `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().replace("\\|", "\u{0}");
    let line = line.strip_prefix('|').unwrap_or(&line);
    let line = line.strip_suffix('|').unwrap_or(line);
    // Rules of reStructuredText have crosses.
    let is_crossed = line.contains('+') && line.chars().all(|c| "+-=: ".contains(c));
    let separator = if is_crossed { '+' } else { '|' };
    line.split(separator).map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

fn is_rule(row: &[String]) -> bool {
    row.iter().all(|cell| cell.chars().all(|c| "-=:+ ".contains(c)))
        && row.iter().any(|cell| cell.contains(['-', '=']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect();
        read_table(&lines, String::new(), String::new()).unwrap()
    }

    #[test]
    fn a_heading_may_span_several_rows() {
        let found = table(
            "|-----------|--------|------|\n|8 Channels |Total   | send |\n|           |time(ms)| cpu %|\n|-----|-----|-----|\n\
             |qatzip     |   16630|   160|\n|-----|-----|-----|\n|zstd       |   20165|   810|",
        );
        assert_eq!(
            (&found.corner[..], found.columns.iter().map(|heading| &heading.text[..]).collect::<Vec<_>>()),
            ("8 Channels", vec!["Total time(ms)", "send cpu %"])
        );
        assert_eq!(found.column(&["total", "time"]), Some(0));
        assert_eq!((found.rows[1].name.as_str(), found.value(1, 1)), ("zstd", Some(810.0)));
    }

    #[test]
    fn headings_may_be_numbers_and_cells_may_hold_bars() {
        let found = table("| type | 16 bytes | 64 bytes |\n|---|---|---|\n| `a \\| b` | 12 | 13 |");
        assert_eq!((found.columns[1].text.as_str(), found.rows.len()), ("64 bytes", 1));
        assert_eq!(found.rows[0].name, "`a | b`");
    }

    #[test]
    fn a_row_with_more_cells_than_headings_is_left_out() {
        let found = table("| a | ms |\n|---|---|\n| x | 1 |\n| y | 2 | 3 |");
        assert_eq!(found.rows.len(), 1);
        let why = "the row `y` has 3 cells, and the heading has 2".to_owned();
        assert_eq!(found.left_out, [NotRead { line: 4, why, is_failure: false }]);
    }

    #[test]
    fn a_value_is_in_the_unit_of_the_heading() {
        let found = table("| a | time (ms) |\n|---|---|\n| x | 1 |\n| y | 2 ms |\n| z | 3 s |");
        assert_eq!([0, 1, 2].map(|row| found.value(row, 0)), [Some(1.0), Some(2.0), None]);
    }
}
