//! The share of user time above which a thread is the limit of its flow: one rule for Plumbline's load and for tools.

/// A busy thread counts as the limit if it spends more than this share of its time in user mode: the rest is the kernel's
/// work for the message, and that is what is measured.
const OWN_SHARE_MAX: f64 = 0.25;
/// The time between two samples of a CPU's mode in most kernels, which know user time from these samples alone.
const TICK_NS: f64 = 4e6;

/// [`OWN_SHARE_MAX`] and twice the standard error of a share that comes from the samples of `busy_ns`.
pub fn own_share_max(busy_ns: f64) -> f64 {
    let samples = (busy_ns / TICK_NS).max(1.0);
    OWN_SHARE_MAX + 2.0 * (OWN_SHARE_MAX * (1.0 - OWN_SHARE_MAX) / samples).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_of_a_thread_do_not_make_it_the_limit() {
        // 7 of 19 samples were in user mode, and the same share of 500.
        assert!(7.0 / 19.0 < own_share_max(75e6));
        assert!(7.0 / 19.0 > own_share_max(2e9));
        assert!(own_share_max(1e12) - OWN_SHARE_MAX < 0.002);
        assert!(own_share_max(0.0) < 1.2, "no time counts as one sample");
    }
}
