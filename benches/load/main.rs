//! Side by side, under load from a process of its own: this service, the bare frameworks, and a server as one writes it by
//! hand. `cargo build --release --example axum_server --example rocket_server && cargo bench -p delivery-benches --bench load` takes
//! some 25 minutes, needs `wrk`, and prints tables. `-- --only order` is a part of it; `paced`, `itself`, `connections` and
//! `overload` are names of parts too.
//!
//! Rounds of all servers alternate, so that what the machine does besides meets all of them; medians are shown, with the
//! range. Beside requests per second stands the processor time of the server's process for each: noise moves it least.

mod bare;
mod contenders;
#[path = "../scale/fill.rs"]
mod fill;
mod hand;
mod hand_postgres;
mod itself;
mod open;
mod overload;
mod pace;
mod report;
mod sink;
mod wrk;

use clap::Parser;

use crate::contenders::{Contender, Ground};
use crate::report::Report;
use crate::wrk::Load;

/// How this service does beside the bare frameworks and a server written by hand
#[derive(Parser)]
struct Arguments {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Rounds, of which the median is shown
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Keys in the store
    #[arg(long, default_value_t = 100_000)]
    keys: i64,
    /// Only what has this in its name
    #[arg(long, default_value = "")]
    only: String,
    /// Serve as this contender, from this folder or database: what this program calls itself with
    #[arg(long, hide = true, num_args = 2)]
    serve: Option<Vec<String>>,
    /// What `cargo bench` says
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is measured: a load, at so many connections, and who bears it. The first is what the others are compared with.
struct Scenario {
    name: &'static str,
    load: Load,
    connections: &'static [u32],
    contenders: &'static [Contender],
}

const AXUM: &[Contender] =
    &[Contender::AxumJson, Contender::AxumBytes, Contender::AxumWhole, Contender::Hand, Contender::OursOnAxum];
const ROCKET: &[Contender] =
    &[Contender::RocketJson, Contender::RocketBytes, Contender::RocketWhole, Contender::OursOnRocket];

const SCENARIOS: [Scenario; 9] = [
    Scenario { name: "validate", load: Load::Validate, connections: &[1, 64], contenders: AXUM },
    Scenario { name: "validate, Rocket", load: Load::Validate, connections: &[64], contenders: ROCKET },
    Scenario { name: "counted fetch of 2 KB", load: Load::Fetch, connections: &[1, 64], contenders: AXUM },
    Scenario { name: "counted fetch of 2 KB, Rocket", load: Load::Fetch, connections: &[64], contenders: ROCKET },
    Scenario {
        name: "order",
        load: Load::Order,
        connections: &[1, 64],
        contenders: &[Contender::Hand, Contender::OursOnAxum, Contender::OursOnRocket, Contender::OursByEvents],
    },
    Scenario {
        name: "order, e-mails by SMTP",
        load: Load::Order,
        connections: &[1, 64],
        contenders: &[Contender::Hand, Contender::OursBySmtp],
    },
    Scenario {
        name: "forged keys",
        load: Load::Forged,
        connections: &[1, 64],
        contenders: &[
            Contender::AxumJson,
            Contender::AxumWhole,
            Contender::OursOnAxum,
            Contender::OursOnRocket,
            Contender::OursByEvents,
        ],
    },
    Scenario {
        name: "counted fetch, 1 ms more for each sync",
        load: Load::Fetch,
        connections: &[64],
        contenders: &[Contender::HandOnSlowDisk, Contender::OursOnSlowDisk],
    },
    Scenario {
        name: "counted fetch on PostgreSQL",
        load: Load::Fetch,
        connections: &[1, 64, 256],
        contenders: &[Contender::HandOnPostgres, Contender::OursOnPostgres],
    },
];

/// The numbers of connections at which throughput is compared.
const CONNECTIONS: [u32; 5] = [1, 4, 16, 64, 256];

fn main() {
    let arguments = Arguments::parse();
    if let Some([name, place]) = arguments.serve.as_deref() {
        return contenders::serve(name, place);
    }
    let ground = Ground::new(arguments.keys);
    let mut report = Report::default();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&arguments.only)) {
        if scenario.contenders[0].on_postgres() && !support::programs::is_there("postgres") {
            println!("\nLEFT OUT: {}: there is no PostgreSQL", scenario.name);
            continue;
        }
        let servers: Vec<_> = scenario.contenders.iter().map(|contender| ground.start(*contender)).collect();
        // By hand there is nothing but fetches on PostgreSQL.
        if scenario.load != Load::Order && !scenario.contenders[0].on_postgres() {
            for server in &servers {
                ground.warm_up(server);
            }
        }
        for &connections in scenario.connections {
            for _ in 0..arguments.rounds {
                for (contender, server) in scenario.contenders.iter().zip(&servers) {
                    let measured = ground.press(server, contender.load(scenario.load), connections, arguments.seconds);
                    report.add(scenario.name, connections, contender.name(), measured);
                }
            }
            report.print(scenario.name, connections);
        }
        for server in servers {
            server.terminate();
        }
    }
    if "paced".contains(&arguments.only) {
        itself::paced(&ground, arguments.rounds, arguments.seconds);
    }
    if "itself".contains(&arguments.only) {
        itself::print(&ground);
    }
    if "connections".contains(&arguments.only) {
        against_connections(&ground, &arguments);
    }
    ground.disk();
    overload::print(&ground, arguments.seconds, &arguments.only);
}

/// Prints the throughput of counted fetches against connections.
fn against_connections(ground: &Ground, arguments: &Arguments) {
    let servers =
        [Contender::AxumJson, Contender::RocketJson, Contender::Hand, Contender::OursOnAxum, Contender::OursOnRocket];
    println!("\ncounted fetches a second at {CONNECTIONS:?} connections");
    for contender in servers {
        let server = ground.start(contender);
        ground.warm_up(&server);
        let speeds = CONNECTIONS
            .map(|connections| ground.press(&server, Load::Fetch, connections, arguments.seconds).per_second.round());
        server.terminate();
        println!("{}: {speeds:?}", contender.name());
    }
}
