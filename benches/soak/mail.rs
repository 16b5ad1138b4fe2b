//! A mail server that remembers which keys it was sent, and for whom.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Takes every e-mail for as long as it lives.
pub struct Mail {
    pub url: String,
    seen: Arc<Mutex<Seen>>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Seen {
    /// How often each key came.
    keys: HashMap<String, u32>,
    recipients: HashSet<String>,
    /// E-mails, and different names of e-mails.
    taken: usize,
    names: HashSet<String>,
}

impl Mail {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let kept = seen.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, kept.clone()));
            }
        });
        Self { url, seen, _runtime: runtime }
    }

    /// Whether an e-mail with this key came.
    pub fn has_key(&self, key: &str) -> bool {
        self.seen.lock().unwrap().keys.contains_key(key)
    }

    /// Whether an e-mail came for this person.
    pub fn has_recipient(&self, address: &str) -> bool {
        self.seen.lock().unwrap().recipients.contains(address)
    }

    /// How many e-mails came, and how many different ones.
    pub fn taken(&self) -> (usize, usize) {
        let seen = self.seen.lock().unwrap();
        (seen.taken, seen.names.len())
    }
}

async fn converse(stream: TcpStream, seen: Arc<Mutex<Seen>>) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut recipient = String::new();
    write.write_all(b"220 soak\r\n").await?;
    while let Some(line) = lines.next_line().await? {
        if let Some(address) = line.strip_prefix("RCPT TO:<") {
            recipient = address.split('>').next().unwrap_or_default().to_owned();
        }
        if line != "DATA" {
            let reply: &[u8] = if line.starts_with("EHLO") { b"250-soak\r\n250 8BITMIME\r\n" } else { b"250 ok\r\n" };
            write.write_all(reply).await?;
            continue;
        }
        write.write_all(b"354 go on\r\n").await?;
        let (mut message, mut name) = (String::new(), String::new());
        loop {
            // A server that was killed in the middle has sent nothing.
            let Some(line) = lines.next_line().await? else { return Ok(()) };
            if line == "." {
                break;
            }
            if let Some(id) = line.strip_prefix("Message-ID: ") {
                id.clone_into(&mut name);
            }
            // Quoted-printable: a line that ends with `=` goes on in the next.
            message.push_str(line.strip_suffix('=').unwrap_or(&line));
            if !line.ends_with('=') {
                message.push('\n');
            }
        }
        let at = message.find("dlv_").expect("every e-mail brings a key");
        let end = message[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-');
        let key = message[at..end.map_or(message.len(), |end| at + end)].to_owned();
        {
            let mut seen = seen.lock().unwrap();
            *seen.keys.entry(key).or_default() += 1;
            seen.recipients.insert(std::mem::take(&mut recipient));
            seen.taken += 1;
            seen.names.insert(name);
        }
        write.write_all(b"250 taken\r\n").await?;
    }
    Ok(())
}
