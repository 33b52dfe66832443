//! CPUs: which there are, who may use them, and how much time was spent on them.

mod affinity;
mod awake;
mod placement;
mod slice;
mod time;

pub use crate::cpu_set::{CpuSet, NotCpuList};
pub(crate) use affinity::cpus_of_parent;
pub(crate) use affinity::set_affinity;
pub use affinity::{Sides, available_cpus, pin_current_thread, sides, split_sides, with_siblings};
pub use awake::Awake;
pub(crate) use placement::LINK_THREADS;
pub use placement::Placement;
pub use slice::{run_behind, run_first, run_last, run_soon};
pub(crate) use time::ns_per_tick;
pub use time::{
    CpuTime, ThreadTime, current_thread_cpu_ns, current_thread_cpu_time, process_cpu_time, thread_cpu_times,
    thread_cpu_times_of, tree_cpu_time,
};
