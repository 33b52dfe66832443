//! The rings of network cards at their longest.

use plumb_host::settings::{Machine, Ring, Setting};

use super::cards;
use crate::found::Found;

pub(crate) fn rings(machine: &Machine, argument: Option<&str>) -> Found {
    let mut found = Found::default();
    for card in cards(machine, argument, &mut found) {
        let sizes = match machine.rings(&card) {
            Ok(sizes) => sizes,
            Err(error) => {
                found.leave_out(&card, &format!("its driver has no rings of a settable length ({error})"));
                continue;
            }
        };
        for ring in [Ring::Receive, Ring::Transmit] {
            let (now, max) = sizes.length_and_max(ring);
            if max <= now {
                found.leave_out(&card, &format!("its {ring} ring has {now} packets, which is the maximum"));
                continue;
            }
            let setting = Setting::Ring { interface: card.clone(), ring };
            found.want(machine, &setting.to_string(), setting, &max.to_string());
        }
    }
    found
}
