//! The `system` and `load` of a `migration` experiment as types.

use std::fmt;

use plumb_model::{ByteRate, Bytes, Percent, Span};
use plumb_path::link::LinkShape;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use plumb_codec::content::ContentSettings;
use plumb_codec::{CodecKind, CodecSettings};

/// The settings of a `migration` experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MigrationSettings {
    /// The memory that moves, and how it moves.
    pub system: SystemSettings,
    /// How long to measure, and when to give up.
    pub load: LoadSettings,
}

/// Which program moves the memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SystemKind {
    /// Plumbline's own stream engine.
    #[default]
    Plumb,
    /// QEMU's multifd, between two QEMU processes.
    Qemu,
}

/// Whether pages of zeros are found and sent as a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZeroPages {
    /// They are found by each channel's thread and sent as a mark (QEMU: `multifd`).
    #[default]
    Detect,
    /// They are sent like all others (QEMU: `none`).
    Send,
}

/// Whether the connections of a migration are encrypted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tls {
    /// Plain TCP.
    #[default]
    Off,
    /// TLS 1.3 on every connection. A destination with it takes no others.
    On,
}

/// A bandwidth cap over all channels together, in bytes on the wire: `1 GB/s`, `10 Gbit/s`, or `none`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cap(pub Option<ByteRate>);

impl std::str::FromStr for Cap {
    type Err = plumb_model::quantity::QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "none" {
            Ok(Self(None))
        } else {
            ByteRate::parse(text).map(|rate| Self(Some(rate)))
        }
    }
}

impl fmt::Display for Cap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rate) => rate.fmt(formatter),
            None => formatter.write_str("none"),
        }
    }
}

impl Serialize for Cap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Cap {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Cap".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "a data rate over all channels together, in bytes on the wire, or `none`",
            "examples": ["1 GB/s", "10 Gbit/s", "none"]
        })
    }
}

/// In which order the writer dirties pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One after the other, from the first to the last and again.
    Sequential,
    /// Any page, all equally often.
    #[default]
    Uniform,
    /// Nine writes of ten go to a hot tenth of the pages.
    HotSet,
}

/// The guest's writes while it is moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DirtySettings {
    /// How much memory the guest writes to per second, such as `100 MB/s`; `0 B/s` for an idle guest.
    pub rate: ByteRate,
    /// The order in which the guest writes.
    pub pattern: Pattern,
}

impl Default for DirtySettings {
    fn default() -> Self {
        Self { rate: ByteRate(0.0), pattern: Pattern::default() }
    }
}

/// The memory that moves, and how it moves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSettings {
    /// Which program moves the memory.
    pub kind: SystemKind,
    /// QEMU's program, a path or a name, where it is not the one that this machine's architecture names.
    pub program: Option<String>,
    /// The guest's memory, a multiple of 4 KiB, such as `1 GiB`.
    pub memory: Bytes,
    /// The contents.
    pub content: ContentSettings,
    /// Connections, each with a thread on both sides.
    pub channels: u32,
    /// The codec, with its level.
    #[schemars(description = about_codecs())]
    pub codec: CodecSettings,
    /// A cap over all channels together in bytes on the wire, such as `1 GB/s` or `10 Gbit/s`, or `none`.
    pub cap: Cap,
    /// How long the guest may pause for the switch-over.
    pub downtime_limit: Span,
    /// Whether all connections are encrypted. A destination with `on` refuses unencrypted ones.
    pub tls: Tls,
    /// The guest's writes while it is moved.
    pub dirty: DirtySettings,
    /// Whether to detect zero pages and send only a mark for each.
    pub zero_pages: ZeroPages,
    /// A link between the two sides that is worse than the machine.
    #[serde(skip_serializing_if = "LinkShape::is_empty")]
    pub link: LinkShape,
    /// Whether the destination allocates its memory before the migration begins. Otherwise it allocates each page on arrival,
    /// which in a virtual machine can cost more than the migration.
    pub prefault: bool,
}

/// The help of the codec's key, which names every codec.
fn about_codecs() -> String {
    let names = CodecKind::ALL.map(CodecKind::name).join(", ");
    format!("The codec: {names}; only QEMU has uadk. A level follows a colon, as in `zstd:3`.")
}

impl Default for SystemSettings {
    fn default() -> Self {
        Self {
            kind: SystemKind::default(),
            program: None,
            memory: Bytes(1 << 30),
            content: ContentSettings::default(),
            channels: 2,
            codec: CodecSettings::default(),
            cap: Cap::default(),
            downtime_limit: Span(300_000_000),
            tls: Tls::default(),
            dirty: DirtySettings::default(),
            zero_pages: ZeroPages::default(),
            link: LinkShape::default(),
            prefault: true,
        }
    }
}

/// How long to measure, and when to give up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// Migrations follow one another until this is over; the one under way is measured to its end.
    pub duration: Span,
    /// Migrations before the window, which are not measured.
    pub warmup: Span,
    /// A migration that is still not done after this many rounds does not converge and is given up.
    pub max_rounds: u32,
    /// A migration that is still not done after this time does not converge and is given up.
    pub time_limit: Span,
    /// Whether each migration is followed by a plain stream of the same memory between the same two processes, as the
    /// limit of what they could move.
    pub stream_limit: bool,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            duration: Span(1_000_000_000),
            warmup: Span(0),
            max_rounds: 30,
            time_limit: Span(40_000_000_000),
            stream_limit: false,
        }
    }
}

/// The share of the pages that is hot in [`Pattern::HotSet`].
pub const HOT_PAGES: Percent = Percent(0.1);
/// The share of the writes that go there.
pub const HOT_WRITES: Percent = Percent(0.9);
