//! The contents of a datagram of `udp_bw`, as far as there is room: its number, and for some the time of its departure.

/// Datagrams from this size on carry a number.
const NUMBER_BYTES: usize = 8;
/// Datagrams from this size on carry a time too.
const TIME_BYTES: usize = 16;

/// Whether datagrams of that size carry a number.
#[must_use]
pub fn has_number(size: usize) -> bool {
    size >= NUMBER_BYTES
}

/// Whether datagrams of that size carry a time.
#[must_use]
pub fn has_time(size: usize) -> bool {
    size >= TIME_BYTES
}

/// Writes what there is room for; no time is 0.
#[inline]
pub fn write(message: &mut [u8], number: u64, sent_ns: Option<u64>) {
    if let Some(room) = message.first_chunk_mut::<TIME_BYTES>() {
        room[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        room[NUMBER_BYTES..].copy_from_slice(&sent_ns.unwrap_or(0).to_le_bytes());
    } else if let Some(room) = message.first_chunk_mut::<NUMBER_BYTES>() {
        *room = number.to_le_bytes();
    }
}

/// The number.
#[inline]
#[must_use]
pub fn number(message: &[u8]) -> Option<u64> {
    message.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// When it was sent, on the sender's clock.
#[inline]
#[must_use]
pub fn time(message: &[u8]) -> Option<u64> {
    let bytes = message.get(NUMBER_BYTES..TIME_BYTES)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes)).filter(|sent_ns| *sent_ns != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_carried() {
        let mut message = [0; 20];
        write(&mut message, 7, Some(9));
        assert_eq!((number(&message), time(&message)), (Some(7), Some(9)));
        write(&mut message, 8, None);
        assert_eq!((number(&message), time(&message)), (Some(8), None));
        let mut small = [0; 10];
        write(&mut small, 7, Some(9));
        assert_eq!((number(&small), time(&small)), (Some(7), None));
        let mut tiny = [1; 3];
        write(&mut tiny, 7, Some(9));
        assert_eq!(tiny, [1; 3]);
        assert_eq!((number(&tiny), time(&tiny)), (None, None));
    }
}
