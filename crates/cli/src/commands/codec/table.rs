//! The codecs' results on one set of data, as a table for a terminal and as one JSON object, `plumbline.codec/1`.
//!
//! The report knows codecs by their names only. Speeds are medians over the rounds, and the best beside them in JSON,
//! since the libraries' own benchmarks show the best. MB are 10^6 bytes, GiB are 2^30.

use plumb_model::Unit;
use plumb_report::sheet::{Sheet, Tone};
use plumb_report::{TextStyle, figures};
use schemars::JsonSchema;
use serde::Serialize;

/// The name and version of the format.
pub const CODEC_FORMAT: &str = "plumbline.codec/1";

/// Everything that one measurement of codecs found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "plumbline.codec/1", deny_unknown_fields)]
pub struct CodecTable {
    /// Always `plumbline.codec/1`.
    #[schemars(extend("const" = CODEC_FORMAT))]
    pub format: &'static str,
    /// The program with its version.
    pub program: String,
    /// The CPU as its maker calls it, where the machine says so.
    pub cpu: Option<String>,
    /// Where the data is from.
    pub data: String,
    /// The size of the data.
    pub data_bytes: u64,
    /// The size of the units of a migration.
    pub unit_bytes: u64,
    /// How often each codec had its turn.
    pub rounds: usize,
    /// The results, in the order in which they are to be shown.
    pub rows: Vec<CodecRow>,
    /// The codecs that this host does not have.
    pub missing: Vec<CodecMissing>,
    /// Sentences about what cannot be trusted.
    pub warnings: Vec<String>,
}

/// In what pieces data was compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CodecForm {
    /// Units of a migration, each for itself.
    Unit,
    /// All at once.
    Whole,
}

/// One codec in one form.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CodecRow {
    /// The codec with its level, as it is written.
    pub codec: String,
    /// In what pieces.
    pub form: CodecForm,
    /// The size of everything compressed.
    pub compressed_bytes: u64,
    /// The data's size over that.
    pub ratio: f64,
    /// Compression.
    pub compress: CodecSpeed,
    /// Restoration; what was restored was compared with the data in every round.
    pub decompress: CodecSpeed,
    /// Frames that a device did.
    pub hardware_frames: u64,
    /// Frames that the CPU did.
    pub software_frames: u64,
}

/// One direction of a codec, on one thread.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CodecSpeed {
    /// Data per second in MB/s, the median of the rounds.
    pub mb_per_s: f64,
    /// Data per second in MB/s in the best round.
    pub best_mb_per_s: f64,
    /// CPU time in seconds for each GiB of data, the median of the rounds.
    pub cpu_s_per_gib: f64,
}

/// A codec that this host does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CodecMissing {
    /// The codec.
    pub codec: String,
    /// The missing part, and how to install it.
    pub reason: String,
}

/// The table for a terminal, with a line feed at its end.
pub fn codec_text(table: &CodecTable, style: &TextStyle) -> String {
    let mut sheet = Sheet::new(style);
    sheet.line(&headline(table));
    for form in [CodecForm::Unit, CodecForm::Whole] {
        let rows: Vec<Vec<String>> =
            table.rows.iter().filter(|row| row.form == form).map(|row| cells(row).to_vec()).collect();
        if !rows.is_empty() {
            sheet.title(&title(table, form));
            sheet.columns(0, &HEADS, &rows);
        }
    }
    sheet.block();
    table
        .missing
        .iter()
        .for_each(|missing| sheet.text(Tone::Quiet, &format!("not here: {}", missing.reason)));
    table.warnings.iter().for_each(|warning| sheet.text(Tone::Doubt, &format!("warning: {warning}")));
    sheet.finish()
}

fn headline(table: &CodecTable) -> String {
    format!(
        "{} · {} · {} · one thread · {} in turn, everything restored and compared",
        table.program,
        table.data,
        figures::value(table.data_bytes as f64, Unit::Bytes),
        figures::plural(table.rounds, "round"),
    )
}

fn title(table: &CodecTable, form: CodecForm) -> String {
    match form {
        CodecForm::Unit => format!("In units of {} KiB, as a migration sends them", table.unit_bytes / 1024),
        CodecForm::Whole => "As a whole".to_owned(),
    }
}

const HEADS: [&str; 7] = ["codec", "ratio", "compress", "CPU s/GiB", "restore", "CPU s/GiB", "done by"];

fn cells(row: &CodecRow) -> [String; 7] {
    let speed = |speed: &CodecSpeed| figures::value(speed.mb_per_s * 1e6, Unit::BytesPerSecond);
    let cpu = |speed: &CodecSpeed| figures::digits(speed.cpu_s_per_gib);
    [
        row.codec.clone(),
        format!("{:.3}", row.ratio),
        speed(&row.compress),
        cpu(&row.compress),
        speed(&row.decompress),
        cpu(&row.decompress),
        done_by(row),
    ]
}

fn done_by(row: &CodecRow) -> String {
    match (row.hardware_frames, row.software_frames) {
        (0, _) => "CPU".to_owned(),
        (_, 0) => "device".to_owned(),
        (hardware, software) => {
            format!("device {}", figures::share(hardware as f64 / (hardware + software) as f64))
        }
    }
}

#[cfg(test)]
mod tests {
    use plumb_report::pretty;

    use super::*;

    fn row(codec: &str, form: CodecForm, compressed_bytes: u64, frames: (u64, u64)) -> CodecRow {
        let speed = |mb_per_s: f64| CodecSpeed {
            mb_per_s,
            best_mb_per_s: mb_per_s * 1.1,
            cpu_s_per_gib: 1_073.741_824 / mb_per_s,
        };
        CodecRow {
            codec: codec.to_owned(),
            form,
            compressed_bytes,
            ratio: 211_938_580.0 / compressed_bytes as f64,
            compress: speed(512.3),
            decompress: speed(1_702.0),
            hardware_frames: frames.0,
            software_frames: frames.1,
        }
    }

    fn table() -> CodecTable {
        CodecTable {
            format: CODEC_FORMAT,
            program: "plumb 0.1.0".to_owned(),
            cpu: Some("a CPU".to_owned()),
            data: "sile\u{1b}sia.tar".to_owned(),
            data_bytes: 211_938_580,
            unit_bytes: 524_288,
            rounds: 3,
            rows: vec![
                row("zstd:1", CodecForm::Unit, 73_800_000, (0, 2430)),
                row("qatzip:1", CodecForm::Unit, 75_000_000, (2300, 130)),
                row("qpl:1", CodecForm::Unit, 95_000_000, (2430, 0)),
                row("zstd:1", CodecForm::Whole, 73_200_000, (0, 6)),
            ],
            missing: vec![CodecMissing {
                codec: "isal:1".to_owned(),
                reason: "codec isal:1: failed to load libisal.so.2: no such file; install `libisal2`"
                    .to_owned(),
            }],
            warnings: vec!["qatzip:1 did 130 of 2,430 frames in software".to_owned()],
        }
    }

    #[test]
    fn a_table_for_a_terminal() {
        insta::assert_snapshot!(codec_text(&table(), &TextStyle::default()));
    }

    #[test]
    fn a_table_for_programs() {
        insta::assert_snapshot!(pretty(&CodecTable { rows: vec![table().rows[1].clone()], ..table() }));
    }

    #[test]
    fn colours_mark_titles_and_warnings_and_change_no_word() {
        let plain = codec_text(&table(), &TextStyle::default());
        let coloured = codec_text(&table(), &TextStyle { colour: true, ..TextStyle::default() });
        let mut stripped = coloured.clone();
        for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[33m"] {
            stripped = stripped.replace(code, "");
        }
        assert_ne!(coloured, plain);
        assert_eq!(stripped, plain);
    }
}
