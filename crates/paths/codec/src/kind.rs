//! All codecs: their names, their levels, and how each is built.

use std::ops::RangeInclusive;

use super::isal::Isal;
use super::libdeflate::Libdeflate;
use super::lz4::Lz4;
use super::none::Copy;
use super::qatzip::Qatzip;
use super::qpl::Qpl;
use super::zlib::Zlib;
use super::zstd::Zstd;
use super::{Codec, CodecError};

/// A codec by the library that does the work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodecKind {
    /// Memory travels as it is.
    #[default]
    None,
    /// zlib's format by zlib-rs.
    Zlib,
    /// zstd.
    Zstd,
    /// lz4's block format.
    Lz4,
    /// DEFLATE by libdeflate.
    Libdeflate,
    /// DEFLATE by ISA-L.
    Isal,
    /// DEFLATE by QATzip: on the device, with its software as backup.
    Qatzip,
    /// DEFLATE by QPL: on the device, on its software path where there is none.
    Qpl,
    /// DEFLATE by QPL's software path, whatever devices there are.
    QplSoftware,
    /// DEFLATE by UADK on Kunpeng's device. Only QEMU has it.
    Uadk,
}

/// A codec's name, and its default level with the range of its levels if it has any.
type Row = (&'static str, Option<(i32, RangeInclusive<i32>)>);

impl CodecKind {
    /// Every codec, whether this host has it or not.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Zlib,
        Self::Zstd,
        Self::Lz4,
        Self::Libdeflate,
        Self::Isal,
        Self::Qatzip,
        Self::Qpl,
        Self::QplSoftware,
        Self::Uadk,
    ];

    /// Defaults are those of QEMU's multifd (`multifd-zlib-level`, `multifd-zstd-level`, `multifd-qatzip-level`: 1), and
    /// the same where QEMU has none.
    fn row(self) -> Row {
        match self {
            Self::None => ("none", None),
            Self::Zlib => ("zlib", Some((1, 1..=9))),
            Self::Zstd => ("zstd", Some((1, -50..=22))),
            Self::Lz4 => ("lz4", Some((1, -50..=12))),
            Self::Libdeflate => ("libdeflate", Some((1, 1..=12))),
            Self::Isal => ("isal", Some((1, 0..=3))),
            Self::Qatzip => ("qatzip", Some((1, 1..=9))),
            Self::Qpl => ("qpl", Some((1, 1..=3))),
            Self::QplSoftware => ("qpl-software", Some((1, 1..=3))),
            Self::Uadk => ("uadk", None),
        }
    }

    /// The name that people write.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The levels that there are; `None` for a codec without levels.
    #[must_use]
    pub fn levels(self) -> Option<RangeInclusive<i32>> {
        self.row().1.map(|(_, range)| range)
    }

    /// The level of a codec for which none is given; 0 for a codec without levels.
    pub(super) fn default_level(self) -> i32 {
        self.row().1.map_or(0, |(default, _)| default)
    }

    /// Whether the codec can be built at a level.
    pub(super) fn has_level(self, level: i32) -> bool {
        let fits = self.levels().is_some_and(|levels| levels.contains(&level));
        // zstd takes 0 for its default, and a negative level of lz4 is an acceleration: 0 is neither.
        let zero = level == 0 && self != Self::Isal;
        let gap = level == 2 && matches!(self, Self::Qpl | Self::QplSoftware);
        fits && !zero && !gap
    }

    /// The levels that there are, after "has".
    pub(super) fn levels_in_words(self) -> String {
        match (self, self.levels()) {
            (Self::Qpl | Self::QplSoftware, _) => "the levels 1 and 3".to_owned(),
            (_, None) => "no levels".to_owned(),
            (Self::Isal, Some(range)) => format!("levels from {} to {}", range.start(), range.end()),
            (_, Some(range)) if *range.start() < 0 => {
                format!("levels from 1 to {}, and from -1 to {} for more speed", range.end(), range.start())
            }
            (_, Some(range)) => format!("levels from {} to {}", range.start(), range.end()),
        }
    }

    /// Whether a device is what the codec is chosen for.
    pub(super) fn wants_hardware(self) -> bool {
        matches!(self, Self::Qatzip | Self::Qpl | Self::Uadk)
    }

    /// A codec for one thread, at a level that it has, or at 0 if it has none.
    pub(super) fn build(self, level: i32) -> Result<Box<dyn Codec>, CodecError> {
        let unsigned = level.unsigned_abs();
        Ok(match self {
            Self::None => Box::new(Copy::default()),
            Self::Zlib => Box::new(Zlib::new(unsigned)),
            Self::Zstd => Box::new(Zstd::new(level)?),
            Self::Lz4 => Box::new(Lz4::new(level)),
            Self::Libdeflate => Box::new(Libdeflate::new(level)?),
            Self::Isal => Box::new(Isal::new(unsigned)?),
            Self::Qatzip => Box::new(Qatzip::new(unsigned)?),
            Self::Qpl => Box::new(Qpl::new(unsigned, false)?),
            Self::QplSoftware => Box::new(Qpl::new(unsigned, true)?),
            Self::Uadk => {
                let reason = "only QEMU has it: set `system.kind: qemu`".to_owned();
                return Err(CodecError::Setup { codec: "uadk", reason });
            }
        })
    }

    /// Whether this host has what the codec needs.
    pub(super) fn probe(self, level: i32) -> Result<(), CodecError> {
        // A session looks for devices, which the library does aloud.
        if self == Self::Qatzip { Qatzip::probe() } else { self.build(level).map(drop) }
    }
}
