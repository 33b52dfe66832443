//! Limits of a destination: on connections that have not stated their purpose, on migrations, and on memory.
//!
//! Anyone who reaches the port may ask for anything, so every number of a request has a bound that this host sets.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::Bytes;

use super::super::error::MigrationError;
use plumb_codec::PAGE_BYTES;

/// The most migrations that may be under way.
const MIGRATIONS_MAX: usize = 16;
/// The most connections that have not stated their purpose. The channels of a source, up to 255, connect at once.
const STRANGERS_MAX: usize = 512;
/// The part of the available memory that stays unused.
const LEFT_ALONE: u64 = 16;
/// The time for which a migration waits for the memory of others that are ending. The kernel takes back some GiB a second.
const WAIT_FOR_MEMORY: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The memory taken so far.
#[derive(Debug, Default)]
pub(super) struct Room {
    taken: Mutex<Taken>,
    strangers: Mutex<(u64, VecDeque<(u64, TcpStream)>)>,
}

#[derive(Debug, Default)]
struct Taken {
    migrations: usize,
    /// Promised memory whose pages may not exist yet, so the kernel still counts it as available.
    promised_bytes: u64,
}

impl Taken {
    fn free_bytes(&self) -> Result<u64, MigrationError> {
        let available_bytes = plumb_host::memory::available_bytes()?;
        Ok((available_bytes - available_bytes / LEFT_ALONE).saturating_sub(self.promised_bytes))
    }
}

/// The room of one migration, until it is dropped.
#[derive(Debug)]
pub(super) struct Place<'r> {
    room: &'r Room,
    promised_bytes: u64,
}

/// A connection that has not stated its purpose. It is dropped once it has.
#[derive(Debug)]
pub(super) struct Stranger<'r> {
    room: &'r Room,
    number: u64,
}

impl Room {
    /// Makes room for a migration. A source begins the next migration as soon as it has released the one before, whose memory is freed only
    /// then. So if memory is short while others are under way, this waits for some seconds.
    ///
    /// # Errors
    /// When the memory is not a whole number of pages or more than this host can give, or too many migrations are under way.
    pub(super) fn take(&self, memory_bytes: u64) -> Result<Place<'_>, MigrationError> {
        if memory_bytes == 0 || !memory_bytes.is_multiple_of(PAGE_BYTES as u64) {
            return Err(refused(format!(
                "{memory_bytes} bytes of memory are not a whole number of 4 KiB pages"
            )));
        }
        let deadline_ns = monotonic_ns() + WAIT_FOR_MEMORY.as_nanos() as u64;
        loop {
            let mut taken = lock(&self.taken);
            if taken.migrations >= MIGRATIONS_MAX {
                return Err(refused(format!(
                    "{MIGRATIONS_MAX} migrations to this destination are under way already"
                )));
            }
            let free_bytes = taken.free_bytes()?;
            if memory_bytes <= free_bytes {
                taken.migrations += 1;
                taken.promised_bytes += memory_bytes;
                return Ok(Place { room: self, promised_bytes: memory_bytes });
            }
            if taken.migrations == 0 || monotonic_ns() >= deadline_ns {
                return Err(refused(format!(
                    "it has {} of memory, and this host can give {}",
                    Bytes(memory_bytes),
                    Bytes(free_bytes >> 20 << 20)
                )));
            }
            drop(taken);
            sleep(BETWEEN_LOOKS);
        }
    }

    /// Admits a connection that has not stated its purpose. If there are too many of these, the oldest is closed, because honest clients state
    /// their purpose at once.
    pub(super) fn let_in(&self, stream: &TcpStream) -> std::io::Result<Stranger<'_>> {
        let stream = stream.try_clone()?;
        let mut strangers = lock(&self.strangers);
        let (number, waiting) = &mut *strangers;
        if waiting.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = waiting.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        *number += 1;
        waiting.push_back((*number, stream));
        Ok(Stranger { room: self, number: *number })
    }
}

impl Place<'_> {
    /// Notes that all pages exist, so that the kernel counts them from now on.
    pub(super) fn is_made(&mut self) {
        lock(&self.room.taken).promised_bytes -= std::mem::take(&mut self.promised_bytes);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = lock(&self.room.taken);
        taken.migrations -= 1;
        taken.promised_bytes -= self.promised_bytes;
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        lock(&self.room.strangers).1.retain(|(number, _)| *number != self.number);
    }
}

fn refused(reason: String) -> MigrationError {
    MigrationError::Refused(reason)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_promised_and_is_not_there_yet_is_not_promised_again() {
        let room = Room::default();
        let available = plumb_host::memory::available_bytes().unwrap();
        // Other programs may take or give back some of it meanwhile.
        let most = available / 8 * 5 / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let first = room.take(most).unwrap();
        let error = room.take(most).unwrap_err().to_string();
        assert!(error.contains("and this host can give "), "{error}");
        drop(first);
        let mut again = room.take(most).unwrap();
        again.is_made();
        drop((again, room.take(most).unwrap()));
        let taken = lock(&room.taken);
        assert_eq!((taken.migrations, taken.promised_bytes), (0, 0));
    }

    #[test]
    fn a_migration_waits_for_the_memory_of_one_that_is_ending() {
        let room = Room::default();
        let half = plumb_host::memory::available_bytes().unwrap() / 2 / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let first = room.take(half).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| room.take(half).map(drop));
            sleep(Duration::from_millis(100));
            drop(first);
            second.join().unwrap().unwrap();
        });
    }

    #[test]
    fn there_is_room_for_so_many_migrations() {
        let room = Room::default();
        let places: Vec<Place<'_>> = (0..MIGRATIONS_MAX).map(|_| room.take(4096).unwrap()).collect();
        assert!(room.take(4096).unwrap_err().to_string().contains("under way already"));
        drop(places);
        assert!(room.take(4096).is_ok());
    }
}
