//! Bytes over a socket: client libraries tidy up what is to be tested.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::clients::connect_from;

/// A server that has not answered by then hangs.
const DEADLINE: Duration = Duration::from_secs(16);
/// After a whole answer, how long more bytes are waited for that nobody asked for.
const SILENCE: Duration = Duration::from_millis(50);

/// An answer.
#[derive(Debug, Default)]
pub struct Answer {
    pub status: i32,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// All that came back.
#[derive(Debug, Default)]
pub struct Exchange {
    /// In their order: a `100 Continue`, the answer, those to pipelined requests.
    pub answers: Vec<Answer>,
    /// Bytes that are no answer.
    pub rest: Vec<u8>,
    pub took: Duration,
    pub hung: bool,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The code of an error that is ours.
    pub fn code(&self) -> Option<String> {
        self.json()["error"]["code"].as_str().map(str::to_owned)
    }

    /// Head and body, as they could be searched for what must not be there.
    pub fn whole(&self) -> String {
        let headers: Vec<String> = self.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("{}\n{}", headers.join("\n"), self.text())
    }
}

/// Sends `request` from loopback address `source` and reads what comes back.
#[expect(clippy::disallowed_methods, reason = "a server is waited for in real time")]
pub fn exchange(server: SocketAddr, source: Ipv4Addr, request: &[u8], is_head: bool) -> Exchange {
    let mut stream = connect_from(server, source.octets());
    let started = Instant::now();
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|threads| {
        // A server may answer, and stop reading, before all is sent.
        threads.spawn(move || drop(writer.write_all(request)));
        let (mut bytes, mut buffer, mut hung) = (Vec::new(), vec![0; 64 * 1024], false);
        loop {
            let (answers, _) = parsed(&bytes, is_head, false);
            let complete = answers.iter().any(|answer| answer.status >= 200);
            stream.set_read_timeout(Some(if complete { SILENCE } else { DEADLINE })).unwrap();
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => bytes.extend(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    hung = !complete;
                    break;
                }
                Err(_) => break,
            }
        }
        // Ends the writer too, if it is still at it.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let (answers, rest) = parsed(&bytes, is_head, true);
        Exchange { answers, rest, took: started.elapsed(), hung }
    })
}

/// The answers in `bytes`, and what follows them. At the `end` of a connection, a body without a length is complete.
fn parsed(bytes: &[u8], is_head: bool, end: bool) -> (Vec<Answer>, Vec<u8>) {
    let (mut answers, mut rest) = (Vec::new(), bytes);
    while let Some(head_ends) = rest.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&rest[..head_ends]).into_owned();
        let mut lines = head.split("\r\n");
        let Some(status) = lines.next().filter(|line| line.starts_with("HTTP/1.")).and_then(|line| line.get(9..12))
        else {
            break;
        };
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let body = &rest[head_ends + 4..];
        let status = status.parse().unwrap_or(-2);
        let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = match named.and_then(|(_, value)| value.parse::<usize>().ok()) {
            _ if (100..200).contains(&status) || status == 204 => 0,
            // The body of an answer to HEAD would be a fault: it is kept to be seen.
            _ if is_head => body.len(),
            Some(length) => length,
            None if end => body.len(),
            None => break,
        };
        if length > body.len() {
            break;
        }
        answers.push(Answer { status, headers, body: body[..length].to_vec() });
        rest = &body[length..];
    }
    (answers, rest.to_vec())
}
