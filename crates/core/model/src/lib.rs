//! The words of Plumbline as types: quantities, metrics, measurements, claims, plans, slots, verdicts, events.
//!
//! This crate knows no I/O, no clock and no file format, so that every other crate can share it and none is
//! tied to another through it. Types derive `serde` because they travel between processes; the form that they
//! take on disk is `store`'s own business.

mod capacity;
mod caution;
pub mod claim;
mod cluster_object;
pub mod contrast;
pub mod event;
mod evidence;
pub mod finding;
pub mod histogram;
mod json;
pub mod judgement;
mod log_line;
pub mod measurement;
mod merge;
pub mod metric;
pub mod name;
mod named;
mod noise;
mod notice;
mod number;
mod places;
pub mod plan;
pub mod printable;
pub mod quantity;
pub mod random;
mod relation;
pub mod run;
mod segments;
pub mod slot;
pub mod stall;
mod steady_rate;
pub mod template;
mod trust;
pub mod union;
pub mod user_change;
pub mod verdict;
mod wait;
mod when;

pub use capacity::{Objective, Search, Strain, Trial, TrialKind};
pub use caution::{Caution, Lack, WorkDifference, WorkerMeasure};
pub use claim::{Claim, Operand, Term};
pub use cluster_object::{ClusterObject, ClusterObjectKind, Endpoint, ObjectFault};
pub use contrast::{Bounded, Contrast, Shift};
pub use event::Event;
pub use evidence::{Evidence, Fact, Statement};
pub use finding::{Change, Findings, Question};
pub use histogram::Histogram;
pub use json::{Json, JsonValue};
pub use judgement::Judgement;
pub use log_line::{LOG_BYTES_MAX, LOG_LINE_BYTES_MAX, LogLevel, LogLine};
pub use measurement::{
    Attempts, Column, LoadHealth, LoadLimit, Measurement, Reading, Share, ShareTimes, Shortage, Table,
};
pub use merge::{Largest, Merge, Smallest};
pub use metric::{Better, Metric, MetricInfo, MetricKind, Statistic, metric_key};
pub use noise::Noise;
pub use notice::{Notice, NoticeKind, Range};
pub use places::{
    ArrayPlace, ArrayVolume, ClusterPlace, Host, NotHost, PlaceOf, Places, PodPlace, PodResources, PodSides,
    Readers,
};
pub use plan::{Blocks, Cell, Imported, OrderSource, Plan, PlannedVariant, RequiredSaving, Variant};
pub use printable::{is_unprintable, printable, printable_json, printable_lines};
pub use quantity::{ByteRate, Bytes, CapacityRate, Percent, Quantity, Rate, Span, Unit};
pub use random::SplitMix;
pub use relation::Relation;
pub use run::{Ending, Header, Run, Source};
pub use segments::Segments;
pub use slot::{CpuCost, FailureCause, Placement, Slot, SlotOutcome, SlotResult, failure_kind};
pub use stall::hidden_stall;
pub use steady_rate::SteadyRate;
pub use trust::{Doubt, Trust};
pub use union::UnionError;
pub use user_change::{
    ChangePlace, CommandChange, FileChange, ServiceAction, ServiceChange, SysctlChange, UserChange,
};
pub use verdict::{ClaimVerdict, Comparison, VariantState, VariantSummary, Verdict};
pub use wait::{LoadWindow, Wait};
pub use when::{rfc3339, rfc3339_us};
