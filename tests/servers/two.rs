//! Two servers over one PostgreSQL database, one on axum and one on Rocket.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::crash::clients::Done;
use crate::files;
use support::postgres::{administer, column, postgres};
use support::process::{PLENTY, SECRET, Server, Site, configured, key_of};
use support::redis::Redis;
use support::wait_for;

/// A database of its own, and a server of each kind over it, with these settings too.
fn two(more: &[(&str, &str)]) -> (String, [Site; 2], [Server; 2]) {
    let url = postgres().database();
    let sites = [Site::new("axum_server"), Site::new("rocket_server")];
    let settings = [&PLENTY[..], &[("DATABASE_URL", &url), ("GUMROAD_TOKEN", SECRET)], more].concat();
    let servers = [sites[0].shop(&settings), sites[1].start_with(&settings)];
    (url, sites, servers)
}

/// Does it so often, on both in turn, from eight threads.
fn storm<T: Send>(servers: &[Server; 2], count: usize, act: impl Fn(&Server, usize) -> T + Sync) -> Vec<T> {
    let act = &act;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|first| {
                scope.spawn(move || (first..count).step_by(8).map(|i| act(&servers[i % 2], i)).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// A key with this number of uses.
fn issue(server: &Server, uses: u32) -> String {
    let terms = json!({ "product_id": 1, "customer_email": "a@example.com", "max_uses": uses });
    key_of(server.admin("POST", "issue-key", &terms))
}

/// A client sends again what was answered 503. On a busy machine, one server can hold a row for longer than the other
/// lets its caller wait.
fn patient(call: impl Fn() -> (u16, Value)) -> (u16, Value) {
    (0..5).map(|_| call()).find(|(status, _)| *status != 503).expect("a free row")
}

/// Forty requests, each sent eleven times to both in turn and at once: each counts once.
#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn requests_that_come_again_count_once_across_both() {
    let (_, _sites, servers) = two(&[]);
    let key = issue(&servers[1], 40);
    let fetch = |server: &Server, index: usize| {
        let header = format!("X-API-Key: {key}\r\nIdempotency-Key: request {}\r\n", index / 11);
        patient(|| server.call("GET", "/api/product?product_id=1", &header, "")).0
    };
    let statuses = storm(&servers, 440, fetch);
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    for server in &servers {
        let (status, answer) = server.validate(&key);
        assert_eq!((status, &answer["used_count"]), (403, &json!(40)), "as many uses as requests");
    }
    assert_eq!(fetch(&servers[0], 0), 403, "the twelfth of its name");
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn both_serve_the_files_that_one_took_and_neither_those_of_a_revoked_key() {
    // A second, and time for a busy machine.
    const A_SECOND: Duration = Duration::from_secs(10);
    let folder = tempfile::tempdir().unwrap();
    let (_, _sites, servers) = two(&[("FILES_URL", &format!("file://{}", folder.path().display()))]);
    let old = files::bytes(300_000);
    for (one, other) in [(0, 1), (1, 0)] {
        let (one, other) = (&servers[one], &servers[other]);
        files::upload(one, "guide.pdf", &old);
        let key = issue(one, 100);
        wait_for(A_SECOND, || files::names(other) == ["guide.pdf"]);
        wait_for(A_SECOND, || files::part(other, &files::open(other, &key), 0, 99, 99) == old[..99]);
        let path = files::open(other, &key);
        for server in &servers {
            assert!(files::part(server, &path, 0, old.len(), usize::MAX >> 1) == old);
        }
        files::upload(other, "guide.pdf", b"new");
        assert!(files::part(one, &path, 1000, 2000, usize::MAX >> 1) == old[1000..2000], "the replaced file");
        wait_for(A_SECOND, || files::part(one, &files::open(one, &key), 0, 3, 99) == b"new");
        let (_, keys) = one.admin("GET", "keys?limit=1", &Value::Null);
        assert_eq!(one.admin("POST", "key/revoke", &json!({ "id": keys["keys"][0]["id"] })).0, 200);
        wait_for(A_SECOND, || servers.iter().all(|server| server.call("GET", &path, "", "").0 == 403));
    }
}

#[test]
#[cfg_attr(any(without = "postgres", without = "redis-server"), ignore = "needs postgres and redis-server")]
fn limits_are_shared_through_redis() {
    // A server that has waited half a second for Redis limits on its own, and logs that. It can happen on a busy
    // machine. Such a round shows nothing of shared limits, and is followed by one with another Redis. Without a
    // setting, 60 are admitted.
    let statuses = (0..5).find_map(|_| {
        let redis = Redis::start();
        let (_, _sites, servers) = two(&[("REDIS_URL", &redis.url()), ("LIMIT_VALIDATE", "")]);
        let statuses = storm(&servers, 100, |server, _| server.validate("x").0);
        let logs = servers.map(Server::terminate).concat();
        (!logs.contains("Redis is unavailable")).then_some(statuses)
    });
    let statuses = statuses.expect("a Redis that answers");
    let admitted = statuses.iter().filter(|status| **status == 401).count();
    assert_eq!((admitted, statuses.len()), (60, 100), "{statuses:?}");
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn the_same_event_sent_to_both_at_once_again_and_again_is_one_key_and_one_message_each() {
    let events = support::rounds(200, 1000);
    let (url, sites, servers) = two(&[]);
    let product = json!({ "name": "Guide", "content": "x", "refs": { "gumroad": ["guide"] } });
    assert_eq!(servers[0].admin("POST", "product", &product).0, 200);
    let told = storm(&servers, 2 * events, |server, index| {
        let sale = format!("sale_id={}&resource_name=sale&permalink=guide&email=a%40example.com", index / 2);
        patient(|| server.call("POST", &format!("/api/webhook/gumroad?token={SECRET}"), "", &sale))
    });
    let received = json!({ "received": true });
    assert!(told.iter().all(|answer| *answer == (200, received.clone())), "{told:?}");
    // Those beyond the limit of a minute are applied by whichever server takes them.
    let counted = |what: &str| count(&url, what);
    wait_for(Duration::from_mins(1), || counted("delivery_inbox WHERE outcome = 'issued'") == events);
    assert_eq!([counted("delivery_inbox"), counted("delivery_key"), counted("delivery_message")], [events; 3]);
    wait_for(Duration::from_mins(1), || sites.iter().flat_map(Site::messages).count() >= events);
    let _logs = servers.map(Server::terminate);
    assert_eq!(sites.iter().flat_map(Site::messages).count(), events);
}

/// How many rows there are.
fn count(url: &str, of: &str) -> usize {
    let rows: Vec<i64> = column(url, format!("SELECT count(*) FROM delivery.{of}"));
    rows[0].try_into().unwrap()
}

/// What a release may do to the schema while servers of the release before run: `examples/deploy/README.md` has the rule.
#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn servers_go_on_while_a_newer_one_adds_to_the_schema_and_do_not_start_on_it() {
    let (url, sites, servers) = two(&[]);
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _done = Done(&done);
        for client in 0..8 {
            let (servers, done, answered) = (&servers, &done, &answered);
            scope.spawn(move || {
                for number in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let server = &servers[(client + number) % 2];
                    let key = server.sell(&format!("{client}-{number}"));
                    assert_eq!(servers[number % 2].fetch(&key), 200);
                    let (status, answer) = server.validate(&key);
                    assert_eq!((status, &answer["used_count"]), (200, &json!(1)), "{answer}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more = || {
            let before = answered.load(Ordering::Relaxed);
            wait_for(Duration::from_mins(1), || answered.load(Ordering::Relaxed) >= before + 20);
        };
        more();
        for table in tables(&url) {
            let table = format!("delivery.{table}");
            administer(&url, &format!("ALTER TABLE {table} ADD COLUMN added_null text"));
            administer(&url, &format!("ALTER TABLE {table} ADD COLUMN added_default bigint NOT NULL DEFAULT 7"));
            administer(&url, &format!("CREATE INDEX CONCURRENTLY ON {table} (added_default)"));
        }
        administer(&url, "CREATE TABLE delivery.delivery_added (number bigint PRIMARY KEY)");
        let newer = "INSERT INTO delivery._delivery_migrations (version, description, success, checksum, execution_time) \
            VALUES (1000, 'newer', true, '', 0)";
        administer(&url, newer);
        more();
    });
    let _logs = servers.map(Server::terminate);
    sites[0].refuses(&configured(&[("DATABASE_URL", &url)]), &[], "newer version of this software");
}

/// The tables of the store.
fn tables(url: &str) -> Vec<String> {
    const TABLES: &str =
        r"SELECT tablename::text FROM pg_tables WHERE schemaname = 'delivery' AND tablename LIKE 'delivery\_%'";
    let tables: Vec<String> = column(url, TABLES.to_owned());
    assert!(tables.len() > 10, "{tables:?}");
    tables
}
