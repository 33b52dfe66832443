//! Slots as CSV (RFC 4180, but with line feeds), and the meaning of the columns.

use plumb_model::{Better, Run};

use crate::error::ExportError;
use crate::slots::{SlotTable, Values, table};

/// All slots of some runs: a header, and a line for each slot. A missing value is an empty field.
///
/// # Errors
/// When two runs have a metric in different units, or the writer fails.
pub fn slots_csv(runs: &[&Run]) -> Result<String, ExportError> {
    let SlotTable { columns, rows } = table(runs)?;
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| &column.name))?;
    for row in 0..rows {
        writer.write_record(columns.iter().map(|column| field(&column.values, row)))?;
    }
    text(writer)
}

/// The meaning of the columns of CSV and Parquet: a line for each column, with its unit, the direction that
/// is an improvement, and a sentence.
///
/// # Errors
/// As [`slots_csv`].
pub fn columns_csv(runs: &[&Run]) -> Result<String, ExportError> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(["column", "unit", "better", "about"])?;
    for column in table(runs)?.columns {
        let unit = column.unit.map_or("", plumb_model::Unit::symbol);
        let better = column.better.map_or("", Better::word);
        writer.write_record([column.name.as_str(), unit, better, &column.about])?;
    }
    text(writer)
}

fn text(writer: ::csv::Writer<Vec<u8>>) -> Result<String, ExportError> {
    let bytes = writer.into_inner().map_err(|error| ::csv::Error::from(error.into_error()))?;
    Ok(String::from_utf8(bytes).expect("every field is text, and so are the separators"))
}

fn field(values: &Values, row: usize) -> String {
    let field = match values {
        Values::Text(values) | Values::Stamp(values) => values[row].clone().map(harmless),
        Values::Integer(values) => values[row].map(|value| value.to_string()),
        Values::Number(values) => values[row].map(|value| value.to_string()),
        Values::Flag(values) => values[row].map(|value| value.to_string()),
    };
    field.unwrap_or_default()
}

/// Puts an apostrophe before a text that a spreadsheet would run as a formula (OWASP, "CSV Injection").
fn harmless(text: String) -> String {
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use plumb_model::SlotOutcome;
    use proptest::prelude::*;

    #[test]
    fn a_small_run_as_csv() {
        let (run, _) = fixture::run();
        insta::assert_snapshot!(slots_csv(&[&run]).unwrap());
    }

    #[test]
    fn the_columns_of_a_small_run() {
        let (run, _) = fixture::run();
        insta::assert_snapshot!(columns_csv(&[&run]).unwrap());
    }

    #[test]
    fn a_run_without_slots_has_a_header() {
        let (run, _) = fixture::run();
        let none = Run { slots: Vec::new(), ..run };
        let csv = slots_csv(&[&none]).unwrap();
        assert!(csv.starts_with("run,run_started_at,") && csv.lines().count() == 1, "{csv}");
    }

    #[test]
    fn a_formula_gets_an_apostrophe() {
        for text in ["=1+2", "+1", "-1", "@sum(1)"] {
            assert_eq!(harmless(text.to_owned()), format!("'{text}"));
        }
        assert_eq!(harmless("a=1".to_owned()), "a=1");
    }

    proptest! {
        #[test]
        fn any_reason_is_one_field_of_one_line(reason in "[=+@-]?\\PC{0,20}[,\"\r\n\t']{0,4}\\PC{0,20}") {
            let (mut run, _) = fixture::run();
            run.slots[2].outcome = SlotOutcome::Failed { reason: reason.clone(), cause: Default::default() };
            let text = slots_csv(&[&run]).unwrap();
            prop_assert_eq!(text.lines().count(), 6);
            let mut reader = ::csv::Reader::from_reader(text.as_bytes());
            let at = reader.headers().unwrap().iter().position(|name| name == "failure_reason").unwrap();
            let records: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
            let shown = harmless(plumb_model::printable(&reason).into_owned());
            prop_assert_eq!(&records[2][at], shown);
        }

        #[test]
        fn any_number_is_read_back_as_it_was(number in proptest::num::f64::NORMAL) {
            let (mut run, _) = fixture::run();
            let SlotOutcome::Measured(result) = &mut run.slots[0].outcome else { panic!("it failed") };
            result.measurement.readings.insert("cpu_system".to_owned(), plumb_model::Reading::Gauge(number));
            let text = slots_csv(&[&run]).unwrap();
            let mut reader = ::csv::Reader::from_reader(text.as_bytes());
            let at = reader.headers().unwrap().iter().position(|name| name == "cpu_system").unwrap();
            let record = reader.records().next().unwrap().unwrap();
            prop_assert_eq!(record[at].parse::<f64>().unwrap(), number);
        }
    }
}
