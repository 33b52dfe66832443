//! `plumb schema`: the JSON Schemas of what people write and of what other programs read.

use crate::args::{SchemaArguments, SchemaOf};
use crate::exit::{HOLDS, Outcome};
use crate::{data_paths, output};

/// Prints a schema.
pub fn schema(arguments: &SchemaArguments) -> Outcome {
    let text = match arguments.of {
        SchemaOf::Experiment => plumb_report::pretty(&plumb_runner::file::schema(&data_paths::all())),
        SchemaOf::Run => plumb_report::json_schema(),
        SchemaOf::Audit => super::audit::audit_json_schema(),
        SchemaOf::Compare => plumb_report::contrast_json_schema(),
        SchemaOf::Host => super::host::json_schema(),
        SchemaOf::History => super::history::list_json_schema(),
        SchemaOf::HistoryRun => super::history::run_json_schema(),
        SchemaOf::Trend => super::history::trend_json_schema(),
        SchemaOf::Codec => super::codec::codec_json_schema(),
        SchemaOf::Crypto => super::crypto::crypto_json_schema(),
        SchemaOf::Measurement => plumb_report::measurement_json_schema(),
    };
    output::result(&text)?;
    Ok(HOLDS)
}
