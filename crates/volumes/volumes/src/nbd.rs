//! The server side of NBD: fixed newstyle handshake, structured replies, several connections to one volume.
//!
//! Source of every number and rule: the protocol document of the NBD project, `doc/proto.md`
//! (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>).
//!
//! Some event loops, each on a thread with its share of the connections, read requests, do reads and writes on the
//! page cache at once, and leave what waits for a disk (flush, FUA, trim, zeroes, and what a read does not find in memory)
//! to a few worker threads. A read that was fetched is then done as one that was found, so that data takes one way and
//! no thread but the loop's needs memory for it; a page that is gone again by then is waited for. Nothing in a
//! connection grows with what its client sends: there are two buffers of a fixed size, given back while they are empty,
//! and a client that does not read its replies is not read from. There are fewer places for connections than descriptors,
//! an address has a share of them, and a client that does not choose a volume in time loses its place.

mod address;
mod buffer;
mod connection;
mod event_loop;
mod handshake;
mod mailbox;
mod options;
mod places;
mod server;
mod transmission;
mod wire;
mod work;
mod workers;

#[cfg(test)]
mod tests;

pub use address::{Address, NotAddress, remove_socket};
pub use server::{Server, ServerError};

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use crate::volume::Volume;

/// The volumes that are served, by name.
#[derive(Debug, Default)]
pub struct Exports {
    volumes: RwLock<BTreeMap<String, Arc<Volume>>>,
    /// The same by what stays when a name changes.
    identities: RwLock<BTreeMap<String, Weak<Volume>>>,
}

impl Exports {
    /// Serves a volume from now on.
    pub fn add(&self, volume: Arc<Volume>) {
        let mut volumes = self.volumes.write().unwrap_or_else(PoisonError::into_inner);
        volumes.insert(volume.name().to_string(), volume);
    }

    /// Has clients find a volume by its UUID, too: a client that connects again after the name has changed reaches the same volume.
    pub fn identify(&self, uuid: &str, volume: &Arc<Volume>) {
        let mut identities = self.identities.write().unwrap_or_else(PoisonError::into_inner);
        identities.retain(|_, volume| volume.strong_count() > 0);
        identities.insert(uuid.to_owned(), Arc::downgrade(volume));
    }

    /// Serves a volume no more; connections to it are answered with an error and closed.
    pub fn remove(&self, name: &str) -> Option<Arc<Volume>> {
        let volume = self.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(name)?;
        volume.take_offline();
        Some(volume)
    }

    /// Gives volumes other names, all at once, so that names can be exchanged. A connection is to a volume and not to a
    /// name: connections go on, and the old name is free.
    pub fn rename(&self, names: &[(String, String)]) {
        let mut volumes = self.volumes.write().unwrap_or_else(PoisonError::into_inner);
        let taken = names.iter().filter_map(|(old, new)| Some((new, volumes.remove(old)?)));
        for (name, volume) in taken.collect::<Vec<_>>() {
            volume.rename(name);
            volumes.insert(name.clone(), volume);
        }
    }

    /// A volume by its UUID or its name. The empty name means the only one, where there is only one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Volume>> {
        let identities = self.identities.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(volume) = identities.get(name).and_then(Weak::upgrade) {
            return Some(volume);
        }
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        let only = || volumes.values().next().filter(|_| name.is_empty() && volumes.len() == 1);
        volumes.get(name).or_else(only).cloned()
    }

    /// Every volume.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Volume>> {
        self.volumes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}
