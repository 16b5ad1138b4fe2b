//! Hours of mixed load on three shops at once, with kills, restarts of the database and steps of the clock:
//! `cargo build --release --example axum_server --example rocket_server && cargo bench -p delivery-benches --bench soak -- --minutes 120`.
//! Needs PostgreSQL and faketime. Beside other work, `--pause` sets how long each of eight clients a shop waits between requests.
//!
//! Each shop has a server that is never killed, or a database file that survives every kill. First its key cache is filled, which
//! takes some minutes. Printed are the memory of servers and
//! its slope, the sizes of files, and what clients were told beside what the shop has. Anything lost or counted twice ends the run.

#[path = "../../tests/servers/crash/clients.rs"]
mod clients;
mod mail;
mod samples;
mod shop;
mod visitors;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;

use crate::shop::{Shop, Trouble};

/// Whether hours of load, kills, restarts and clock steps leave everything whole and memory flat
#[derive(Parser)]
struct Arguments {
    /// How long
    #[arg(long, default_value_t = 120)]
    minutes: u64,
    /// Milliseconds that each of eight clients of a shop waits between two requests
    #[arg(long, default_value_t = 100)]
    pause: u64,
    /// Seconds between two troubles of a shop, at most
    #[arg(long, default_value_t = 90)]
    every: u64,
    /// Where samples of memory and files are written, a line each
    #[arg(long, default_value = concat!(env!("CARGO_TARGET_TMPDIR"), "/soak.csv"))]
    samples: PathBuf,
    /// What `cargo bench` says
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let arguments = Arguments::parse();
    let pause = Duration::from_millis(arguments.pause);
    let mut shops = vec![
        Shop::new("axum over SQLite, never killed", &["axum_server"], None, &[Trouble::Clock], pause),
        Shop::new(
            "Rocket over SQLite",
            &["rocket_server"],
            None,
            &[Trouble::Kill, Trouble::Stop, Trouble::Clock],
            pause,
        ),
    ];
    if support::programs::is_there("postgres") {
        let postgres = support::postgres::postgres();
        let servers = ["axum_server", "rocket_server"];
        // The first server is never killed.
        let troubles = [Trouble::Kill, Trouble::Stop, Trouble::Clock, Trouble::Database, Trouble::DatabaseStops];
        shops.push(Shop::new("both over PostgreSQL", &servers, Some(postgres), &troubles, pause));
    } else {
        println!("LEFT OUT: the shop over PostgreSQL, which is not on this machine");
    }
    let (length, every) = (Duration::from_secs(arguments.minutes * 60), Duration::from_secs(arguments.every));
    let samples = samples::File::create(&arguments.samples);
    let failed = Arc::new(AtomicBool::new(false));
    let (told, tell) = (failed.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        told.store(true, Ordering::Relaxed);
        tell(panic);
    }));
    thread::scope(|scope| {
        for shop in &mut shops {
            scope.spawn(|| shop.soak(length, every, &samples, &failed));
        }
    });
    for shop in &mut shops {
        shop.finish();
    }
    assert!(!failed.load(Ordering::Relaxed), "something failed: see above");
    println!("\nnothing was lost; samples: {}", arguments.samples.display());
}
