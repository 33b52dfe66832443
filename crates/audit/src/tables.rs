//! Tables of figures: headings over several rows, a name in the first column, numbers in the others.

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
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// As they were written, with their values.
    pub(crate) cells: Vec<Option<Figure>>,
}

/// A number as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// How many digits stand behind the point.
    pub(crate) decimals: usize,
}

impl Figure {
    /// By which share of it rounding may have moved it.
    pub(crate) fn rounding(&self) -> f64 {
        let step = 10_f64.powi(-i32::try_from(self.decimals).unwrap_or(i32::MAX));
        if self.value == 0.0 { 0.0 } else { step / 2.0 / self.value.abs() }
    }
}

impl Table {
    /// The column whose heading has all of these words.
    pub(crate) fn column(&self, words: &[&str]) -> Option<usize> {
        self.columns.iter().position(|heading| {
            let heading = heading.to_lowercase();
            words.iter().all(|word| heading.contains(word))
        })
    }

    /// The figure of a row in a column.
    pub(crate) fn value(&self, row: usize, column: usize) -> Option<f64> {
        self.rows.get(row)?.cells.get(column)?.as_ref().map(|figure| figure.value)
    }
}

/// Reads the rows of a table; `None` where it holds no figures.
pub(crate) fn read_table(lines: &[&str], line: usize, place: String, caption: String) -> Option<Table> {
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| cells(line)).collect();
    let is_figures = |row: &Vec<&str>| row.len() > 1 && row[1..].iter().any(|cell| figure(cell).is_some());
    let first = rows.iter().position(is_figures)?;
    let mut headings: Vec<String> = Vec::new();
    for row in rows[..first].iter().filter(|row| !is_rule(row)) {
        headings.resize(headings.len().max(row.len()), String::new());
        for (heading, cell) in headings.iter_mut().zip(row) {
            *heading = format!("{heading} {cell}").trim().to_owned();
        }
    }
    let body = rows[first..].iter().filter(|row| is_figures(row));
    let rows: Vec<Row> = body
        .map(|row| Row { name: row[0].to_owned(), cells: row[1..].iter().map(|cell| figure(cell)).collect() })
        .collect();
    let mut headings = headings.into_iter();
    let corner = headings.next().unwrap_or_default();
    let columns: Vec<String> = headings.collect();
    (columns.len() > 1 && rows.len() > 1).then_some(Table { line, place, caption, corner, columns, rows })
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn is_rule(row: &[&str]) -> bool {
    row.iter().all(|cell| cell.chars().all(|c| "-=:+ ".contains(c)))
}

/// A cell that is a number and nothing else but a unit.
fn figure(cell: &str) -> Option<Figure> {
    let text = cell.replace(',', "");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let value: f64 = number.parse().ok()?;
    let is_unit =
        unit.trim().chars().all(|c| c.is_alphabetic() || "/%".contains(c)) && unit.trim().len() <= 6;
    let decimals = number.split_once('.').map_or(0, |(_, behind)| behind.len());
    is_unit.then_some(Figure { value, decimals })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        let lines: Vec<&str> = text.lines().collect();
        read_table(&lines, 1, String::new(), String::new()).unwrap()
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
    fn figures_know_how_far_rounding_moved_them() {
        let rounded = |text| figure(text).map(|figure| (figure.value, figure.rounding()));
        assert_eq!(rounded("25.0"), Some((25.0, 0.05 / 25.0)));
        assert_eq!(rounded("0.05 us"), Some((0.05, 0.005 / 0.05)));
        assert_eq!(rounded("1,000"), Some((1000.0, 0.5 / 1000.0)));
        assert_eq!(rounded("HOST"), None);
        assert_eq!(rounded("3 of 4 runs failed"), None);
    }
}
