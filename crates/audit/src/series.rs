//! Series of like figures in a table: one metric, one dimension, one point for each alternative or setting.
//!
//! Which way a table is to be read follows from its headings. Where columns are metrics, each column is a series over the rows. Where
//! rows are metrics, tests or settings, each row is a series over the columns.

use plumb_model::Better;

use crate::alternatives::{Apart, apart, are_sides, is_choice, is_version, is_work};
use crate::figures::Figure;
use crate::headings::{Heading, Role};
use crate::tables::Table;
use crate::units::Dimension;

/// A longer series is data, and no comparison of alternatives.
const POINTS_MAX: usize = 200;

/// Figures of one metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    /// What was measured, without its unit.
    pub(crate) what: String,
    /// The setting at which it was measured, such as `concurrency 64`, or nothing.
    pub(crate) at: String,
    pub(crate) better: Better,
    /// Whether its points lie in a column of the table.
    pub(crate) is_column: bool,
    /// The column or the row that it is, from 0.
    pub(crate) index: usize,
    pub(crate) points: Vec<Point>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) line: usize,
    /// What tells it from the other points: the name, and other settings.
    pub(crate) factors: Vec<String>,
    pub(crate) figure: Figure,
    /// In the base of its dimension.
    pub(crate) amount: f64,
}

impl Point {
    pub(crate) fn name(&self) -> &str {
        &self.factors[0]
    }
}

/// A table as it was understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub(crate) series: Vec<Series>,
    /// The headings of the factors of a point; the first is that of the names.
    pub(crate) factors: Vec<String>,
    /// Whether something says that points are alternatives.
    pub(crate) is_choice: bool,
}

/// How a table is to be read.
///
/// # Errors
/// When nothing in it says what was measured.
pub(crate) fn layout(table: &Table) -> Result<Layout, &'static str> {
    let headings: Vec<Heading> = table.columns.iter().map(|text| Heading::new(text)).collect();
    let results: Vec<usize> = (0..headings.len()).filter(|at| table.is_result(*at)).collect();
    if results.is_empty() {
        return Err("no column holds a result");
    }
    let mut by_row = by_row(table, &headings, &results);
    if !by_row.series.is_empty() && rows_are_metrics(table, &headings, &results) {
        by_row.is_choice = true;
        return Ok(by_row);
    }
    let by_column = by_column(table, &headings, &results);
    if !by_row.series.is_empty() && by_row.is_choice && !by_column.is_choice {
        return Ok(by_row);
    }
    let is_understood = !by_column.series.is_empty();
    is_understood
        .then_some(by_column)
        .ok_or("no heading and no cell says what was measured, or in which unit")
}

/// Whether each row has a metric of its own: its name or its cells say so, and the headings do not.
fn rows_are_metrics(table: &Table, headings: &[Heading], results: &[usize]) -> bool {
    let are_columns = results.iter().any(|at| headings[*at].unit.is_some() || headings[*at].names_a_metric());
    if are_columns || is_choice(&table.corner) {
        return false;
    }
    let is_named = table.rows.iter().any(|row| {
        let heading = Heading::new(&row.name);
        heading.unit.is_some() || heading.names_a_metric()
    });
    let is_mixed = results.iter().any(|column| {
        let dimensions: Vec<&Dimension> =
            table.rows.iter().filter_map(|row| row.cells.get(*column)?.as_ref()?.dimension(None)).collect();
        dimensions.windows(2).any(|pair| pair[0] != pair[1])
    });
    is_named || is_mixed
}

/// A series for each result column.
fn by_column(table: &Table, headings: &[Heading], results: &[usize]) -> Layout {
    let others: Vec<usize> = (0..headings.len()).filter(|at| is_factor(table, headings, *at)).collect();
    let mut factors = vec![table.corner.clone()];
    factors.extend(others.iter().map(|at| table.columns[*at].clone()));
    let series: Vec<Series> = results
        .iter()
        .filter_map(|column| {
            let heading = &headings[*column];
            let figures: Vec<(usize, Figure)> = table
                .rows
                .iter()
                .enumerate()
                .filter_map(|(row, cells)| Some((row, cells.cells.get(*column)?.clone()?)))
                .collect();
            let (better, figures) = alike(heading, figures)?;
            let point = |(row, figure): (usize, Figure)| {
                let cells = &table.rows[row];
                let mut factors = vec![cells.name.clone()];
                factors.extend(others.iter().map(|at| cells.texts.get(*at).cloned().unwrap_or_default()));
                let amount = figure.amount(heading.unit.as_ref());
                Point { line: cells.line, factors, figure, amount }
            };
            let points: Vec<Point> = figures.into_iter().map(point).collect();
            let what = heading.what().to_owned();
            Some(Series { what, at: String::new(), better, is_column: true, index: *column, points })
        })
        .collect();
    let has_names = is_version(&table.corner) || table.rows.iter().any(|row| !is_setting(&row.name));
    let is_choice = has_names
        && !is_work(&table.corner)
        && !is_key(&table.corner)
        && (is_choice(&table.corner) || are_sides(table.rows.iter().map(|row| row.name.as_str())));
    Layout { series, factors, is_choice }
}

/// A column that tells rows apart: it has words, or a setting.
fn is_factor(table: &Table, headings: &[Heading], column: usize) -> bool {
    let has_text = table.rows.iter().any(|row| row.texts.get(column).is_some_and(|text| !text.is_empty()));
    match headings[column].role() {
        Role::Key => true,
        Role::Result => has_text && !table.has_figures(column) && headings[column].unit.is_none(),
        Role::Aside | Role::Derived => false,
    }
}

/// The figures of one dimension, and the direction; `None` where neither is known.
fn alike<T>(heading: &Heading, figures: Vec<(T, Figure)>) -> Option<(Better, Vec<(T, Figure)>)> {
    let unit = heading.unit.as_ref();
    let first = figures.iter().find_map(|(_, figure)| figure.dimension(unit)).cloned();
    let first_unit = figures.iter().find_map(|(_, figure)| figure.unit.clone().or_else(|| unit.cloned()));
    if first.is_none() && !heading.names_a_metric() {
        return None;
    }
    // Without a unit, a figure beside others with one may be of any.
    let alike = figures.into_iter().filter(|(_, figure)| figure.dimension(unit) == first.as_ref()).collect();
    Some((heading.better(first_unit.as_ref()), alike))
}

/// A heading of settings; `8 Channels` is a setting itself.
fn is_key(heading: &str) -> bool {
    !is_setting(heading) && Heading::new(heading).role() == Role::Key
}

/// A name that is a number, so a setting.
fn is_setting(name: &str) -> bool {
    name.trim_start_matches(['`', '*']).starts_with(|c: char| c.is_ascii_digit())
}

/// A series for each row over the columns of one dimension.
fn by_row(table: &Table, headings: &[Heading], results: &[usize]) -> Layout {
    let settings: Vec<usize> = (0..headings.len()).filter(|at| is_factor(table, headings, *at)).collect();
    let has_metric = |at: &usize| headings[*at].names_a_metric() || headings[*at].name.is_empty();
    let columns: Vec<usize> = results.iter().copied().filter(|at| !has_metric(at)).collect();
    let mut series = Vec::new();
    for (index, row) in table.rows.iter().enumerate() {
        let own = Heading::new(&row.name);
        let is_metric = own.unit.is_some() || own.names_a_metric();
        if is_metric && own.role() != Role::Result {
            continue;
        }
        let mut at: Vec<String> = settings
            .iter()
            .map(|column| {
                format!("{} {}", table.columns[*column], row.texts.get(*column).map_or("", String::as_str))
            })
            .collect();
        if !is_metric && columns.iter().any(|at| headings[*at].unit.is_some()) {
            at.insert(0, format!("{} {}", table.corner, row.name).trim().to_owned());
        }
        let known = columns.iter().filter_map(|column| Some((*column, row.cells.get(*column)?.clone()?)));
        series.extend(of_row(known.collect(), headings, &own).into_iter().map(|found| Series {
            at: at.join(", "),
            index,
            points: found.points.into_iter().map(|point| Point { line: row.line, ..point }).collect(),
            ..found
        }));
    }
    let names = columns.iter().map(|at| headings[*at].name.as_str());
    let is_known =
        is_work(&table.corner) || is_key(&table.corner) || table.rows.iter().all(|row| is_setting(&row.name));
    let is_choice = columns.len() > 1 && (is_known || are_sides(names));
    Layout { series, factors: vec![String::new()], is_choice }
}

/// Groups the figures of a row by their dimension.
fn of_row(mut figures: Vec<(usize, Figure)>, headings: &[Heading], own: &Heading) -> Vec<Series> {
    let mut series = Vec::new();
    while let Some((first, figure)) = figures.first().cloned() {
        let unit = |at: usize| headings[at].unit.as_ref().or(own.unit.as_ref());
        let dimension = figure.dimension(unit(first)).cloned();
        let (alike, others): (Vec<_>, Vec<_>) =
            figures.into_iter().partition(|(at, figure)| figure.dimension(unit(*at)) == dimension.as_ref());
        figures = others;
        if dimension.is_none() && !own.names_a_metric() {
            continue;
        }
        let better = own.better(figure.unit.as_ref().or(unit(first)));
        let is_by_heading = own.unit.is_none() && !own.names_a_metric() && headings[first].unit.is_some();
        let what = if is_by_heading { &headings[first].unit_text } else { own.what() };
        let points: Vec<Point> = alike
            .into_iter()
            .map(|(at, figure)| {
                let amount = figure.amount(unit(at));
                Point { line: 0, factors: vec![headings[at].name.clone()], figure, amount }
            })
            .collect();
        series.push(Series {
            what: what.to_owned(),
            at: String::new(),
            better,
            is_column: false,
            index: 0,
            points,
        });
    }
    series
}

impl Layout {
    /// Series that are short enough to be a comparison.
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.points.len() <= POINTS_MAX)
    }

    /// Why two points cannot be held against each other; `None` where they differ in one name.
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
