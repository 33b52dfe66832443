//! `plumb schema`: the JSON Schemas of what people write and of what other programs read.

use crate::args::{SchemaArguments, SchemaOf};
use crate::exit::{HOLDS, Outcome};
use crate::{data_paths, output};

/// Prints a schema.
pub fn schema(arguments: &SchemaArguments) -> Outcome {
    let text = match arguments.of {
        SchemaOf::Experiment => plumb_report::pretty(&plumb_experiment::schema(&data_paths::all())),
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
