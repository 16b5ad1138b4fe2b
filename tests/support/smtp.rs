//! A mail server on loopback that follows a script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// What the server does at the point where it misbehaves.
#[derive(Debug, Clone, Copy)]
pub enum Script {
    Accept,
    Silence,
    /// The reply to a command: `""` stands for the greeting, `.` for the end of a message.
    At(&'static str, &'static [u8]),
    /// Refuses every recipient that begins with `no`, in plain words.
    KnowsSome,
    /// The same, with the code that says so for certain.
    KnowsSomeForCertain,
    /// Offers SMTPUTF8.
    International,
    /// Takes so many seconds to reply to a message.
    Slow(u64),
    HangUpAfterTheDot,
    /// The first e-mail gets no reply.
    SilentAfterTheFirstDot,
    HangUpBetweenLetters,
}

/// A mail server that ends with the runtime that it was started in.
pub struct SmtpServer {
    pub url: String,
    seen: Arc<Seen>,
    /// Its own, where a test has none.
    _runtime: Option<Runtime>,
}

#[derive(Default)]
struct Seen {
    received: Mutex<Vec<String>>,
    greeted: Mutex<Vec<String>>,
    senders: Mutex<Vec<String>>,
    recipients: Mutex<Vec<String>>,
    connections: AtomicUsize,
    /// Connections that were closed in order.
    quit: AtomicUsize,
}

impl SmtpServer {
    /// With a runtime of its own.
    pub fn alone(script: Script) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(Self::start(script));
        Self { _runtime: Some(runtime), ..server }
    }

    pub async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Seen::default());
        let kept = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                kept.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(converse(stream, script, kept.clone()));
            }
        });
        Self { url, seen, _runtime: None }
    }

    /// What came as data, each with its head.
    pub fn received(&self) -> Vec<String> {
        self.seen.received.lock().unwrap().clone()
    }

    /// The EHLO commands.
    pub fn greeted(&self) -> Vec<String> {
        self.seen.greeted.lock().unwrap().clone()
    }

    /// The MAIL commands.
    pub fn senders(&self) -> Vec<String> {
        self.seen.senders.lock().unwrap().clone()
    }

    /// The RCPT commands.
    pub fn recipients(&self) -> Vec<String> {
        self.seen.recipients.lock().unwrap().clone()
    }

    /// How many connections were closed in order.
    pub fn quit(&self) -> usize {
        self.seen.quit.load(Ordering::Relaxed)
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }
}

async fn converse(stream: TcpStream, script: Script, seen: Arc<Seen>) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    if matches!(script, Script::Silence) {
        return std::future::pending().await;
    }
    let at = |command: &str| match script {
        Script::At(at, reply) if at == command => Some(reply),
        _ => None,
    };
    write.write_all(at("").unwrap_or(b"220 test\r\n")).await?;
    while let Some(line) = lines.next_line().await? {
        let command = line.split(' ').next().unwrap().to_ascii_uppercase();
        if command == "EHLO" {
            seen.greeted.lock().unwrap().push(line.clone());
        }
        if command == "RCPT" {
            seen.recipients.lock().unwrap().push(line.clone());
        }
        if let Some(reply) = at(&command) {
            write.write_all(reply).await?;
            continue;
        }
        let reply = match command.as_str() {
            "EHLO" if matches!(script, Script::International) => "250-test\r\n250-SMTPUTF8\r\n250 8BITMIME",
            "EHLO" => "250-test\r\n250-AUTH PLAIN LOGIN\r\n250 8BITMIME",
            "AUTH" => "235 welcome",
            "RCPT" if matches!(script, Script::KnowsSome) && line.contains("<no") => "550 no such user here",
            "RCPT" if matches!(script, Script::KnowsSomeForCertain) && line.contains("<no") => "550 5.1.1 no such user",
            "MAIL" => {
                seen.senders.lock().unwrap().push(line);
                "250 ok"
            }
            "DATA" => {
                write.write_all(b"354 go on\r\n").await?;
                let Some(data) = data(&mut lines).await? else { return Ok(()) };
                let messages = {
                    let mut received = seen.received.lock().unwrap();
                    received.push(data);
                    received.len()
                };
                match script {
                    Script::HangUpAfterTheDot => return Ok(()),
                    Script::SilentAfterTheFirstDot if messages == 1 => return std::future::pending().await,
                    Script::HangUpBetweenLetters => {
                        write.write_all(b"250 taken\r\n").await?;
                        return Ok(());
                    }
                    Script::At(".", reply) => {
                        write.write_all(reply).await?;
                        continue;
                    }
                    Script::Slow(seconds) => {
                        tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
                        "250 taken"
                    }
                    _ => "250 taken",
                }
            }
            "QUIT" => {
                seen.quit.fetch_add(1, Ordering::Relaxed);
                "221 bye"
            }
            _ => "250 ok",
        };
        write.write_all(format!("{reply}\r\n").as_bytes()).await?;
    }
    Ok(())
}

/// A message up to its dot, if it comes to that: a client that was killed in the middle has sent nothing.
async fn data(lines: &mut tokio::io::Lines<impl AsyncBufReadExt + Unpin>) -> std::io::Result<Option<String>> {
    let mut data = String::new();
    while let Some(line) = lines.next_line().await? {
        if line == "." {
            return Ok(Some(data));
        }
        data.push_str(line.strip_prefix('.').unwrap_or(&line));
        data.push_str("\r\n");
    }
    Ok(None)
}
