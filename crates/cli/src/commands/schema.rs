//! `plumb schema`: the JSON Schemas of what people write and of what other programs read.

use plumb_report::pretty;
use schemars::schema_for;

use crate::args::{SchemaArguments, SchemaOf};
use crate::exit::{HOLDS, Outcome};
use crate::{data_paths, output};

/// Prints a schema.
pub fn schema(arguments: &SchemaArguments) -> Outcome {
    let text = match arguments.of {
        SchemaOf::Experiment => pretty(&plumb_experiment::schema(&data_paths::all())),
        SchemaOf::Run => pretty(&schema_for!(plumb_report::RunDocument)),
        SchemaOf::Audit => pretty(&schema_for!(super::audit::AuditDocument)),
        SchemaOf::Compare => pretty(&schema_for!(plumb_report::CompareDocument)),
        SchemaOf::Host => pretty(&schema_for!(super::host::Document)),
        SchemaOf::History => pretty(&schema_for!(super::history::ListDocument)),
        SchemaOf::HistoryRun => pretty(&schema_for!(super::history::RunDocument)),
        SchemaOf::Trend => pretty(&schema_for!(super::history::TrendDocument)),
        SchemaOf::Codec => pretty(&schema_for!(super::codec::CodecTable)),
        SchemaOf::Crypto => pretty(&schema_for!(super::crypto::CryptoDocument)),
        SchemaOf::Measurement => pretty(&schema_for!(plumb_report::MeasurementDocument)),
    };
    output::result(&text)?;
    Ok(HOLDS)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::in_process::plumb;

    #[test]
    fn schemas_are_fresh() {
        for of in SchemaOf::value_variants() {
            let value = of.to_possible_value().unwrap();
            let of = value.get_name();
            let file = match of {
                "experiment" => "experiment.v1alpha1.schema.json".to_owned(),
                of => format!("plumbline.{of}.v1.schema.json"),
            };
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/").to_owned() + &file;
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                plumb(&["schema", of]).out.trim_end() == written.trim_end(),
                "{file} is stale; write it anew with: plumb schema {of} > schemas/{file}"
            );
        }
    }
}
