//! Published examples, and what holds for every policy.

use proptest::prelude::*;

use super::*;

const GB_BYTES: u64 = 1 << 30;

fn allocated(gb: u64) -> Size {
    Size { allocated: gb * GB_BYTES, used: 0 }
}

fn iops(policy: &Policy, size: Size) -> u64 {
    policy.limits(size).iops.map_or(0, std::num::NonZeroU64::get)
}

#[test]
fn fifty_per_gb_of_allocated_space_doubles_with_the_size() {
    let adaptive =
        Adaptive { peak_iops_allocation: Space::AllocatedSpace, ..Adaptive::new(5 * 1024, 50 * 1024) };
    let policy = Policy::Adaptive(adaptive);
    policy.check().unwrap();
    assert_eq!((iops(&policy, allocated(100)), iops(&policy, allocated(200))), (5_000, 10_000));
    assert_eq!(policy.floor_iops(allocated(100)), 500);
    assert!(!policy.is_shared());
}

/// ONTAP's own `value` policy: 128 expected and 512 peak IOPS/TB, at least 75.
#[test]
fn a_small_volume_has_the_absolute_minimum() {
    let policy = Policy::Adaptive(Adaptive { absolute_min_iops: 75, ..Adaptive::new(128, 512) });
    let small = Size { allocated: 10 * GB_BYTES, used: 10 * GB_BYTES };
    assert_eq!((policy.floor_iops(small), iops(&policy, small)), (75, 75));
    let large = Size { allocated: 4 * TB_BYTES, used: TB_BYTES };
    assert_eq!((policy.floor_iops(large), iops(&policy, large)), (512, 512));
    let full = Size { allocated: 4 * TB_BYTES, used: 4 * TB_BYTES };
    assert_eq!(iops(&policy, full), 2_048);
}

#[test]
fn used_space_moves_the_peak_and_an_empty_volume_has_what_is_expected() {
    let policy = Policy::Adaptive(Adaptive::new(1_024, 10_240));
    for (used_gb, expected) in [(0, 100), (5, 100), (10, 100), (50, 500), (100, 1_000)] {
        assert_eq!(iops(&policy, Size { used: used_gb * GB_BYTES, ..allocated(100) }), expected);
    }
    let nothing_expected = Policy::Adaptive(Adaptive::new(0, 1_024));
    assert_eq!(iops(&nothing_expected, allocated(100)), 1);
}

#[test]
fn a_block_size_limits_bytes_too() {
    let adaptive = Adaptive { block_bytes: Some(32 << 10), ..Adaptive::new(1_024, 1_024) };
    let limits = Policy::Adaptive(adaptive).limits(allocated(100));
    assert_eq!(limits.bytes_per_s.map(std::num::NonZeroU64::get), Some(100 * 32 * 1024));
}

#[test]
fn what_contradicts_itself_is_named() {
    let fixed = |fixed: Fixed| Policy::Fixed(fixed).check().unwrap_err().to_string();
    assert_eq!(fixed(Fixed::default()), "a fixed policy needs at least one minimum or maximum above 0");
    assert_eq!(
        fixed(Fixed { min_iops: Some(600), max_iops: Some(500), ..Fixed::default() }),
        "the minimum of 600 IOPS is above the maximum of 500 IOPS"
    );
    assert!(Policy::Fixed(Fixed { min_iops: Some(600), ..Fixed::default() }).check().is_ok());
    let adaptive = |adaptive: Adaptive| Policy::Adaptive(adaptive).check().unwrap_err();
    assert_eq!(adaptive(Adaptive::new(5, 0)), PolicyFault::NoPeak);
    assert_eq!(adaptive(Adaptive::new(6, 5)), PolicyFault::ExpectedOverPeak { expected: 6, peak: 5 });
    let odd = Adaptive { block_bytes: Some(5_000), ..Adaptive::new(5, 6) };
    assert_eq!(adaptive(odd), PolicyFault::BlockSize(5_000));
}

proptest! {
    #[test]
    fn a_larger_volume_never_gets_less_and_the_ceiling_is_never_below_the_floor(
        expected: u64, peak: u64, least: u64, size: u64, more: u64,
    ) {
        let adaptive = Adaptive { absolute_min_iops: least, ..Adaptive::new(expected, peak) };
        let policy = Policy::Adaptive(adaptive);
        let small = Size { allocated: size, used: size };
        let large = Size { allocated: size.saturating_add(more), used: size.saturating_add(more) };
        prop_assert!(iops(&policy, small) <= iops(&policy, large));
        prop_assert!(policy.floor_iops(small) <= iops(&policy, small));
    }

    #[test]
    fn a_policy_survives_its_written_form(min in 0..500_u64, max in 500..9_999_u64, shared: bool) {
        let fixed = Fixed { min_iops: Some(min), max_iops: Some(max), capacity_shared: shared, ..Fixed::default() };
        let policy = Policy::Fixed(fixed);
        let text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
    }
}
