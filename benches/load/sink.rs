//! A mail server that takes every e-mail at once and keeps none.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Takes e-mails for as long as it lives.
pub struct Sink {
    pub address: SocketAddr,
    taken: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl Sink {
    pub fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, taken) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = taken.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, count.clone()));
            }
        });
        Self { address, taken, _runtime: runtime }
    }

    /// How many e-mails came.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

async fn converse(stream: TcpStream, taken: Arc<AtomicUsize>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read);
    let (mut line, mut message) = (Vec::new(), false);
    write.write_all(b"220 sink\r\n").await?;
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let reply: &[u8] = match line.as_slice() {
            b".\r\n" if message => {
                message = false;
                taken.fetch_add(1, Ordering::Relaxed);
                b"250 taken\r\n"
            }
            _ if message => continue,
            b"DATA\r\n" => {
                message = true;
                b"354 go on\r\n"
            }
            line if line.starts_with(b"EHLO") => b"250-sink\r\n250 8BITMIME\r\n",
            _ => b"250 ok\r\n",
        };
        write.write_all(reply).await?;
    }
}
