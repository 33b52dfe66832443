//! A series as a chart of plain characters, which any terminal and any log shows.

use plumb_history::{Grade, GradedShift, Point};
use plumb_report::figures::digits;

/// Rows of the chart.
const HEIGHT: usize = 8;
/// A point takes at most this many columns.
const COLUMNS_EACH_MAX: usize = 3;
/// Columns of the axis' labels.
const LABEL: usize = 9;

/// The chart's lines: `*` is a point or the middle of several, `.` the least and the most of several, and below the axis `!` stands for
/// a confirmed shift, `?` for a suspected one and `a` for an accepted one.
pub fn chart(points: &[Point], shifts: &[GradedShift], width: usize) -> Vec<String> {
    let room = width.saturating_sub(LABEL + 2).max(1);
    let each = (room / points.len().max(1)).clamp(1, COLUMNS_EACH_MAX);
    let columns = room.min(points.len() * each);
    let column_of =
        |at: usize| if points.len() * each <= room { at * each } else { at * columns / points.len() };
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let Some((low, high)) = bounds(&values) else { return Vec::new() };
    let row_of = |value: f64| (((value - low) / (high - low)) * (HEIGHT - 1) as f64).round() as usize;
    let mut grid = vec![vec![' '; columns]; HEIGHT];
    let mut by_column: Vec<Vec<f64>> = vec![Vec::new(); columns];
    for (at, value) in values.iter().enumerate() {
        by_column[column_of(at)].push(*value);
    }
    for (column, mut values) in by_column.into_iter().enumerate() {
        values.sort_by(f64::total_cmp);
        for (value, sign) in
            [(values.first(), '.'), (values.last(), '.'), (values.get(values.len() / 2), '*')]
        {
            if let Some(value) = value {
                grid[row_of(*value).min(HEIGHT - 1)][column] = sign;
            }
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for (row, cells) in grid.iter().enumerate().rev() {
        let label = match row {
            0 => digits(low),
            _ if row == HEIGHT - 1 => digits(high),
            _ => String::new(),
        };
        let text: String = cells.iter().collect();
        lines.push(format!("{label:>LABEL$} |{text}").trim_end().to_owned());
    }
    lines.push(format!("{:>LABEL$} +{}", "", "-".repeat(columns)));
    let mut signs = vec![' '; columns];
    for shift in shifts.iter().filter(|shift| shift.at < points.len()) {
        signs[column_of(shift.at)] = sign(shift.grade);
    }
    if !shifts.is_empty() {
        let signs: String = signs.into_iter().collect();
        lines.push(format!("{:>LABEL$}  {}", "", signs.trim_end()));
    }
    lines
}

/// The sign of a grade.
pub fn sign(grade: Grade) -> char {
    match grade {
        Grade::Suspected => '?',
        Grade::Confirmed => '!',
        Grade::Accepted => 'a',
    }
}

/// The least and the most, apart from each other.
fn bounds(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    let middle = f64::midpoint(low, high);
    let least = (middle.abs() * 0.01).max(f64::MIN_POSITIVE);
    Some(if high - low < least { (middle - least, middle + least) } else { (low, high) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: impl IntoIterator<Item = f64>) -> Vec<Point> {
        let point = |value| Point {
            run: String::new(),
            started_at_us: 0,
            revision: None,
            value,
            low: None,
            high: None,
            n: 1,
        };
        values.into_iter().map(point).collect()
    }

    fn shift(at: usize, grade: Grade) -> GradedShift {
        GradedShift {
            grade,
            at,
            run: String::new(),
            from_level: 1.0,
            to_level: 2.0,
            ratio: 2.0,
            worse: None,
            undone: false,
            seen_at: None,
            note: String::new(),
            author: String::new(),
        }
    }

    #[test]
    fn a_chart_shows_points_and_shifts() {
        let few = points([1.0, 1.02, 1.01, 1.3, 1.31, 1.29]);
        insta::assert_snapshot!(chart(&few, &[shift(3, Grade::Confirmed)], 60).join("\n"), @r"
        1.31 |         *  *  *
             |
             |
             |
             |
             |
             |
        1.00 |*  *  *
             +------------------
                       !
        ");
        let many = points((0..300).map(|at| if at < 200 { 100.0 } else { 130.0 } + f64::from(at % 7)));
        let shifts = [shift(100, Grade::Suspected), shift(200, Grade::Accepted)];
        insta::assert_snapshot!(chart(&many, &shifts, 50).join("\n"), @r"
        136 |                          ***.......**.
            |                          ...*******..*
            |
            |
            |
            |
            |**************************
        100 |..........................
            +---------------------------------------
                          ?            a
        ");
    }

    #[test]
    fn any_series_has_a_chart() {
        assert!(chart(&[], &[], 80).is_empty());
        for values in [vec![0.0], vec![5.0; 40], vec![-1.0, 1e300], vec![1e-300, 2e-300]] {
            let lines = chart(&points(values.clone()), &[], 40);
            assert!(lines.iter().any(|line| line.contains('*')), "{values:?}: {lines:?}");
        }
    }
}
