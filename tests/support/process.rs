//! A server as a seller starts it: a process, a folder, a terminal.

mod site;

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

pub use self::site::{Site, example};
use crate::wait_for;

pub struct Server {
    process: Child,
    pub address: SocketAddr,
    pub printed: String,
    /// What it has printed since it listens.
    pub later: Arc<Mutex<String>>,
}

impl Server {
    pub fn start(mut command: Command) -> Self {
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let later = Arc::<Mutex<String>>::default();
        let kept = later.clone();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let mut printed = String::new();
            for line in lines.by_ref() {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    // Nobody waits for it any more after the deadline.
                    let _ = tell.send((address.parse::<SocketAddr>().unwrap(), printed));
                    break;
                }
                printed.extend([&*line, "\n"]);
            }
            lines.for_each(|line| kept.lock().unwrap().extend([&*line, "\n"]));
        });
        // Dropping it ends the process, even one that never listens.
        let mut server = Self { process, address: ([0; 4], 0).into(), printed: String::new(), later };
        (server.address, server.printed) = told.recv_timeout(PATIENCE).expect("a server that does not listen says why");
        server
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Head and body of the answer, as text.
    pub fn exchange(&self, method: &str, target: &str, headers: &str, body: &str) -> (String, String) {
        self.try_exchange(method, target, headers, body).expect("a whole answer")
    }

    /// The same of a server that may have ended before it had answered.
    fn try_exchange(&self, method: &str, target: &str, headers: &str, body: &str) -> io::Result<(String, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        split(&answer).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    pub fn call(&self, method: &str, target: &str, headers: &str, body: &str) -> (u16, Value) {
        self.try_call(method, target, headers, body).expect("a whole answer")
    }

    /// The same of a server that may have ended.
    pub fn try_call(&self, method: &str, target: &str, headers: &str, body: &str) -> Option<(u16, Value)> {
        let (head, body) = self.try_exchange(method, target, headers, body).ok()?;
        Some((status(&head), serde_json::from_str(&body).unwrap_or_default()))
    }

    /// What these bytes are answered.
    pub fn send(&self, request: &[u8]) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        read_answer(&mut stream)
    }

    /// By the seller, at a path below `/api/admin/`. Null stands for no body.
    pub fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.call(method, &format!("/api/admin/{path}"), &by_token(TOKEN), &body)
    }

    pub fn add_product(&self) -> (u16, Value) {
        self.admin("POST", "product", &json!({ "name": "Guide", "content": "# Guide" }))
    }

    pub fn order(&self, id: &str) -> (u16, Value) {
        self.try_order(id).expect("a whole answer")
    }

    pub fn try_order(&self, id: &str) -> Option<(u16, Value)> {
        self.try_call("POST", "/api/webhook/order", JSON, &order(id).to_string())
    }

    /// The key of an order, which must be a good one.
    pub fn sell(&self, id: &str) -> String {
        key_of(self.order(id))
    }

    pub fn validate(&self, key: &str) -> (u16, Value) {
        self.call("GET", "/api/validate", &format!("Authorization: Bearer {key}\r\n"), "")
    }

    pub fn fetch(&self, key: &str) -> u16 {
        self.call("GET", &format!("/api/product?key={key}&product_id=1"), "", "").0
    }

    /// As a crash does: nothing is finished, nothing is closed.
    pub fn kill(mut self) -> String {
        self.process.kill().unwrap();
        self.log()
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// [`PEAK`] or [`RESIDENT`], in MB.
    pub fn memory(&self, which: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(which)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
    }

    /// As a service manager does.
    pub fn terminate(self) -> String {
        self.ask_to_stop();
        self.ended()
    }

    pub fn ask_to_stop(&self) {
        self.signal("-TERM");
    }

    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.id().to_string()]).status().unwrap().success());
    }

    /// Lets `strace` follow the server, with all of its threads.
    pub fn trace(&self, strace: &mut Command) -> Child {
        strace.args(["-f", "-p", &self.id().to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let tracer = strace.spawn().unwrap();
        let attached = format!("TracerPid:\t{}", tracer.id());
        // A thread may end while its file is read.
        let is_followed = |thread: fs::DirEntry| {
            fs::read_to_string(thread.path().join("status")).map_or(true, |status| status.contains(&attached))
        };
        let threads = format!("/proc/{}/task", self.id());
        wait_for(Duration::from_secs(30), || fs::read_dir(&threads).unwrap().map(Result::unwrap).all(is_followed));
        tracer
    }

    /// Waits for its end, which must be a good one.
    pub fn ended(self) -> String {
        self.ended_within(Duration::from_secs(30))
    }

    pub fn ended_within(mut self, deadline: Duration) -> String {
        let mut status = None;
        wait_for(deadline, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success());
        self.log()
    }

    /// Sends the head of an order and `sent` bytes of its body, and answers what is left.
    pub fn half_an_order(&self, sent: usize) -> (TcpStream, String) {
        let body = order("half").to_string();
        let (begin, end) = body.split_at(sent);
        let length = body.len();
        let head = format!("POST /api/webhook/order HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: {length}\r\n\r\n");
        let mut stream = self.connect();
        stream.write_all((head + begin).as_bytes()).unwrap();
        // Answered on a connection of its own once this one is accepted.
        assert_eq!(self.call("GET", "/healthz", "", "").0, 200);
        (stream, end.to_owned())
    }

    /// Whether the log says so before the deadline.
    pub fn logged_within(&mut self, said: &'static str, deadline: Duration) -> bool {
        let lines = BufReader::new(self.process.stderr.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(lines.map_while(Result::ok).any(|line| line.contains(said))));
        told.recv_timeout(deadline).unwrap_or(false)
    }

    fn log(&mut self) -> String {
        let mut log = String::new();
        // Gone already where a test read it, or sent it elsewhere.
        if let Some(mut stderr) = self.process.stderr.take() {
            stderr.read_to_string(&mut log).unwrap();
        }
        self.process.wait().unwrap();
        log
    }
}

/// No test leaves a process behind, failed or not.
impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already where the test ended it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How long an answer may take. A debug build beside other tests renders the largest pages in half a minute.
const PATIENCE: Duration = Duration::from_mins(2);

/// The most memory that a server has had.
pub const PEAK: &str = "VmHWM:";
/// The memory that it has.
pub const RESIDENT: &str = "VmRSS:";
pub const SECRET: &str = "the-platforms-secret";
pub const TOKEN: &str = "the-sellers-own-token";
pub const CONFIGURED: [(&str, &str); 3] =
    [("WEBHOOK_SECRET", SECRET), ("ADMIN_TOKEN", TOKEN), ("KEY_SECRET", "what-keys-are-signed-with")];
/// Limits that no test reaches.
pub const PLENTY: [(&str, &str); 4] = [
    ("LIMIT_PRODUCT", "1000000"),
    ("LIMIT_VALIDATE", "1000000"),
    ("LIMIT_WEBHOOK", "1000000"),
    ("LIMIT_ADMIN", "1000000"),
];
pub const JSON: &str = "Content-Type: application/json\r\n";

/// [`CONFIGURED`], with these settings too.
pub fn configured<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&CONFIGURED[..], more].concat()
}

/// The head of a request of a seller with this token.
pub fn by_token(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n{JSON}")
}

/// A good order.
pub fn order(id: &str) -> Value {
    order_by(id, "a@example.com")
}

/// A good order of this buyer.
pub fn order_by(id: &str, email: &str) -> Value {
    json!({ "order_id": id, "product_id": 1, "customer_email": email, "secret": SECRET })
}

/// The key in an answer, which must be a good one.
pub fn key_of((status, answer): (u16, Value)) -> String {
    assert_eq!(status, 200, "{answer}");
    answer["api_key"].as_str().unwrap().to_owned()
}

/// Reads to the end of the connection.
pub fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    split(&answer).unwrap()
}

fn split(answer: &str) -> Option<(String, String)> {
    answer.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

pub fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}
