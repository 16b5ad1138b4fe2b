//! What is not a matter of so many requests a second: latency at a given pace, the time to the first answer, memory, and
//! e-mails that wait.

use std::fs;
use std::time::Duration;

use crate::contenders::{Contender, Ground};
use crate::fill::timed;
use crate::pace;
use support::process::Server;

/// How long requests wait that come at their own pace.
pub fn paced(ground: &Ground, rounds: usize, seconds: u32) {
    println!("\ncounted fetches of 2 KB, {} a second offered\n", pace::OFFERED);
    println!("| server | p50, µs | p99, µs | of p99, range |");
    println!("|---|--:|--:|--:|");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let contenders = [Contender::AxumJson, Contender::Hand, Contender::OursOnAxum, Contender::OursOnRocket];
    let servers = contenders.map(|contender| (contender, ground.start(contender), Vec::new()));
    let mut servers = Vec::from(servers);
    for _ in 0..rounds {
        for (_, server, measured) in &mut servers {
            measured.push(runtime.block_on(pace::latencies(server.address, &ground.keys, seconds)));
        }
    }
    for (contender, server, mut measured) in servers {
        measured.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let (median, p99) = measured[measured.len() / 2];
        let (least, most) = (measured[0].1, measured[measured.len() - 1].1);
        println!("| {} | {median:.0} | {p99:.0} | {least:.0}–{most:.0} |", contender.name());
        server.terminate();
    }
}

/// Time to the first answer, memory, size, and e-mails a second.
pub fn print(ground: &Ground) {
    println!(
        "\n| server | to the first answer | resident, idle | resident, {} keys used | program |",
        ground.keys.len()
    );
    println!("|---|--:|--:|--:|--:|");
    for contender in [Contender::OursOnAxum, Contender::OursOnRocket] {
        let mut starts: Vec<Duration> = (0..5).map(|_| start(ground, contender).1).collect();
        starts.sort();
        let (server, _) = start(ground, contender);
        let idle = resident(&server);
        ground.warm_up(&server);
        let program = fs::metadata(format!("/proc/{}/exe", server.id())).unwrap().len();
        let (used, program) = (resident(&server), f64::from(u32::try_from(program).unwrap()) / 1e6);
        println!("| {} | {:.1?} | {idle:.1} MB | {used:.1} MB | {program:.1} MB |", contender.name(), starts[2]);
        server.terminate();
    }
    let waiting = 2 * ground.keys.len();
    let before = ground.sink.taken();
    let server = ground.start_with_messages();
    let (sent, took) = tokio::runtime::Runtime::new().unwrap().block_on(timed(async {
        loop {
            let sent = ground.sink.taken() - before;
            if sent >= waiting {
                return sent;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }));
    let speed = f64::from(u32::try_from(sent).unwrap()) / took.as_secs_f64();
    println!("\n{sent} e-mails that waited went out by SMTP in {took:.1?}: {speed:.0} a second");
    server.terminate();
}

/// A server, and how long it took to its first answer.
fn start(ground: &Ground, contender: Contender) -> (Server, Duration) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Copying the store is not its start.
    let command = ground.command(contender);
    runtime.block_on(timed(async {
        let server = Server::start(command);
        assert_eq!(server.exchange("GET", "/healthz", "", "").0.split(' ').nth(1), Some("200"));
        server
    }))
}

/// In megabytes.
fn resident(server: &Server) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    kilobytes.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1e3
}
