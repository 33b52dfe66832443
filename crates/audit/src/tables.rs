//! Tables of figures as they are drawn: headings over several rows, names in the first column, and cells.

use crate::figures::{Content, Figure, Separators, cell};
use crate::headings::{Heading, Role};

/// A table with figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// The line at which it begins.
    pub(crate) line: usize,
    /// The headings above it.
    pub(crate) place: String,
    /// The text right above it.
    pub(crate) caption: String,
    /// What the first column is headed.
    pub(crate) corner: String,
    /// What the other columns are headed.
    pub(crate) columns: Vec<String>,
    /// Each row's name and figures.
    pub(crate) rows: Vec<Row>,
    /// Rows and cells that were left out, each with its line and the reason.
    pub(crate) left_out: Vec<(usize, String)>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) name: String,
    /// What the other cells say.
    pub(crate) texts: Vec<String>,
    /// Those of them that are one number.
    pub(crate) cells: Vec<Option<Figure>>,
}

impl Table {
    /// The column whose heading has all of these words.
    pub(crate) fn column(&self, words: &[&str]) -> Option<usize> {
        self.columns.iter().position(|heading| {
            let heading = heading.to_lowercase();
            words.iter().all(|word| heading.contains(word))
        })
    }

    /// The figure of a row in a column, in the unit of the heading; `None` where the cell has a unit of its own.
    pub(crate) fn value(&self, row: usize, column: usize) -> Option<f64> {
        let figure = self.rows.get(row)?.cells.get(column)?.as_ref()?;
        let heading = Heading::new(&self.columns[column]).unit;
        (figure.unit.is_none() || figure.unit == heading).then_some(figure.value)
    }

    /// Whether a column has a figure.
    pub(crate) fn has_figures(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.cells.get(column), Some(Some(_))))
    }

    /// The figures of a column whose heading has the part of a result.
    pub(crate) fn is_result(&self, column: usize) -> bool {
        self.has_figures(column) && Heading::new(&self.columns[column]).role() == Role::Result
    }
}

/// Reads the rows of a table; `None` where it holds no figures.
pub(crate) fn read_table(lines: &[(usize, &str)], place: String, caption: String) -> Option<Table> {
    let rows: Vec<(usize, Vec<String>)> = lines.iter().map(|(line, text)| (*line, cells(text))).collect();
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
    let columns: Vec<String> = headings.collect();
    let line = lines.first()?.0;
    let mut table = Table { line, place, caption, corner, columns, rows: Vec::new(), left_out: Vec::new() };
    let separators = Separators::of(body.iter().flat_map(|(_, row)| row.iter().skip(1).map(String::as_str)));
    for (line, row) in &body {
        table.read_row(*line, row, separators);
    }
    table.read_left_out(separators);
    let has_figures = (0..table.columns.len()).any(|column| table.has_figures(column));
    (has_figures || !table.left_out.is_empty()).then_some(table)
}

impl Table {
    fn read_row(&mut self, line: usize, row: &[String], separators: Separators) {
        let Some((name, texts)) = row.split_first() else { return };
        let has_figures = || texts.iter().any(|text| matches!(cell(text, separators), Content::Figure(_)));
        let has_surplus = texts.iter().skip(self.columns.len()).any(|text| !text.is_empty());
        if has_surplus && has_figures() {
            let why = format!(
                "the row `{name}` has {} cells, and the heading has {}",
                row.len(),
                self.columns.len() + 1
            );
            self.left_out.push((line, why));
            return;
        }
        let texts: Vec<String> = texts.iter().take(self.columns.len()).cloned().collect();
        let figure = |text: &String| match cell(text, separators) {
            Content::Figure(figure) => Some(figure),
            Content::Ambiguous(_) | Content::NotOne | Content::Text => None,
        };
        let cells = texts.iter().map(figure).collect();
        self.rows.push(Row { line, name: name.clone(), texts, cells });
    }

    /// Says which cells were left out, each reason once: numbers with two readings, and results that are not one number.
    fn read_left_out(&mut self, separators: Separators) {
        let mut ambiguous: Vec<(usize, String)> = Vec::new();
        let mut not_one: Vec<(usize, String)> = Vec::new();
        let is_result: Vec<bool> = (0..self.columns.len()).map(|column| self.is_result(column)).collect();
        for row in &self.rows {
            for (column, text) in row.texts.iter().enumerate() {
                let place = format!("in `{}` of `{}`", self.columns[column], row.name);
                match cell(text, separators) {
                    Content::Ambiguous(why) => ambiguous.push((row.line, format!("{why}, {place}"))),
                    Content::NotOne if is_result[column] => {
                        not_one.push((row.line, format!("`{text}` is not one number, {place}")));
                    }
                    Content::NotOne | Content::Figure(_) | Content::Text => {}
                }
            }
        }
        for found in [ambiguous, not_one] {
            let more = match found.len() {
                0 | 1 => String::new(),
                2 => "; the same is true of another cell".to_owned(),
                all => format!("; the same is true of {} other cells", all - 1),
            };
            self.left_out.extend(found.into_iter().next().map(|(line, why)| (line, why + &more)));
        }
    }
}

type Rows<'r> = Vec<&'r (usize, Vec<String>)>;

/// The rows above the rule below the headings, and the others. Without such a rule the headings end where figures begin.
fn head_and_body(rows: &[(usize, Vec<String>)]) -> (Rows<'_>, Rows<'_>) {
    let skipped = rows.iter().take_while(|(_, row)| is_rule(row)).count();
    let rows = &rows[skipped..];
    let is_figure = |text: &String| matches!(cell(text, Separators::default()), Content::Figure(_));
    let begins = |(_, row): &(usize, Vec<String>)| row.iter().skip(1).any(is_figure);
    let end = rows
        .iter()
        .position(|(_, row)| is_rule(row))
        .or_else(|| rows.iter().position(begins))
        .unwrap_or(rows.len());
    let without_rules = |rows: &'_ [(usize, Vec<String>)]| -> Vec<usize> {
        (0..rows.len()).filter(|at| !is_rule(&rows[*at].1)).collect()
    };
    let body = &rows[end..];
    let head = without_rules(&rows[..end]).into_iter().map(|at| &rows[at]).collect();
    (head, without_rules(body).into_iter().map(|at| &body[at]).collect())
}

/// The cells of a line; `\|` is a bar within one.
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
    fn headings_over_several_rows_belong_together() {
        let found = table(
            "|-----------|--------|------|\n|8 Channels |Total   | send |\n|           |time(ms)| cpu %|\n|-----|-----|-----|\n\
             |qatzip     |   16630|   160|\n|-----|-----|-----|\n|zstd       |   20165|   810|",
        );
        assert_eq!(
            (&found.corner[..], &found.columns[..]),
            ("8 Channels", &["Total time(ms)".to_owned(), "send cpu %".to_owned()][..])
        );
        assert_eq!(found.column(&["total", "time"]), Some(0));
        assert_eq!((found.rows[1].name.as_str(), found.value(1, 1)), ("zstd", Some(810.0)));
    }

    #[test]
    fn headings_may_be_numbers_and_cells_may_hold_bars() {
        let found = table("| type | 16 bytes | 64 bytes |\n|---|---|---|\n| `a \\| b` | 12 | 13 |");
        assert_eq!((found.columns[1].as_str(), found.rows.len()), ("64 bytes", 1));
        assert_eq!(found.rows[0].name, "`a | b`");
    }

    #[test]
    fn a_row_with_more_cells_than_headings_is_left_out() {
        let found = table("| a | ms |\n|---|---|\n| x | 1 |\n| y | 2 | 3 |");
        assert_eq!(found.rows.len(), 1);
        assert_eq!(found.left_out, [(4, "the row `y` has 3 cells, and the heading has 2".to_owned())]);
    }
}
