//! Series of comparable figures in a table: one metric, one dimension, and one point for each alternative or setting.
//!
//! The headings decide how a table is read. If columns are metrics, each column is a series over the rows. If
//! rows are metrics, tests or settings, each row is a series over the columns.

use plumb_model::Better;

use crate::audit::alternatives::{Apart, apart, are_sides, is_choice, is_version, is_work};
use crate::audit::figures::Figure;
use crate::audit::headings::{Heading, Role};
use crate::audit::tables::Table;
use crate::audit::units::Dimension;

/// A longer series is raw data rather than a comparison of alternatives.
const POINTS_MAX: usize = 200;

/// Figures of one metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// The metric, without its unit.
    pub(crate) what: String,
    /// The setting at which it was measured, such as `concurrency 64`; may be empty.
    pub(crate) at: String,
    pub(crate) better: Better,
    /// Whether the series is a column of the table, rather than a row.
    pub(crate) is_column: bool,
    /// The index of that column or row, from 0.
    pub(crate) index: usize,
    pub(crate) points: Vec<Point>,
}

/// A figure of a series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) line: usize,
    /// The values that tell it from the other points: the name, then other settings.
    pub(crate) factors: Vec<String>,
    pub(crate) figure: Figure,
    /// The value in the base unit of its dimension.
    pub(crate) amount: f64,
}

impl Point {
    pub(crate) fn name(&self) -> &str {
        &self.factors[0]
    }
}

/// The series of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub(crate) series: Vec<Series>,
    /// The headings of the points' factors, the heading of the names first.
    pub(crate) factors: Vec<String>,
    /// Whether something says that points are alternatives.
    pub(crate) is_choice: bool,
}

/// Reads a table as series.
///
/// # Errors
/// If nothing in it says what was measured.
pub(crate) fn layout(table: &Table) -> Result<Layout, &'static str> {
    let results: Vec<usize> = (0..table.columns.len()).filter(|at| table.is_result(*at)).collect();
    if results.is_empty() {
        return Err("no column holds a result");
    }
    let mut by_row = by_row(table, &results);
    if !by_row.series.is_empty() && rows_are_metrics(table, &results) {
        by_row.is_choice = true;
        return Ok(by_row);
    }
    let by_column = by_column(table, &results);
    if !by_row.series.is_empty() && by_row.is_choice && !by_column.is_choice {
        return Ok(by_row);
    }
    let is_understood = !by_column.series.is_empty();
    is_understood
        .then_some(by_column)
        .ok_or("no heading and no cell says what was measured, or in which unit")
}

/// Whether each row is a different metric. Row names or cells must say so, and headings must not name a metric.
fn rows_are_metrics(table: &Table, results: &[usize]) -> bool {
    let are_columns = results.iter().any(|at| table.columns[*at].is_metric());
    if are_columns || is_choice(&table.corner) {
        return false;
    }
    let is_named = table.rows.iter().any(|row| Heading::new(&row.name).is_metric());
    let is_mixed = results.iter().any(|column| {
        let dimensions: Vec<&Dimension> =
            table.rows.iter().filter_map(|row| row.figure(*column)?.dimension(None)).collect();
        dimensions.windows(2).any(|pair| pair[0] != pair[1])
    });
    is_named || is_mixed
}

/// A series for each result column.
fn by_column(table: &Table, results: &[usize]) -> Layout {
    let others: Vec<usize> = (0..table.columns.len()).filter(|at| is_factor(table, *at)).collect();
    let mut factors = vec![table.corner.clone()];
    factors.extend(others.iter().map(|at| table.columns[*at].text.clone()));
    let series: Vec<Series> =
        results.iter().filter_map(|column| of_column(table, *column, &others)).collect();
    let has_names = is_version(&table.corner) || table.rows.iter().any(|row| !is_setting(&row.name));
    let is_choice = has_names
        && !is_work(&table.corner)
        && !is_key(&table.corner)
        && (is_choice(&table.corner) || are_sides(table.rows.iter().map(|row| row.name.as_str())));
    Layout { series, factors, is_choice }
}

/// The figures of one dimension in a column; `None` if the metric is unknown.
fn of_column(table: &Table, column: usize, others: &[usize]) -> Option<Series> {
    let heading = &table.columns[column];
    let figures = || table.rows.iter().filter_map(|row| Some((row, row.figure(column)?)));
    let unit = figures().find_map(|(_, figure)| figure.unit.as_ref().or(heading.unit.as_ref()));
    if unit.is_none() && !heading.names_a_metric() {
        return None;
    }
    let dimension = unit.map(|unit| &unit.dimension);
    // A figure without a unit is not compared with figures that have one.
    let alike = figures().filter(|(_, figure)| figure.dimension(heading.unit.as_ref()) == dimension);
    let points = alike.map(|(row, figure)| {
        let settings = others.iter().map(|at| row.texts.get(*at).cloned().unwrap_or_default());
        Point {
            line: row.line,
            factors: std::iter::once(row.name.clone()).chain(settings).collect(),
            amount: figure.amount(heading.unit.as_ref()),
            figure: figure.clone(),
        }
    });
    Some(Series {
        what: heading.what().to_owned(),
        at: String::new(),
        better: heading.better(unit),
        is_column: true,
        index: column,
        points: points.collect(),
    })
}

/// Whether a column tells rows apart: it has words, or a setting.
fn is_factor(table: &Table, column: usize) -> bool {
    let heading = &table.columns[column];
    let has_text = table.rows.iter().any(|row| row.texts.get(column).is_some_and(|text| !text.is_empty()));
    match heading.role() {
        Role::Key => true,
        Role::Result => has_text && !table.has_figures(column) && heading.unit.is_none(),
        Role::Aside | Role::Derived => false,
    }
}

/// Whether a heading names a setting. `8 Channels` is itself a value.
fn is_key(heading: &str) -> bool {
    !is_setting(heading) && Heading::new(heading).role() == Role::Key
}

/// Whether a name begins with a digit, and so is a setting.
fn is_setting(name: &str) -> bool {
    name.trim_start_matches(['`', '*']).starts_with(|c: char| c.is_ascii_digit())
}

/// A series for each row and dimension.
fn by_row(table: &Table, results: &[usize]) -> Layout {
    let headings = &table.columns;
    let settings: Vec<usize> = (0..headings.len()).filter(|at| is_factor(table, *at)).collect();
    let has_metric = |at: &usize| headings[*at].names_a_metric() || headings[*at].name.is_empty();
    let columns: Vec<usize> = results.iter().copied().filter(|at| !has_metric(at)).collect();
    let mut series = Vec::new();
    for (index, row) in table.rows.iter().enumerate() {
        let own = Heading::new(&row.name);
        if own.is_metric() && own.role() != Role::Result {
            continue;
        }
        let mut at: Vec<String> = settings
            .iter()
            .map(|column| {
                format!("{} {}", headings[*column].text, row.texts.get(*column).map_or("", String::as_str))
            })
            .collect();
        if !own.is_metric() && columns.iter().any(|at| headings[*at].unit.is_some()) {
            at.insert(0, format!("{} {}", table.corner, row.name).trim().to_owned());
        }
        series.extend(of_row(table, index, &columns, &own, &at.join(", ")));
    }
    let names = columns.iter().map(|at| headings[*at].name.as_str());
    let is_known =
        is_work(&table.corner) || is_key(&table.corner) || table.rows.iter().all(|row| is_setting(&row.name));
    let is_choice = columns.len() > 1 && (is_known || are_sides(names));
    Layout { series, factors: vec![String::new()], is_choice }
}

/// Groups the figures of a row by their dimension.
fn of_row(table: &Table, index: usize, columns: &[usize], own: &Heading, setting: &str) -> Vec<Series> {
    let (row, headings) = (&table.rows[index], &table.columns);
    let unit = |at: usize| headings[at].unit.as_ref().or(own.unit.as_ref());
    let mut figures: Vec<(usize, &Figure)> =
        columns.iter().filter_map(|column| Some((*column, row.figure(*column)?))).collect();
    let mut series = Vec::new();
    while let Some((first, figure)) = figures.first().copied() {
        let dimension = figure.dimension(unit(first));
        let (alike, others): (Vec<_>, Vec<_>) =
            figures.into_iter().partition(|(at, figure)| figure.dimension(unit(*at)) == dimension);
        figures = others;
        if dimension.is_none() && !own.names_a_metric() {
            continue;
        }
        let is_by_heading = !own.is_metric() && headings[first].unit.is_some();
        let what = if is_by_heading { &headings[first].unit_text } else { own.what() };
        let point = |(at, figure): (usize, &Figure)| Point {
            line: row.line,
            factors: vec![headings[at].name.clone()],
            amount: figure.amount(unit(at)),
            figure: figure.clone(),
        };
        series.push(Series {
            what: what.to_owned(),
            at: setting.to_owned(),
            better: own.better(figure.unit.as_ref().or(unit(first))),
            is_column: false,
            index,
            points: alike.into_iter().map(point).collect(),
        });
    }
    series
}

impl Layout {
    /// The series that are short enough to be comparisons.
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.points.len() <= POINTS_MAX)
    }

    /// Why two points cannot be compared; `None` if they differ in one name.
    pub(crate) fn apart(&self, one: &Point, other: &Point) -> Option<Apart> {
        let differing: Vec<usize> =
            (0..one.factors.len()).filter(|at| one.factors[*at] != other.factors[*at]).collect();
        match differing[..] {
            [] => Some(Apart::Same),
            [0] => apart(one.name(), other.name(), &self.factors[0]),
            [_] => Some(Apart::Number),
            _ => Some(Apart::Work),
        }
    }
}
