//! Slots as Parquet: the table of the CSV with types, and the meaning of its columns in the file's metadata.
//!
//! Every column may have gaps. A time is a timestamp in milliseconds, UTC. Parquet's own schema cannot hold
//! units, so the file's metadata holds them as JSON under `plumbline.columns`. Pages are not compressed: a
//! run has a few hundred rows, and a codec would cost every build of `plumb` more than it saves.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use plumb_model::{Run, rfc3339};
use serde_json::{Map, Value, json};

use crate::error::ExportError;
use crate::slots::{SlotColumn, SlotTable, Values, table};

/// The key under which the file's metadata explains the columns.
const COLUMNS_KEY: &str = "plumbline.columns";

/// All slots of some runs as the bytes of a Parquet file.
///
/// # Errors
/// When two runs have a metric in different units, or the writer fails.
pub fn slots_parquet(runs: &[&Run]) -> Result<Vec<u8>, ExportError> {
    let table = table(runs)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by("plumbline".to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(COLUMNS_KEY.to_owned(), meanings(&table))]));
    let schema = schema(&table)?;
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))?;
    if table.rows > 0 {
        let mut group = writer.next_row_group()?;
        for column in &table.columns {
            let mut out = group.next_column()?.ok_or_else(|| missing(&column.name))?;
            write(&column.values, &mut out)?;
            out.close()?;
        }
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

fn missing(name: &str) -> ParquetError {
    ParquetError::General(format!("the writer has no column `{name}`"))
}

/// Every column's unit, direction and meaning, as JSON.
fn meanings(table: &SlotTable) -> String {
    let meaning = |column: &SlotColumn| {
        let mut fields = Map::new();
        fields.extend(column.unit.map(|unit| ("unit".to_owned(), json!(unit.symbol()))));
        fields.extend(column.better.map(|it| ("better".to_owned(), json!(it.word()))));
        fields.insert("about".to_owned(), json!(column.about));
        (column.name.clone(), Value::Object(fields))
    };
    Value::Object(table.columns.iter().map(meaning).collect()).to_string()
}

fn schema(table: &SlotTable) -> Result<Type, ParquetError> {
    let fields = table.columns.iter().map(|column| {
        let (physical, logical) = match column.values {
            Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Stamp(_) => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
            Values::Integer(_) => (PhysicalType::INT64, None),
            Values::Number(_) => (PhysicalType::DOUBLE, None),
            Values::Flag(_) => (PhysicalType::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(&column.name, physical);
        let field = field.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
        field.build().map(Arc::new)
    });
    Type::group_type_builder("slots").with_fields(fields.collect::<Result<_, _>>()?).build()
}

fn write(values: &Values, out: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
    match values {
        Values::Text(values) => {
            write_typed::<ByteArrayType, _>(out, values, |it| Some(ByteArray::from(it.as_str())))
        }
        Values::Stamp(values) => write_typed::<Int64Type, _>(out, values, |it| unix_ms(it)),
        Values::Integer(values) => write_typed::<Int64Type, _>(out, values, |it| Some(*it)),
        Values::Number(values) => write_typed::<DoubleType, _>(out, values, |it| Some(*it)),
        Values::Flag(values) => write_typed::<BoolType, _>(out, values, |it| Some(*it)),
    }
}

/// Writes the values that are present, with a definition level for each row: 1 if it has a value, 0 if it has
/// none.
fn write_typed<T: DataType, V>(
    out: &mut SerializedColumnWriter<'_>,
    values: &[Option<V>],
    convert: impl Fn(&V) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = values.iter().map(|it| it.as_ref().and_then(&convert)).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let known: Vec<T::T> = values.into_iter().flatten().collect();
    out.typed::<T>().write_batch(&known, Some(&levels), None).map(|_| ())
}

fn unix_ms(text: &str) -> Option<i64> {
    rfc3339(text).map(|seconds| (seconds * 1e3).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::collections::BTreeMap;
    use std::io::Write;

    fn reader(bytes: &[u8]) -> SerializedFileReader<std::fs::File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    fn rows(reader: &SerializedFileReader<std::fs::File>) -> Vec<BTreeMap<String, Field>> {
        let rows = reader.get_row_iter(None).unwrap();
        let fields = |row: parquet::record::Row| row.into_columns().into_iter().collect();
        rows.map(|row| fields(row.unwrap())).collect()
    }

    #[test]
    fn every_value_of_the_table_is_read_back() {
        let (run, _) = fixture::run();
        let table = table(&[&run]).unwrap();
        let reader = reader(&slots_parquet(&[&run]).unwrap());
        let rows = rows(&reader);
        assert_eq!(rows.len(), table.rows);
        for column in &table.columns {
            let read = |row: usize| rows[row][&column.name].clone();
            for row in 0..table.rows {
                let expected = match &column.values {
                    Values::Text(values) => values[row].clone().map(Field::Str),
                    Values::Stamp(values) => {
                        values[row].as_deref().and_then(unix_ms).map(Field::TimestampMillis)
                    }
                    Values::Integer(values) => values[row].map(Field::Long),
                    Values::Number(values) => values[row].map(Field::Double),
                    Values::Flag(values) => values[row].map(Field::Bool),
                };
                assert_eq!(read(row), expected.unwrap_or(Field::Null), "{} of slot {row}", column.name);
            }
        }
        assert_eq!(rows[0]["started_at"], Field::TimestampMillis(1_772_366_403_250));
    }

    #[test]
    fn the_file_says_what_its_columns_mean() {
        let (run, _) = fixture::run();
        let reader = reader(&slots_parquet(&[&run]).unwrap());
        let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let columns =
            metadata.iter().find(|it| it.key == COLUMNS_KEY).and_then(|it| it.value.as_ref()).unwrap();
        let columns: Value = serde_json::from_str(columns).unwrap();
        assert_eq!(columns["http_req_duration.p95"]["unit"], "ms");
        assert_eq!(columns["http_req_duration.p95"]["better"], "lower");
        assert_eq!(columns["variant"], json!({ "about": "the variant that was measured" }));
    }

    #[test]
    fn the_same_run_gives_the_same_bytes_and_one_without_slots_gives_a_file() {
        let (run, _) = fixture::run();
        assert_eq!(slots_parquet(&[&run]).unwrap(), slots_parquet(&[&run]).unwrap());
        let none = Run { slots: Vec::new(), ..run };
        let reader = reader(&slots_parquet(&[&none]).unwrap());
        assert_eq!(rows(&reader).len(), 0);
        assert!(reader.metadata().file_metadata().schema().get_fields().len() > 20);
    }
}
