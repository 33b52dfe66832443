//! Names in snapshots of a volume.

/// Operations let through.
pub const OPERATIONS: &str = "operations";
/// Bytes let through.
pub const BYTES: &str = "bytes";
/// Time for which the limit on operations was the binding one.
pub const BOUND_BY_IOPS_NS: &str = "bound_by_iops_ns";
/// Time for which the limit on bytes was the binding one.
pub const BOUND_BY_BYTES_NS: &str = "bound_by_bytes_ns";
/// When the snapshot was taken.
pub const AT_NS: &str = "at_ns";
/// The limit in effect; absent where there is none.
pub const LIMIT_IOPS: &str = "limit_iops";
/// The limit in effect; absent where there is none.
pub const LIMIT_BYTES_PER_S: &str = "limit_bytes_per_s";
/// The bytes of the volume that take space.
pub const USED_BYTES: &str = "used_bytes";
