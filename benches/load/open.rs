//! Requests that come at a rate of their own, on as many connections as they need.
//!
//! A closed loop waits for an answer before it asks again, so it slows down with the server. The buyers of a busy day do
//! not. Here a request is sent when it is due, on a connection that is idle. A request that finds every connection busy is
//! not sent.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use crate::pace::read;

/// Makes the request of a number.
pub type Request = Arc<dyn Fn(u64) -> String + Send + Sync>;

/// How long a rate is offered before requests are measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long answers are waited for after the last request.
const LAST: Duration = Duration::from_secs(5);
/// How often the requests are sent that have become due.
const TICK: Duration = Duration::from_millis(1);

/// What came of the requests that were measured. Times are counted from when a request was due.
#[derive(Default)]
pub struct Outcome {
    /// Answers 200.
    pub served: Vec<Duration>,
    /// Answers 429 and 503.
    pub refused: Vec<Duration>,
    /// Requests that found no connection.
    pub unsent: u64,
    /// Requests that got no answer, or one with another status.
    pub failed: u64,
}

struct Due {
    number: u64,
    at: Instant,
    is_measured: bool,
}

type Idle = Arc<Mutex<VecDeque<UnboundedSender<Due>>>>;

/// Offers `rate` requests a second on so many connections, and tells what came of them. An infinite rate is a closed loop.
pub async fn offer(server: SocketAddr, connections: usize, request: &Request, rate: f64, time: Duration) -> Outcome {
    let (idle, outcome) = (Idle::default(), Arc::new(Mutex::new(Outcome::default())));
    // Closes them at the end.
    let mut clients = JoinSet::new();
    let mut answer = vec![0; 16 << 10];
    for _ in 0..connections {
        let mut stream = TcpStream::connect(server).await.unwrap();
        stream.set_nodelay(true).unwrap();
        // Once it is answered, the server has accepted the connection.
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert_eq!(read(&mut stream, &mut answer).await, 200);
        let (sender, due) = unbounded_channel();
        idle.lock().unwrap().push_back(sender.clone());
        clients.spawn(ask(stream, due, sender, request.clone(), (idle.clone(), outcome.clone())));
    }
    let (mut sent, mut measured) = (0, 0);
    let mut ticks = interval(TICK);
    let begin = ticks.tick().await;
    loop {
        let now = ticks.tick().await;
        let passed = now.duration_since(begin);
        if passed > WARM_UP + time {
            break;
        }
        let is_measured = passed > WARM_UP;
        while rate.is_infinite() || at(sent, rate) <= passed {
            let at = if rate.is_infinite() { now } else { begin + at(sent, rate) };
            let Some(connection) = idle.lock().unwrap().pop_front() else {
                if rate.is_infinite() {
                    break;
                }
                sent += 1;
                outcome.lock().unwrap().unsent += u64::from(is_measured);
                continue;
            };
            connection.send(Due { number: sent, at, is_measured }).unwrap();
            sent += 1;
            measured += u64::from(is_measured);
        }
    }
    let last = begin + WARM_UP + time + LAST;
    while idle.lock().unwrap().len() < connections && ticks.tick().await < last {
        sleep(TICK).await;
    }
    let mut outcome = std::mem::take(&mut *outcome.lock().unwrap());
    outcome.failed = measured - (outcome.served.len() + outcome.refused.len()) as u64;
    outcome
}

/// When the request of this number is due.
#[expect(clippy::cast_precision_loss, reason = "there are not so many requests")]
fn at(number: u64, rate: f64) -> Duration {
    Duration::from_secs_f64(number as f64 / rate)
}

/// Sends the requests that a connection is handed, one at a time.
async fn ask(
    mut stream: TcpStream,
    mut due: UnboundedReceiver<Due>,
    sender: UnboundedSender<Due>,
    request: Request,
    (idle, outcome): (Idle, Arc<Mutex<Outcome>>),
) {
    let mut answer = vec![0; 16 << 10];
    while let Some(Due { number, at, is_measured }) = due.recv().await {
        stream.write_all(request(number).as_bytes()).await.unwrap();
        let status = read(&mut stream, &mut answer).await;
        if is_measured {
            let mut outcome = outcome.lock().unwrap();
            match status {
                200 => outcome.served.push(at.elapsed()),
                429 | 503 => outcome.refused.push(at.elapsed()),
                _ => {}
            }
        }
        idle.lock().unwrap().push_back(sender.clone());
    }
}
