//! A slab whose keys name one occupant for ever.
//!
//! An event that was fetched before its connection was closed must not reach the next connection in the same place.

/// The name of one occupant of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

/// Tokens carry two bits beside a key.
const GENERATION_BITS: u32 = 30;

impl Key {
    /// The key as an epoll token, with a tag from 0 to 3.
    pub(crate) fn token(self, tag: u64) -> u64 {
        tag << 62 | u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Tag and key of a token.
    pub(crate) fn from_token(token: u64) -> (u64, Self) {
        let generation = (token >> 32) as u32 & ((1 << GENERATION_BITS) - 1);
        (token >> 62, Self { index: token as u32, generation })
    }
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Values by key, without gaps that grow.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, value: None });
            u32::try_from(self.places.len() - 1).expect("there are fewer descriptors than 2^32")
        });
        let place = &mut self.places[index as usize];
        place.value = Some(value);
        Key { index, generation: place.generation }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation { place.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = (place.generation + 1) & ((1 << GENERATION_BITS) - 1);
        self.free.push(key.index);
        Some(value)
    }

    /// The keys of those for which `wanted` holds.
    pub(crate) fn keys_where(&self, wanted: impl Fn(&T) -> bool) -> Vec<Key> {
        let of_place = |(index, place): (usize, &Place<T>)| {
            let index = u32::try_from(index).ok()?;
            let generation = place.generation;
            place.value.as_ref().filter(|value| wanted(value)).map(|_| Key { index, generation })
        };
        self.places.iter().enumerate().filter_map(of_place).collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_reach_the_next_occupant() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(slab.places.len(), 1);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut "second"));
        assert_eq!(slab.keys_where(|_| true), [second]);
        assert_eq!(slab.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn a_token_gives_back_its_parts(index: u32, generation in 0..1_u32 << GENERATION_BITS, tag in 0..4_u64) {
            let key = Key { index, generation };
            proptest::prop_assert_eq!(Key::from_token(key.token(tag)), (tag, key));
        }
    }
}
