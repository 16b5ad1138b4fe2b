//! A load that comes at a pace of its own, however fast the answers are: what a request waits is counted from when it was
//! due, also if the connection was still busy then.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

/// So many requests a second, in all.
pub const OFFERED: u32 = 3_000;
const CONNECTIONS: u32 = 64;

/// Median and 99th of a hundred of the latencies, in microseconds, over so many seconds.
pub async fn latencies(server: SocketAddr, keys: &Arc<[String]>, seconds: u32) -> (f64, f64) {
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let every = Duration::from_secs(1) * CONNECTIONS / OFFERED;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(server).await.unwrap();
        stream.set_nodelay(true).unwrap();
        streams.push(stream);
    }
    #[expect(clippy::disallowed_methods, reason = "this is what is measured")]
    let begin = Instant::now() + Duration::from_millis(10);
    let clients = (0..CONNECTIONS).zip(streams).map(|(client, mut stream)| {
        let (latencies, keys) = (latencies.clone(), keys.clone());
        tokio::spawn(async move {
            let mut answer = vec![0; 16 << 10];
            let mut due = begin + every * client / CONNECTIONS;
            for number in 0..seconds * OFFERED / CONNECTIONS {
                sleep_until(due).await;
                let key = &keys[(number * CONNECTIONS + client) as usize % keys.len()];
                let request = format!("GET /api/product?product_id=1&key={key} HTTP/1.1\r\nHost: x\r\n\r\n");
                stream.write_all(request.as_bytes()).await.unwrap();
                let status = read(&mut stream, &mut answer).await;
                assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
                latencies.lock().unwrap().push(due.elapsed());
                due += every;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let mut latencies = std::mem::take(&mut *latencies.lock().unwrap());
    latencies.sort();
    let at = |hundredth: usize| latencies[latencies.len() * hundredth / 100].as_secs_f64() * 1e6;
    (at(50), at(99))
}

/// Reads a whole answer, and returns its status.
pub async fn read(stream: &mut TcpStream, answer: &mut [u8]) -> u16 {
    let mut filled = 0;
    loop {
        let more = stream.read(&mut answer[filled..]).await.unwrap();
        assert!(more > 0, "the server hung up");
        filled += more;
        let Some(head) = memchr::memmem::find(&answer[..filled], b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&answer[..head]).unwrap().to_ascii_lowercase();
        let length = text.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        if filled == head + 4 + length.parse::<usize>().unwrap() {
            return text[9..12].parse().unwrap();
        }
    }
}
