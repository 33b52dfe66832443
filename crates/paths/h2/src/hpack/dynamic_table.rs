//! The dynamic table (RFC 7541, sections 2.3.2 and 4).

use std::collections::VecDeque;

use super::{FIELD_OVERHEAD_BYTES, static_table};

/// The entries of one direction of a connection, the youngest first.
#[derive(Debug)]
pub(super) struct DynamicTable {
    entries: VecDeque<Entry>,
    /// The size of all entries, with their overhead.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entry {
    /// The name, and the value after it.
    text: Box<[u8]>,
    name_length: usize,
}

impl Entry {
    fn parts(&self) -> (&[u8], &[u8]) {
        self.text.split_at(self.name_length)
    }

    fn bytes(&self) -> usize {
        self.text.len() + FIELD_OVERHEAD_BYTES
    }
}

impl DynamicTable {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Name and value of an entry of both tables, by the index that field blocks use.
    pub(super) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        match index.checked_sub(static_table::LENGTH + 1) {
            None => static_table::get(index),
            Some(at) => self.entries.get(at).map(Entry::parts),
        }
    }

    /// The index of a name in both tables, or 0, and whether that entry has the value too.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> (usize, bool) {
        let (mut found, has_value) = static_table::find(name, value);
        if has_value {
            return (found, true);
        }
        for (at, entry) in self.entries.iter().enumerate() {
            let index = at + static_table::LENGTH + 1;
            match entry.parts() {
                (its_name, its_value) if its_name == name && its_value == value => return (index, true),
                (its_name, _) if its_name == name && found == 0 => found = index,
                _ => {}
            }
        }
        (found, false)
    }

    /// Adds an entry, and evicts old ones to make room. An entry that is larger than the table empties it.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        let bytes = name.len() + value.len() + FIELD_OVERHEAD_BYTES;
        if bytes > self.bytes_max {
            self.shrink_to(0);
            return;
        }
        let text = [name, value].concat().into_boxed_slice();
        self.shrink_to(self.bytes_max - bytes);
        self.entries.push_front(Entry { text, name_length: name.len() });
        self.bytes += bytes;
    }

    /// Changes the largest size.
    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.shrink_to(bytes_max);
    }

    fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// The bytes that the entries take, and their number.
    #[cfg(test)]
    pub(super) fn measures(&self) -> (usize, usize) {
        (self.bytes, self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_entries_make_room_for_new_ones() {
        let mut table = DynamicTable::new(100);
        table.insert(b"a", b"1");
        table.insert(b"b", b"2");
        assert_eq!(
            (table.get(62), table.get(63)),
            (Some((&b"b"[..], &b"2"[..])), Some((&b"a"[..], &b"1"[..])))
        );
        assert_eq!((table.find(b"a", b"1"), table.find(b"a", b"2")), ((63, true), (63, false)));
        table.insert(b"c", b"3");
        assert_eq!((table.measures(), table.get(64)), ((68, 2), None));
        table.resize(40);
        assert_eq!(table.measures(), (34, 1));
        table.insert(b"d", &[b'x'; 100]);
        assert_eq!(table.measures(), (0, 0));
        assert_eq!((table.get(0), table.get(62)), (None, None));
    }
}
