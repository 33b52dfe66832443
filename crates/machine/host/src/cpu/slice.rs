//! How soon a thread runs once it wakes up, against how long it may run then.
//!
//! Since Linux 6.12 an ordinary thread may ask for a shorter slice of time than others get (`sched_setattr(2)`, the field
//! `sched_runtime`). It gets no more of the CPU by that, but gets it earlier. Older kernels ignore the wish.

/// `struct sched_attr` in its first version (`include/uapi/linux/sched/types.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The shortest slice that the kernel gives.
const SLICE_NS: u64 = 100_000;

/// Has this thread run soon after it wakes up. Returns whether the kernel took the wish.
pub fn run_soon() -> bool {
    let size = u32::try_from(size_of::<Attributes>()).unwrap_or(0);
    let mut attributes = Attributes { size, ..Attributes::default() };
    // SAFETY: the kernel fills the structure, whose size it is told; 0 is this thread.
    let found = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if found != 0 || attributes.policy != libc::SCHED_OTHER.cast_unsigned() {
        return false;
    }
    attributes.size = size;
    attributes.runtime_ns = SLICE_NS;
    // SAFETY: the kernel only reads the structure; 0 is this thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// Has this thread run before every ordinary one, whenever it is due (`SCHED_FIFO`). Returns whether this process may.
pub fn run_first() -> bool {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel only reads the structure; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0 }
}

/// Has this thread run after the other real-time threads of its process: one priority lower, where it has a real-time policy and
/// is not at the lowest. Returns whether that changed anything.
///
/// Real-time threads of one priority do not take turns (`sched(7)`): one that never sleeps would keep the others off its CPU.
pub fn run_behind() -> bool {
    let mut priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: it takes no pointers; 0 is this thread.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel fills the structure; 0 is this thread.
    let is_known = unsafe { libc::sched_getparam(0, &raw mut priority) } == 0;
    if !is_known || !matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR) || priority.sched_priority < 2 {
        return false;
    }
    priority.sched_priority -= 1;
    // SAFETY: the kernel only reads the structure; 0 is this thread.
    unsafe { libc::sched_setparam(0, &raw const priority) == 0 }
}

/// Has this thread run only where nobody else would (`SCHED_IDLE`). Returns whether the kernel took the wish.
pub fn run_last() -> bool {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel only reads the structure; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const priority) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_may_ask_and_keeps_its_policy() {
        assert_eq!(size_of::<Attributes>(), 48);
        std::thread::spawn(|| {
            let is_ordinary = || {
                // SAFETY: it takes no pointers; 0 is this thread.
                unsafe { libc::sched_getscheduler(0) == libc::SCHED_OTHER }
            };
            assert!(!is_ordinary() || run_soon());
            assert!(is_ordinary());
            assert!(run_first() != is_ordinary());
            assert!(run_last() && !is_ordinary());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_real_time_thread_steps_behind_the_others_and_an_ordinary_one_stays() {
        std::thread::spawn(|| {
            let priority = || {
                let mut found = libc::sched_param { sched_priority: 0 };
                // SAFETY: the kernel fills the structure; 0 is this thread.
                assert_eq!(unsafe { libc::sched_getparam(0, &raw mut found) }, 0);
                found.sched_priority
            };
            assert!(!run_behind());
            let three = libc::sched_param { sched_priority: 3 };
            // SAFETY: the kernel only reads the structure; 0 is this thread.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const three) } == 0 {
                assert!(run_behind() && priority() == 2);
                assert!(run_behind() && priority() == 1);
                assert!(!run_behind() && priority() == 1);
            } else {
                assert_eq!(priority(), 0, "this process may not have real-time threads");
            }
        })
        .join()
        .unwrap();
    }
}
