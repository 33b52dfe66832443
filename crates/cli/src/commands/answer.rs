//! `plumb answer`: parts of the answer to one HTTP request, for the `verify` of a change.

use std::time::Duration;

use crate::args::AnswerArguments;
use crate::client::client;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

const TIME: Duration = Duration::from_secs(20);
/// Longer bodies are not read to their end.
const BODY_MAX: u64 = 1 << 30;

/// Asks and prints.
pub fn answer(arguments: &AnswerArguments) -> Outcome {
    let AnswerArguments { url, show, insecure } = arguments;
    let failed =
        |error: &dyn std::fmt::Display| Failure::harness(format!("get an answer from {url}: {error}"));
    let client = client(url.starts_with("https"), *insecure, TIME);
    let mut answer = client.get(url).header("Connection", "close").call().map_err(|error| failed(&error))?;
    let mut words = Vec::new();
    for part in show {
        words.push(match part.split_once(':') {
            Some(("header", name)) => {
                let values = answer.headers().get_all(name).iter();
                let values: Vec<_> =
                    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
                format!("{name}: {}", values.join(", "))
            }
            None if part == "status" => format!("status {}", answer.status().as_u16()),
            None if part == "length" => {
                let mut body = answer.body_mut().as_reader();
                let mut body = std::io::Read::take(&mut body, BODY_MAX);
                let length =
                    std::io::copy(&mut body, &mut std::io::sink()).map_err(|error| failed(&error))?;
                format!("length {length}")
            }
            _ => {
                return Err(Failure::usage(format!(
                    "`{part}` cannot be shown; write `status`, `length` or `header:NAME`"
                )));
            }
        });
    }
    output::result(&words.join(" "))?;
    Ok(HOLDS)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use crate::exit::{FAILED, USAGE};

    fn asked(url: &str, show: &[&str]) -> Result<String, Failure> {
        let show = show.iter().map(|part| (*part).to_owned()).collect();
        answer(&AnswerArguments { url: url.to_owned(), show, insecure: false })?;
        Ok(String::from_utf8(output::caught::take()[0].clone()).unwrap())
    }

    #[test]
    fn parts_of_an_answer_are_printed_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let answer =
                "HTTP/1.1 301 Moved\r\nLocation: /b\r\nX-Cache: HIT\r\nContent-Length: 5\r\n\r\nhello";
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let words = asked(&url, &["status", "length", "header:x-cache", "header:x-none"]).unwrap();
        server.join().unwrap();
        assert_eq!(words, "status 301 length 5 x-cache: HIT x-none: \n");
        let refused = asked("http://127.0.0.1:1/", &["status"]).unwrap_err();
        assert_eq!(refused.code, FAILED);
        let words = "failed to get an answer from http://127.0.0.1:1/: ";
        assert!(refused.message.starts_with(words), "{}", refused.message);
    }

    #[test]
    fn what_an_answer_does_not_have_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        });
        let refused = asked(&url, &["colour"]).unwrap_err();
        server.join().unwrap();
        assert_eq!(refused.code, USAGE);
    }
}
