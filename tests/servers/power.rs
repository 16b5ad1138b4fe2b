//! Power loss under SQLite: SIGKILL keeps what the system has in memory, a power cut does not.
//!
//! `strace` records every write, sync and answer of a server under load. A power cut is a place in that record: of each file
//! there is what a sync that had ended covers, and of every later write some sectors by chance, or none. A store that is
//! opened from that must have all that was answered before the cut. `POWER_CUTS=1000 cargo test --test servers power` cuts more often,
//! `POWER_SEED=7` elsewhere.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use delivery_core::key::Keyring;
use delivery_core::store::{Backend, KeyQuery, SqliteStore};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use support::process::{self, CONFIGURED, JSON, PLENTY, Server, Site, key_of};

const FILES: [&str; 2] = ["delivery.db", "delivery.db-wal"];
/// What a disk writes as a whole, in bytes.
const SECTOR: usize = 512;
/// Clients at once.
const CLIENTS: u32 = 4;

enum Event {
    Write {
        file: usize,
        offset: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        file: usize,
        length: usize,
    },
    /// Covers what stands before that place in the record.
    Synced {
        file: usize,
        since: usize,
    },
    /// The name of a request that was answered 200.
    Answered(String),
}

#[test]
#[cfg_attr(without = "strace", ignore = "needs strace")]
fn what_was_answered_survives_a_power_cut_at_any_moment() {
    let site = Site::new("axum_server");
    let server = site.shop(&PLENTY);
    server.sell("before");
    let record = site.path().join("record");
    let calls = "pwrite64,ftruncate,fdatasync,fsync,write,writev,sendto,sendmsg";
    let mut strace = Command::new("strace");
    strace.args(["-y", "-xx", "-s", "1000000", "-e", &format!("trace={calls}"), "-o"]).arg(&record);
    let mut tracer = server.trace(&mut strace);
    // Nobody writes: this is what the disk has.
    let base = FILES.map(|file| fs::read(site.data().join(file)).unwrap());
    let keys = load(&server);
    server.kill();
    tracer.wait().unwrap();
    let events = events(&fs::read_to_string(&record).unwrap(), &site.data());
    let answers = events.iter().filter(|event| matches!(event, Event::Answered(_))).count();
    let syncs = [0, 1]
        .map(|of| events.iter().filter(|event| matches!(event, Event::Synced { file, .. } if *file == of)).count());
    println!("{answers} answers, {} events, {} and {} syncs of the file and its WAL", events.len(), syncs[0], syncs[1]);
    assert!(answers > 200 && keys.len() > 50 && syncs[0] > 0 && syncs[1] > 50, "too little to cut");
    let seed = number("POWER_SEED").unwrap_or(1);
    let mut chance = StdRng::seed_from_u64(seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for round in 0..support::rounds_of("POWER_CUTS", 10, 30) {
        let cut = chance.random_range(0..events.len());
        let folder = tempfile::tempdir().unwrap();
        for (file, bytes) in FILES.iter().zip(cut_off(&base, &events[..cut], &mut chance)) {
            fs::write(folder.path().join(file), bytes).unwrap();
        }
        runtime.block_on(check(folder.path(), &events[..cut], &keys, &format!("seed {seed}, cut {round} at {cut}")));
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().unwrap())
}

/// Orders and fetches from several clients; the keys of the orders. Each request has a name that its answer repeats.
fn load(server: &Server) -> HashMap<String, String> {
    let next = AtomicU32::new(0);
    // Several checkpoints long.
    let orders = support::rounds(350, 600);
    let client = || {
        let mut keys = Vec::new();
        loop {
            let order = next.fetch_add(1, Ordering::Relaxed);
            if order >= orders {
                return keys;
            }
            let order = order.to_string();
            let head = format!("{JSON}X-Request-Id: order.{order}\r\n");
            let body = process::order(&order).to_string();
            let key = key_of(server.call("POST", "/api/webhook/order", &head, &body));
            for use_ in 0..3 {
                let head = format!("X-API-Key: {key}\r\nX-Request-Id: use.{order}.{use_}\r\n");
                assert_eq!(server.call("GET", "/api/product?product_id=1", &head, "").0, 200);
            }
            keys.push((order, key));
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

/// Reads what strace wrote: a line a call, or two where another thread's call came between.
fn events(record: &str, data: &Path) -> Vec<Event> {
    let mut events = Vec::new();
    // Syncs that have begun, by thread: the file, and what they cover.
    let mut begun: HashMap<&str, (usize, usize)> = HashMap::new();
    let paths = FILES.map(|file| data.join(file).into_os_string().into_encoded_bytes());
    for line in record.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // `fdatasync(9<\x2f\x74...>)`
        let path = call.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(path, _)| bytes(path));
        let file = path.and_then(|path| paths.iter().position(|known| *known == path));
        let strings = || call.split('"').skip(1).step_by(2).flat_map(bytes).collect::<Vec<u8>>();
        let numbers = || {
            let end = call.rsplit_once('"').map_or(call, |(_, end)| end);
            let number = |text: &str| text.trim().parse::<usize>().ok();
            end.split([',', ')', '<', '>', ' ']).filter_map(number).collect::<Vec<_>>()
        };
        match (call.split('(').next().unwrap_or_default(), file) {
            ("pwrite64", Some(file)) => {
                let (written, numbers) = (strings(), numbers());
                assert_eq!(numbers[0], written.len(), "strace cuts no data");
                events.push(Event::Write { file, offset: numbers[1], bytes: written });
            }
            ("ftruncate", Some(file)) => events.push(Event::Truncate { file, length: numbers()[0] }),
            ("fdatasync" | "fsync", Some(file)) if call.contains("unfinished") => {
                begun.insert(thread, (file, events.len()));
            }
            ("fdatasync" | "fsync", Some(file)) => events.push(Event::Synced { file, since: events.len() }),
            ("write" | "writev" | "sendto" | "sendmsg", None) => {
                let sent = String::from_utf8_lossy(&strings()).into_owned();
                let answered = sent.starts_with("HTTP/1.1 200").then(|| sent.split("x-request-id: ").nth(1)).flatten();
                let request = answered.and_then(|rest| rest.lines().next());
                events.extend(request.map(|request| Event::Answered(request.trim().to_owned())));
            }
            (resumed, _) if resumed.contains("sync resumed") => {
                // Of another file, or of one of ours.
                events.extend(begun.remove(thread).map(|(file, since)| Event::Synced { file, since }));
            }
            _ => {}
        }
    }
    events
}

/// The bytes of `\x7b\x22`.
fn bytes(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).filter_map(|byte| u8::from_str_radix(byte.get(..2)?, 16).ok()).collect()
}

/// The files as a power cut after these events leaves them.
fn cut_off(base: &[Vec<u8>; 2], events: &[Event], chance: &mut StdRng) -> [Vec<u8>; 2] {
    let mut synced = [0; 2];
    for event in events {
        if let Event::Synced { file, since } = event {
            synced[*file] = synced[*file].max(*since);
        }
    }
    // How likely a sector that was not synced is there: a cut may come long after, or at once.
    let likely = chance.random_range(0.0..=1.0);
    let mut files = base.clone();
    for (place, event) in events.iter().enumerate() {
        match event {
            Event::Write { file, offset, bytes } => {
                for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                    if place < synced[*file] || chance.random_bool(likely) {
                        let (start, content) = (offset + index * SECTOR, &mut files[*file]);
                        content.resize(content.len().max(start + sector.len()), 0);
                        content[start..start + sector.len()].copy_from_slice(sector);
                    }
                }
            }
            Event::Truncate { file, length } if place < synced[*file] || chance.random_bool(likely) => {
                files[*file].resize(*length, 0);
            }
            _ => {}
        }
    }
    files
}

/// Opens what is left, and looks for all that was answered.
async fn check(folder: &Path, events: &[Event], keys: &HashMap<String, String>, what: &str) {
    let store = SqliteStore::open(folder.join("delivery.db")).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let ring: Keyring = CONFIGURED[2].1.parse().unwrap();
    let mut uses: HashMap<&str, u64> = HashMap::new();
    for event in events {
        let Event::Answered(name) = event else { continue };
        if let Some(order) = name.strip_prefix("order.") {
            uses.insert(order, 0);
        } else if let Some((order, _)) = name.strip_prefix("use.").and_then(|name| name.split_once('.')) {
            *uses.get_mut(order).unwrap() += 1;
        }
    }
    for (order, answered) in uses {
        let query = KeyQuery { order: Some(order.parse().unwrap()), limit: 2, ..KeyQuery::default() };
        let found = store.search(&query).await.unwrap().items;
        let [key] = &found[..] else { panic!("{what}: order {order} has {} keys", found.len()) };
        let text = ring.text(key.id(), key.granted().secret);
        assert_eq!(text.expose(), keys[order], "{what}: order {order}");
        let count = key.used();
        assert!(
            (answered..=3).contains(&count),
            "{what}: order {order} was used {count} times, {answered} were answered"
        );
    }
    store.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join("delivery.db"));
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let sound: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
    assert_eq!(sound, "ok", "{what}");
}
