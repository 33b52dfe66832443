//! From which share of its time in user mode on a thread is the limit of its flow: one rule for Plumbline's load and for tools.

/// A busy thread counts as the limit if it spends more than this share of its time in user mode: the rest is the kernel's
/// work for the message, and that is what is measured.
const OWN_SHARE_MAX: f64 = 0.25;
/// How often most kernels look in which mode a CPU is. All that they tell of user mode is from those looks.
const TICK_NS: f64 = 4e6;

/// The share of a thread's time in user mode that is more than [`OWN_SHARE_MAX`] beyond what so few looks may err by.
pub fn own_share_max(busy_ns: f64) -> f64 {
    let looks = (busy_ns / TICK_NS).max(1.0);
    OWN_SHARE_MAX + 2.0 * (OWN_SHARE_MAX * (1.0 - OWN_SHARE_MAX) / looks).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_looks_at_a_thread_do_not_make_it_the_limit() {
        // 19 looks of which 7 were in user mode, and 500 of which as large a share was.
        assert!(7.0 / 19.0 < own_share_max(75e6));
        assert!(7.0 / 19.0 > own_share_max(2e9));
        assert!(own_share_max(1e12) - OWN_SHARE_MAX < 0.002);
        assert!(own_share_max(0.0) < 1.2, "one look says nothing, and is not infinitely little");
    }
}
