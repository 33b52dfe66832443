//! A server that answers nearly as it should: the negotiation, then replies to two reads and two writes that are under way.
//!
//! The replies are taken twice, in one piece and in small ones, and must come to the same. Memory beside the reads stays as it was.

use std::net::{TcpListener, TcpStream};

use plumb_fuzz::Target;

use super::*;

/// The first byte of memory beside and in the blocks, before anything is read.
const UNTOUCHED: u8 = 0xa5;
const BLOCK_BYTES: usize = 4096;
const GUARD_BYTES: usize = 64;
/// Offsets of the requests by tag, and whether they write.
const REQUESTS: [(u64, bool); 4] = [(0, false), (512, false), (8192, true), (1 << 40, true)];

fn option(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&OPTION_REPLY_MAGIC.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes(), &length, data]
        .concat()
}

fn greeting() -> Vec<u8> {
    [
        b"NBDMAGICIHAVEOPT\0\x03".to_vec(),
        option(STRUCTURED_REPLY, ACK, &[]),
        option(GO, INFO, &[0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]),
        option(GO, INFO, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1]),
        option(GO, ACK, &[]),
    ]
    .concat()
}

fn chunk(flags: u16, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let (magic, cookie) = (STRUCTURED_MAGIC.to_be_bytes(), cookie.to_be_bytes());
    [&magic[..], &flags.to_be_bytes(), &kind.to_be_bytes(), &cookie, &length, payload].concat()
}

fn simple(error: u32, cookie: u64, data: &[u8]) -> Vec<u8> {
    [&SIMPLE_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes(), data].concat()
}

fn data(offset: u64, length: usize) -> Vec<u8> {
    [&offset.to_be_bytes()[..], &vec![0x5a; length]].concat()
}

fn conversations() -> [Vec<u8>; 3] {
    let structured = [
        chunk(0, 1, 0, &data(0, 1000)),
        simple(0, 2, &[]),
        chunk(0, 2, 0, &[&1000_u64.to_be_bytes()[..], &96_u32.to_be_bytes()].concat()),
        chunk(1, 1, 0, &data(1096, 3000)),
        chunk(1, 0x8001, 1, &[0, 0, 0, 5, 0, 2, b'n', b'o']),
        simple(28, 3, &[]),
    ]
    .concat();
    let simple = [simple(0, 3, &[]), simple(0, 1, &[0x5a; BLOCK_BYTES]), simple(5, 0, &[])].concat();
    let refused = [b"NBDMAGICIHAVEOPT\0\x01".to_vec(), option(STRUCTURED_REPLY, 0x8000_0001, b"no")].concat();
    [
        [greeting(), structured].concat(),
        [greeting(), simple].concat(),
        [refused, option(GO, 0x8000_0006, b"there is no such export\x1b[31m")].concat(),
    ]
}

/// A server whose answers are known beforehand.
struct Script<'a>(&'a [u8]);

impl Read for Script<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Script<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The outcome of the replies.
#[derive(Debug, PartialEq)]
struct Outcome {
    completions: Vec<Completion>,
    error: Option<String>,
    memory: Vec<u8>,
}

/// Takes replies to the requests in pieces.
fn take(client: &mut Nbd, replies: &[u8], piece: usize) -> Outcome {
    let stride = GUARD_BYTES + BLOCK_BYTES;
    let mut memory = vec![UNTOUCHED; REQUESTS.len() * stride + GUARD_BYTES];
    let begin = memory.as_mut_ptr();
    client.output.clear();
    client.failures.fill(0);
    client.requests.fill(None);
    client.filled = 0;
    client.input = vec![0; INPUT_BYTES];
    for (tag, (offset, is_write)) in (0_u32..).zip(REQUESTS) {
        let buffer = begin.wrapping_add(tag as usize * stride + GUARD_BYTES);
        client.queue(Request { tag, is_write, offset, buffer, length: BLOCK_BYTES as u32 });
    }
    let mut completions = Vec::new();
    let mut error = None;
    for piece in replies.chunks(piece) {
        let mut piece = piece;
        while !piece.is_empty() && error.is_none() {
            let room = room(&mut client.input, client.filled);
            let part = piece.len().min(room.len());
            room[..part].copy_from_slice(&piece[..part]);
            piece = &piece[part..];
            client.filled += part;
            error = client.take_whole(&mut completions).err().map(|error| error.to_string());
        }
    }
    assert!(
        client.input.len() <= 2 * INPUT_BYTES,
        "{} bytes wait for the rest of a reply",
        client.input.len()
    );
    for (tag, (_, is_write)) in REQUESTS.iter().enumerate() {
        let guard = &memory[tag * stride..][..GUARD_BYTES];
        assert!(*guard == [UNTOUCHED; GUARD_BYTES], "it wrote before the block of tag {tag}");
        let block = &memory[tag * stride + GUARD_BYTES..][..BLOCK_BYTES];
        let is_untouched = *block == [UNTOUCHED; BLOCK_BYTES];
        assert!(!is_write || is_untouched, "it wrote what tag {tag} writes");
    }
    let behind = &memory[REQUESTS.len() * stride..];
    assert!(*behind == [UNTOUCHED; GUARD_BYTES], "it wrote behind the last block");
    for completion in &completions {
        let times = completions.iter().filter(|other| other.tag == completion.tag).count();
        assert_eq!(times, 1, "tag {} is complete more than once", completion.tag);
        assert!(completion.result == BLOCK_BYTES as i32 || completion.result < 0, "{completion:?}");
    }
    Outcome { completions, error, memory }
}

/// Checks the bytes that `queue` wrote for each tag.
fn check_requests(output: &[u8]) {
    let mut rest = output;
    for (tag, (offset, is_write)) in (0_u64..).zip(REQUESTS) {
        let (head, behind) = rest.split_at(28);
        let field = |at, length| number(head, at, length).unwrap();
        assert_eq!((field(0, 4), field(4, 2)), (u64::from(REQUEST_MAGIC), 0));
        assert_eq!((field(6, 2), field(8, 8)), (u64::from(is_write), tag));
        assert_eq!((field(16, 8), field(24, 4)), (offset, BLOCK_BYTES as u64));
        rest = if is_write { &behind[BLOCK_BYTES..] } else { behind };
    }
    assert!(rest.is_empty());
}

/// A connected client whose socket nobody uses.
fn client() -> (Nbd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = NbdAddress::parse(&format!("nbd://{}/x", listener.local_addr().unwrap())).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let depth = REQUESTS.len();
    let client = Nbd {
        address,
        stream,
        export: Export { bytes: 1 << 16, flags: 0 },
        requests: vec![None; depth],
        failures: vec![0; depth],
        output: Vec::new(),
        sent: 0,
        input: Vec::new(),
        filled: 0,
    };
    (client, listener.accept().unwrap().0)
}

#[test]
fn fuzz_nbd_replies() {
    let (mut client, _server) = client();
    let words =
        [chunk(0, 1, 1, &data(512, 64)), simple(0, 0, &[]), simple(1, 1, &[]), option(GO, INFO, &[0; 12])];
    Target::new("fuzz_nbd_replies").seeds(conversations()).with_words(words).run(|bytes| {
        let mut server = Script(bytes);
        let export = negotiate(&mut server, &client.address);
        if let Err(error) = &export {
            let text = error.to_string();
            assert!(text.len() < 1000 && !text.contains(char::is_control), "{text:?}");
            return (text.chars().filter(char::is_ascii_lowercase).take(80).collect(), 0);
        }
        let whole = take(&mut client, server.0, usize::MAX);
        check_requests(&client.output);
        assert_eq!(take(&mut client, server.0, 1 + bytes.len() % 97), whole, "the pieces change the outcome");
        (whole.error.unwrap_or_default(), whole.completions.len())
    });
}
