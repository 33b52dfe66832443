//! A server whose every answer a test scripts.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A listening server. Its threads end with the test's process.
pub struct Server {
    pub url: String,
    pub connections: Arc<AtomicU64>,
    pub requests: Arc<AtomicU64>,
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
        let url = format!("{scheme}://{}/", listener.local_addr().unwrap());
        let (connections, requests) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (counter, served) = (Arc::clone(&connections), Arc::clone(&requests));
        let script = Arc::new((layer, serve));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                counter.fetch_add(1, Ordering::SeqCst);
                let (script, requests) = (Arc::clone(&script), Arc::clone(&served));
                thread::spawn(move || {
                    stream.set_nodelay(true).unwrap();
                    let stream = BufReader::new(script.0(stream));
                    script.1(&mut Conversation { stream, requests });
                });
            }
        });
        Self { url, connections, requests }
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

    /// Sends bytes; `false` where the client is gone.
    pub fn say(&mut self, text: &str) -> bool {
        let stream = self.stream.get_mut();
        stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).is_ok()
    }

    /// Reads to the end of the client's stream. Whether that came in order.
    pub fn until_closed(&mut self) -> bool {
        std::io::copy(&mut self.stream, &mut std::io::sink()).is_ok()
    }
}
