//! How many of something clients may have at a time, of one address and of all together. Each costs the server a thread.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use super::held::held;

/// Why no more are admitted. Completes "failed to …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("take {count} more {what}{}: it has {has}, of at most {max}", from.map(|it| format!(" from {it}")).unwrap_or_default())]
pub struct Crowded {
    count: u64,
    what: &'static str,
    /// The address that has them; all addresses together if absent.
    from: Option<IpAddr>,
    has: u64,
    max: u64,
}

/// A counted resource, and its limit.
#[derive(Debug)]
pub struct Admission {
    what: &'static str,
    of_all_max: u64,
    of_one_max: u64,
    counts: Mutex<BTreeMap<IpAddr, u64>>,
}

impl Admission {
    /// At most `of_one_max` of one address, and `of_all_max` of all.
    #[must_use]
    pub fn new(what: &'static str, of_one_max: u64, of_all_max: u64) -> Arc<Self> {
        Arc::new(Self { what, of_all_max, of_one_max, counts: Mutex::default() })
    }

    /// Admits `count` more of an address, as long as the result lives.
    ///
    /// # Errors
    /// When there are too many.
    pub fn admit(self: &Arc<Self>, address: IpAddr, count: u64) -> Result<Admitted, Crowded> {
        let address = address.to_canonical();
        let mut counts = held(&self.counts);
        let of_one = counts.get(&address).copied().unwrap_or(0);
        let of_all: u64 = counts.values().sum();
        let what = self.what;
        if of_one + count > self.of_one_max {
            return Err(Crowded { count, what, from: Some(address), has: of_one, max: self.of_one_max });
        }
        if of_all + count > self.of_all_max {
            return Err(Crowded { count, what, from: None, has: of_all, max: self.of_all_max });
        }
        *counts.entry(address).or_default() += count;
        Ok(Admitted { admission: Arc::clone(self), address, count })
    }
}

/// An admitted amount, which is given back when this value is dropped.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    address: IpAddr,
    count: u64,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = held(&self.admission.counts);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= self.count;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_and_all_together_have_so_many_until_they_give_them_back() {
        let admission = Admission::new("flows", 3, 4);
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let first = admission.admit(one, 2).unwrap();
        let refused = admission.admit(one, 2).unwrap_err().to_string();
        assert_eq!(refused, "take 2 more flows from 192.0.2.1: it has 2, of at most 3");
        let _second = admission.admit(other, 2).unwrap();
        assert_eq!(
            admission.admit(other, 1).unwrap_err().to_string(),
            "take 1 more flows: it has 4, of at most 4"
        );
        drop(first);
        assert!(admission.admit("::ffff:192.0.2.2".parse().unwrap(), 2).is_err(), "the same in IPv6's words");
        let third = admission.admit(one, 2).unwrap();
        drop(third);
        assert_eq!(held(&admission.counts).len(), 1);
    }
}
