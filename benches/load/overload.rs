//! What a server does that is offered more than it can do.
//!
//! Server and database run on the first processor, the load on the others, so that more load does not make the server
//! slower. What the server can do is the best of three closed loops.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::contenders::{Contender, Ground};
use crate::open::{Outcome, Request, offer};
use crate::wrk::Load;
use support::process::{SECRET, Server};

/// The processor of the server.
const FIRST: &str = "0";

/// Connections of closed loops.
const CLOSED: [usize; 3] = [64, 256, 1024];
/// Connections that carry a rate.
const OPEN: usize = 8192;
/// What is offered, as parts of what the server can do.
const OFFERED: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// What a refusal should take at most.
const SOON: Duration = Duration::from_millis(250);

const SCENARIOS: [(&str, Contender, Load); 7] = [
    ("overload: orders, SQLite", Contender::OursOnAxum, Load::Order),
    ("overload: orders, SQLite, on Rocket", Contender::OursOnRocket, Load::Order),
    ("overload: orders, PostgreSQL", Contender::OursOnPostgres, Load::Order),
    ("overload: fetches, SQLite, 1 ms more for each sync", Contender::OursOnSlowDisk, Load::Fetch),
    ("overload: fetches, PostgreSQL", Contender::OursOnPostgres, Load::Fetch),
    ("overload: fetches, SQLite", Contender::OursOnAxum, Load::Fetch),
    ("overload: validations, SQLite", Contender::OursOnAxum, Load::Validate),
];

/// Measures each scenario, a row for each rate. Times are in milliseconds.
pub fn print(ground: &Ground, seconds: u32, only: &str) {
    let mut scenarios = SCENARIOS.iter().filter(|(name, ..)| name.contains(only)).peekable();
    if scenarios.peek().is_none() {
        return;
    }
    let processors = std::thread::available_parallelism().unwrap().get();
    if processors == 1 {
        println!("\nLEFT OUT: overload: the load needs a processor of its own");
        return;
    }
    println!(
        "\n| load | offered a second | served a second | of the best | within, p50 and p99 | refused a second \
         | within, p50, p99 and most | later than {SOON:?} | no connection | no answer |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    move_to(&format!("1-{}", processors - 1), std::process::id());
    for &(name, contender, load) in scenarios {
        if contender.on_postgres() {
            if !support::programs::is_there("postgres") {
                println!("LEFT OUT: {name}: there is no PostgreSQL");
                continue;
            }
            move_to(FIRST, support::postgres::postgres().process().parse().unwrap());
        }
        let server = Server::start(on_first_processor(&ground.command(contender)));
        if load != Load::Order {
            ground.warm_up(&server);
        }
        measure(name, server.address, &request(ground, load), Duration::from_secs(seconds.into()));
        server.terminate();
    }
}

fn measure(name: &str, server: SocketAddr, request: &Request, time: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let offer = |connections, rate| runtime.block_on(offer(server, connections, request, rate, time));
    let closed = CLOSED.map(|connections| per_second(offer(connections, f64::INFINITY).served.len(), time));
    let best = closed.into_iter().fold(0.0, f64::max);
    println!("| {name} | closed loop | {best:.0} | | | | | | | |");
    for part in OFFERED {
        let Outcome { mut served, mut refused, unsent, failed } = offer(OPEN, best * part);
        let (good, late) = (per_second(served.len(), time), refused.iter().filter(|time| **time > SOON).count());
        println!(
            "| {name} | {:.0} | {good:.0} | {:.2} | {} | {:.0} | {} | {late} | {unsent} | {failed} |",
            best * part,
            good / best,
            hundredths(&mut served, &[50, 99]),
            per_second(refused.len(), time),
            hundredths(&mut refused, &[50, 99, 100]),
        );
    }
}

/// Requests of a kind: each order is another one, and keys come again and again.
fn request(ground: &Ground, load: Load) -> Request {
    static RUN: AtomicU32 = AtomicU32::new(0);
    let run = RUN.fetch_add(1, Ordering::Relaxed);
    let keys = ground.keys.clone();
    // A prime number far from its neighbours: keys come in no order.
    let key = move |number: u64| keys[usize::try_from(number * 7_919).unwrap() % keys.len()].clone();
    match load {
        Load::Validate => Arc::new(move |number| get("/api/validate?key=", &key(number))),
        Load::Fetch => Arc::new(move |number| get("/api/product?product_id=1&key=", &key(number))),
        _ => {
            // Numbers begin anew with each rate; orders do not.
            let orders = AtomicU64::new(0);
            Arc::new(move |_| {
                let number = orders.fetch_add(1, Ordering::Relaxed);
                let order = format!(
                    "{{\"secret\":\"{SECRET}\",\"order_id\":\"{run}-{number}\",\"product_id\":1,\
                     \"customer_email\":\"buyer@example.com\"}}"
                );
                let length = order.len();
                format!(
                    "POST /api/webhook/order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{order}"
                )
            })
        }
    }
}

fn get(path: &str, key: &str) -> String {
    format!("GET {path}{key} HTTP/1.1\r\nHost: x\r\n\r\n")
}

fn on_first_processor(server: &Command) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", FIRST]).arg(server.get_program()).args(server.get_args()).env_clear();
    command.envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.envs(["MAX_CONNECTIONS", "MAX_CONNECTIONS_PER_ADDRESS"].map(|most| (most, "20000")));
    command.current_dir(server.get_current_dir().unwrap()).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn move_to(processors: &str, process: u32) {
    let moved =
        Command::new("taskset").args(["--all-tasks", "--cpu-list", "--pid", processors, &process.to_string()]).output();
    assert!(moved.expect("taskset, of util-linux").status.success());
}

fn per_second(count: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / time.as_secs_f64()
}

/// Some hundredths of the times, in milliseconds; nothing of no times.
fn hundredths(times: &mut [Duration], hundredths: &[usize]) -> String {
    times.sort();
    let Some(last) = times.len().checked_sub(1) else { return String::new() };
    let at = |hundredth: &usize| format!("{:.0}", times[last * hundredth / 100].as_secs_f64() * 1e3);
    hundredths.iter().map(at).collect::<Vec<_>>().join(", ")
}
