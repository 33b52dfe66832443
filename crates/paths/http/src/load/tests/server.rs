//! A server whose every answer a test scripts.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A listening server. Its threads end with it.
pub struct Server {
    pub url: String,
    pub connections: Arc<AtomicU64>,
    pub requests: Arc<AtomicU64>,
    _threads: Threads,
}

/// The threads of a server. Its TLS library aborts a process that ends while one of them is in it.
struct Threads {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    all: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// The number of checks for their end, a millisecond apart.
const LOOKS_MAX: usize = 5_000;

impl Drop for Threads {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // The one that accepts looks only when a connection comes.
        let _ = TcpStream::connect(self.address);
        // One that a failed test left in the middle may never end.
        for _ in 0..LOOKS_MAX {
            if self.all.lock().unwrap().iter().all(JoinHandle::is_finished) {
                break;
            }
            plumb_host::time::sleep(Duration::from_millis(1));
        }
    }
}

/// One connection on the server's side.
pub struct Conversation {
    stream: BufReader<Box<dyn Stream>>,
    requests: Arc<AtomicU64>,
}

impl Server {
    /// A server that runs `serve` on a thread for each connection, and closes it when that returns.
    pub fn start(serve: impl Fn(&mut Conversation) + Send + Sync + 'static) -> Self {
        Self::start_with("http", |stream| Box::new(stream), serve)
    }

    /// As [`Server::start`], with a layer between the connection and the script.
    pub fn start_with(
        scheme: &str,
        layer: impl Fn(TcpStream) -> Box<dyn Stream> + Send + Sync + 'static,
        serve: impl Fn(&mut Conversation) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("{scheme}://{address}/");
        let is_over = Arc::new(AtomicBool::new(false));
        let all: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let threads = Threads { address, is_over: Arc::clone(&is_over), all: Arc::clone(&all) };
        let (connections, requests) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counter, served) = (Arc::clone(&connections), Arc::clone(&requests));
        let script = Arc::new((layer, serve));
        let conversations = Arc::clone(&all);
        let accepting = thread::spawn(move || {
            let is_on = || !is_over.load(Ordering::SeqCst);
            for stream in listener.incoming().map_while(Result::ok).take_while(|_| is_on()) {
                counter.fetch_add(1, Ordering::SeqCst);
                let (script, requests) = (Arc::clone(&script), Arc::clone(&served));
                let conversation = thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let stream = BufReader::new(script.0(stream));
                    script.1(&mut Conversation { stream, requests });
                });
                conversations.lock().unwrap().push(conversation);
            }
        });
        all.lock().unwrap().push(accepting);
        Self { url, connections, requests, _threads: threads }
    }

    /// A server that answers every request with status 200 and two bytes.
    pub fn ok() -> Self {
        Self::always("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    }

    /// A server that answers every request with these bytes.
    pub fn always(answer: &'static str) -> Self {
        Self::start(move |conversation| while conversation.request().is_some() && conversation.say(answer) {})
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// An address at which nothing listens, and at which nothing can as long as this value is held.
pub struct Nobody {
    pub url: String,
    _bound: OwnedFd,
}

impl Nobody {
    pub fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        Self { url: format!("http://{address}/"), _bound: socket }
    }
}

impl Conversation {
    /// The head of the next request; `None` where the client closed.
    pub fn request(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        self.requests.fetch_add(1, Ordering::SeqCst);
        Some(head)
    }

    pub fn body(&mut self, bytes: usize) -> Vec<u8> {
        let mut body = vec![0; bytes];
        self.stream.read_exact(&mut body).unwrap();
        body
    }

    /// Reads this many bytes; `None` if the client closed before.
    pub fn bytes(&mut self, bytes: usize) -> Option<Vec<u8>> {
        let mut all = vec![0; bytes];
        self.stream.read_exact(&mut all).ok().map(|()| all)
    }

    /// Counts a request that the script read with [`Conversation::bytes`].
    pub fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }

    /// Sends text; `false` where the client is gone.
    pub fn say(&mut self, text: &str) -> bool {
        self.send(text.as_bytes())
    }

    /// Sends bytes; `false` where the client is gone.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).and_then(|()| stream.flush()).is_ok()
    }

    /// Reads to the end of the client's stream. Whether that came in order.
    pub fn until_closed(&mut self) -> bool {
        std::io::copy(&mut self.stream, &mut std::io::sink()).is_ok()
    }
}
