//! A client of the pages that sends exactly what a test wants, for tests of the server here and of `plumb ui`.

use std::io::{Read, Write};
use std::net::TcpStream;

/// A user of a server.
pub struct Client {
    pub authority: String,
    pub token: String,
}

impl Client {
    /// The user who was told this address, with its token.
    pub fn for_url(url: &str) -> Self {
        let (authority, token) =
            url.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/?token=")).unwrap();
        Self { authority: authority.to_owned(), token: token.to_owned() }
    }

    /// Asks for a page as its user.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("Authorization", &format!("Bearer {}", self.token))], "")
    }

    /// Sends a form as a page of the server's does.
    pub fn post(&self, path: &str, form: &str) -> Answer {
        let own = format!("http://{}", self.authority);
        self.ask(
            "POST",
            path,
            &[("Authorization", &format!("Bearer {}", self.token)), ("Origin", &own)],
            form,
        )
    }

    /// The form token of a page.
    pub fn form_token(&self, path: &str) -> String {
        hidden(&self.get(path).body, "form")
    }

    /// Sends a request with exactly these headers, `Host` but where they have one.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.write_all(self.request(method, path, headers, body).as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    /// The text of a request.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.authority));
        }
        if method == "POST" && !headers.iter().any(|(name, _)| *name == "Content-Type") {
            text.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{text}\r\n{body}")
    }

    /// The id of the first run that the list has for a word, if it has any yet.
    pub fn find(&self, name: &str) -> Option<String> {
        let list = self.get(&format!("/?q={name}")).body;
        let (_, rest) = list.split_once("href=\"/runs/")?;
        rest.split('"').next().map(str::to_owned)
    }
}

/// The value of a hidden field of a page.
pub fn hidden(page: &str, name: &str) -> String {
    let before = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&before).unwrap_or_else(|| panic!("no {name}: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}
