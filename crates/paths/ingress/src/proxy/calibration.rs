//! From how many operations on a pass of the device takes less time than software.
//!
//! It is measured and not assumed: some CPUs do eight lanes at the price of two, and on others a pass of RSA-4096 pays
//! only when it is nearly full.

use std::sync::Arc;

use plumb_devices::{
    Device, DeviceError, DeviceKind, Group, LANES, Lane, LaneError, Operation, OperationKind, Outcome,
    Scheme, SigningKey,
};
use plumb_host::time::monotonic_ns;
use rustls::sign::Signer;

use super::batches::PaysFrom;
use super::exchange_groups::software_group;

/// How often an operation is timed. The shortest time counts: what disturbs only ever adds.
const TRIALS: u32 = 5;

/// A key with what signs in software.
pub(super) struct Pair {
    pub(super) key: Arc<SigningKey>,
    pub(super) scheme: Scheme,
    pub(super) software: Box<dyn Signer>,
}

/// Times one operation of each kind by the device and in software.
///
/// # Errors
///
/// When this machine has no device, or one of the operations fails.
pub(super) fn pays_from(pair: &Pair) -> Result<PaysFrom, DeviceError> {
    let mut device = Device::open(DeviceKind::Multibuffer)?;
    let mut pays_from = [1; OperationKind::COUNT];
    let Pair { key, scheme, software } = pair;
    let signing = [Operation::Sign { key: Arc::clone(key), scheme: *scheme, message: vec![7; 64] }];
    let pass_ns = shortest_ns(|| only(device.run(&signing)).map(drop))?;
    let single_ns = shortest_ns(|| software.sign(&[7; 64]).map(drop).map_err(refused))?;
    pays_from[key.kind().index()] = enough(pass_ns, single_ns);
    // A key is derived from where it was generated, so that only the generation is a choice, for both.
    for (group, generate) in
        [(Group::X25519, OperationKind::X25519Generate), (Group::P256, OperationKind::P256Generate)]
    {
        let pass_ns = shortest_ns(|| exchange(&mut device, group))?;
        let single_ns = shortest_ns(|| exchange_in_software(group).map_err(refused))?;
        pays_from[generate.index()] = enough(pass_ns, single_ns);
    }
    Ok(pays_from)
}

fn enough(pass_ns: u64, single_ns: u64) -> usize {
    let enough = pass_ns / single_ns.max(1) + 1;
    // A full pass is what the treatment is about; it is not to vanish because a clock was disturbed.
    usize::try_from(enough).unwrap_or(LANES).min(LANES)
}

fn exchange(device: &mut Device, group: Group) -> Result<(), DeviceError> {
    let Outcome::Key(key) = only(device.run(&[Operation::Generate(group)]))? else { return Ok(()) };
    let peer = key.public().to_vec();
    only(device.run(&[Operation::Derive { key, peer }])).map(drop)
}

fn exchange_in_software(group: Group) -> Result<(), rustls::Error> {
    let key = software_group(group).start()?;
    let peer = key.pub_key().to_vec();
    key.complete(&peer).map(drop)
}

fn shortest_ns(mut act: impl FnMut() -> Result<(), DeviceError>) -> Result<u64, DeviceError> {
    let mut shortest_ns = u64::MAX;
    for _ in 0..TRIALS {
        let begun_ns = monotonic_ns();
        act()?;
        shortest_ns = shortest_ns.min(monotonic_ns().saturating_sub(begun_ns));
    }
    Ok(shortest_ns)
}

/// The result of a batch of one.
fn only(lanes: Vec<Lane>) -> Result<Outcome, DeviceError> {
    let lane = lanes.into_iter().next().unwrap_or_else(|| Err(no_time("the device gave no result")));
    lane.map_err(|cause| DeviceError::Operation { cause })
}

fn refused(error: rustls::Error) -> DeviceError {
    DeviceError::Operation { cause: no_time(&error.to_string()) }
}

fn no_time(reason: &str) -> LaneError {
    let device = DeviceKind::SoftwareAwsLc;
    LaneError::Refused { what: "time an operation", device, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_pays_when_it_takes_less_than_its_operations_alone() {
        assert_eq!(enough(99, 100), 1);
        assert_eq!(enough(100, 100), 2);
        assert_eq!(enough(399, 100), 4);
        // Where no pass would pay, full ones are done all the same.
        assert_eq!(enough(5000, 100), LANES);
        assert_eq!(enough(5000, 0), LANES);
    }
}
