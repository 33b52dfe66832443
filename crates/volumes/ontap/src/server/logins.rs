//! Passwords that have to be hashed: one at a time, a few of each address at a time, and slower after each failure.
//!
//! A hash takes tens of milliseconds of a CPU on purpose. So hashing has a separate worker, beside those that answer requests.
//! Guesses from one address wait for each other before they delay anybody else. The wait after a failure continues when its
//! client disconnects, so that a new connection does not avoid it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use tokio::sync::Semaphore;

/// Passwords of one address that are tried at a time.
const TRIED_MAX: usize = 4;
/// Passwords of one address that are tried or wait for it; more are refused at once.
const WAITING_MAX: usize = 32;
/// The wait after the first failure; each further one doubles it.
const DELAY: Duration = Duration::from_millis(50);
/// The longest wait, as a multiple of the first.
const DELAYS_MAX: u32 = 8;
/// How long the failures of an address count after it was last seen.
const MEMORY_NS: u64 = 60_000_000_000;
/// Addresses that are remembered before old ones are forgotten.
const ADDRESSES_MAX: usize = 1024;

/// Logins that are under way, and the failures of late.
#[derive(Debug)]
pub struct Logins {
    /// The wait after the first failure.
    delay: Duration,
    hashing: Semaphore,
    addresses: Mutex<HashMap<IpAddr, Address>>,
}

#[derive(Debug)]
struct Address {
    places: Arc<Semaphore>,
    waiting: usize,
    failures: u32,
    seen_ns: u64,
}

/// The result of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// The password is right.
    Right,
    /// It is wrong.
    Wrong,
    /// It was not checked: too many logins of this address wait already.
    TooMany,
}

impl Default for Logins {
    fn default() -> Self {
        Self { delay: DELAY, hashing: Semaphore::new(1), addresses: Mutex::default() }
    }
}

impl Logins {
    /// Tries a password of a client at `address` when it is its turn.
    pub async fn attempt(
        self: &Arc<Self>,
        address: IpAddr,
        is_right: impl FnOnce() -> bool + Send + 'static,
    ) -> Login {
        let Some(places) = self.queue(address) else { return Login::TooMany };
        let this = Arc::clone(self);
        let tried = tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            let hashing = this.hashing.acquire().await;
            let is_right = tokio::task::spawn_blocking(is_right).await.unwrap_or(false);
            drop(hashing);
            tokio::time::sleep(this.delay(address, is_right)).await;
            this.leave(address);
            is_right
        });
        if tried.await.unwrap_or(false) { Login::Right } else { Login::Wrong }
    }

    fn queue(&self, address: IpAddr) -> Option<Arc<Semaphore>> {
        let (mut addresses, now_ns) = (self.lock(), monotonic_ns());
        if addresses.len() >= ADDRESSES_MAX {
            addresses.retain(|_, known| known.waiting > 0 || now_ns < known.seen_ns + MEMORY_NS);
        }
        let known = addresses.entry(address).or_insert_with(|| Address {
            places: Arc::new(Semaphore::new(TRIED_MAX)),
            waiting: 0,
            failures: 0,
            seen_ns: now_ns,
        });
        if now_ns >= known.seen_ns + MEMORY_NS {
            known.failures = 0;
        }
        known.seen_ns = now_ns;
        if known.waiting >= WAITING_MAX {
            return None;
        }
        known.waiting += 1;
        Some(Arc::clone(&known.places))
    }

    /// How long to wait before the answer.
    fn delay(&self, address: IpAddr, is_right: bool) -> Duration {
        let mut addresses = self.lock();
        let Some(known) = addresses.get_mut(&address) else { return Duration::ZERO };
        if is_right {
            known.failures = 0;
            return Duration::ZERO;
        }
        let delay = self.delay.saturating_mul((1_u32 << known.failures.min(16)).min(DELAYS_MAX));
        known.failures = known.failures.saturating_add(1);
        delay
    }

    fn leave(&self, address: IpAddr) {
        if let Some(known) = self.lock().get_mut(&address) {
            known.waiting = known.waiting.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Address>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn address(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn failures_of_one_address_do_not_hold_up_another() {
        runtime().block_on(async {
            let logins = Logins { delay: Duration::from_millis(2), ..Logins::default() };
            let (logins, done) = (Arc::new(logins), Arc::new(AtomicUsize::new(0)));
            let guesses: Vec<_> = (0..WAITING_MAX)
                .map(|_| {
                    let (logins, done) = (Arc::clone(&logins), Arc::clone(&done));
                    tokio::spawn(async move {
                        let login = logins.attempt(address(1), || false).await;
                        done.fetch_add(1, Ordering::Relaxed);
                        login
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            assert_eq!(logins.attempt(address(1), || true).await, Login::TooMany);
            assert_eq!(logins.attempt(address(2), || true).await, Login::Right);
            assert!(done.load(Ordering::Relaxed) < WAITING_MAX, "the guesses came first");
            for guess in guesses {
                assert_eq!(guess.await.unwrap(), Login::Wrong);
            }
            assert_eq!(logins.attempt(address(1), || true).await, Login::Right);
        });
    }

    #[test]
    fn each_failure_makes_the_next_wait_longer_and_a_success_ends_that() {
        let logins = Logins::default();
        logins.queue(address(1)).unwrap();
        let delays = [false, false, false, false, false, true, false]
            .map(|is_right| logins.delay(address(1), is_right).as_millis());
        assert_eq!(delays, [50, 100, 200, 400, 400, 0, 50]);
    }

    #[test]
    fn a_client_that_leaves_still_takes_up_its_place() {
        runtime().block_on(async {
            let logins = Arc::new(Logins { delay: Duration::from_secs(3600), ..Logins::default() });
            for _ in 0..WAITING_MAX {
                let left = tokio::time::timeout(Duration::ZERO, logins.attempt(address(1), || false)).await;
                assert!(left.is_err());
            }
            assert_eq!(logins.attempt(address(1), || true).await, Login::TooMany);
        });
    }
}
