//! Running: a kill, limits, health, the log, the end.

use std::fs;
use std::io::Write;
use std::time::Duration;

use serde_json::json;

use crate::process::{CONFIGURED, Site, read_answer, status};

pub fn a_kill_loses_nothing_and_nothing_secret_is_written_anywhere(site: &Site) {
    let settings = [&CONFIGURED[..], &[("RUST_LOG", "trace"), ("LIMIT_WEBHOOK", "100")]].concat();
    let server = site.start(&settings);
    assert_eq!(server.add_product().0, 200);
    let mut keys = Vec::new();
    for order in 0..20 {
        let (status, answer) = server.order(&order.to_string());
        assert_eq!(status, 200, "{answer}");
        let key = answer["api_key"].as_str().unwrap().to_owned();
        assert_eq!(server.fetch(&key), 200);
        keys.push(key);
    }
    assert_eq!(server.fetch(&keys[0].replace("dlv_", "dlv_0")), 401);
    let mut log = server.kill();

    let server = site.start(&settings);
    for (order, key) in keys.iter().enumerate() {
        let (_, answer) = server.call("GET", "/api/validate", &format!("Authorization: Bearer {key}\r\n"), "");
        assert_eq!(answer["used_count"], 1, "{answer}");
        assert_eq!(server.order(&order.to_string()).1["api_key"], key.as_str());
    }
    let deadline = Duration::from_secs(30);
    wait_for(deadline, || site.letters().len() == 20);
    log.push_str(&server.terminate());
    let letters = site.letters().concat().replace("=\r\n", "");
    let data = site.data();
    for key in &keys {
        assert!(letters.contains(key), "every key was sent");
        for file in ["delivery.db", "delivery.db-wal"] {
            let bytes = fs::read(data.join(file)).unwrap_or_default();
            assert!(!contains(&bytes, key.as_bytes()), "{file} holds a key");
        }
        assert!(!log.contains(key.as_str()), "the log holds a key");
    }
    for (name, secret) in CONFIGURED {
        assert!(!log.contains(secret), "the log holds {name}");
        assert!(!contains(&fs::read(data.join("delivery.db")).unwrap(), secret.as_bytes()));
    }
    assert!(!log.contains("product_id=1"), "the log holds a query string");
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// Asks again and again, without a pause of its own: the condition reads files.
fn wait_for(deadline: Duration, condition: impl Fn() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < deadline, "it never came to be");
        std::thread::yield_now();
    }
}

pub fn limits_and_terms_are_the_configured_ones(site: &Site) {
    let settings = [&CONFIGURED[..], &[("LIMIT_VALIDATE", "2"), ("KEY_DAYS", "-1"), ("KEY_USES", "1")]].concat();
    let server = site.start(&settings);
    server.add_product();
    let key = server.order("A").1["api_key"].as_str().unwrap().to_owned();
    let validate = || server.call("GET", &format!("/api/validate?key={key}"), "", "");
    let (status, answer) = validate();
    assert_eq!((status, &answer["expires_at"]), (200, &json!("9999-12-31T23:59:59Z")));
    assert_eq!([server.fetch(&key), server.fetch(&key)], [200, 403]);
    assert_eq!([validate().0, validate().0], [403, 429]);
    server.terminate();
}

pub fn health_and_readiness_and_unknown_paths(site: &Site) {
    let server = site.start(&CONFIGURED);
    for (line, expected, body) in [
        ("GET /healthz", 200, r#"{"status":"ok"}"#),
        ("GET /readyz", 200, r#"{"status":"ready"}"#),
        ("HEAD /healthz", 200, ""),
        ("POST /healthz", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
        ("GET /healthz/", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
        ("GET /api/nothing", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
        ("GET /", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
    ] {
        let (method, target) = line.split_once(' ').unwrap();
        let (head, said) = server.exchange(method, target, "", "");
        assert_eq!((status(&head), said.as_str()), (expected, body), "{line}");
        assert!(head.contains("content-type: application/json"), "{line}: {head}");
    }
    server.terminate();
}

pub fn every_answer_has_a_name_that_the_log_knows_and_the_log_has_no_query(site: &Site) {
    let server = site.start(&[&CONFIGURED[..], &[("RUST_LOG", "info,request=debug")]].concat());
    let field = |head: &str, name: &str| {
        let found = head.lines().filter_map(|line| line.split_once(": ")).find(|(field, _)| *field == name);
        found.map(|(_, value)| value.to_owned())
    };
    let too_long = "x".repeat(65);
    let mut names = Vec::new();
    for (target, given, kept) in [
        ("/healthz", "", false),
        ("/api/validate?key=a-secret-key", "from-the.proxy_1:2", true),
        ("/api/validate?key=a-secret-key", "two words", false),
        ("/api/validate?key=a-secret-key", too_long.as_str(), false),
        ("/a-secret-key", "", false),
    ] {
        let header = if given.is_empty() { String::new() } else { format!("X-Request-Id: {given}\r\n") };
        let (head, _) = server.exchange("GET", target, &header, "");
        assert_eq!(field(&head, "x-content-type-options").as_deref(), Some("nosniff"), "{head}");
        let name = field(&head, "x-request-id").unwrap();
        assert_eq!(name == given, kept, "{name}");
        names.push(name);
    }
    let log = server.terminate();
    for name in &names {
        assert!(log.contains(name.as_str()), "{name}: {log}");
    }
    assert!(log.contains("path=\"/api/validate\" status=401"), "{log}");
    assert!(!log.contains("a-secret-key") && !log.contains("two words"), "{log}");
}

pub fn an_open_request_is_finished_and_then_the_server_ends(site: &Site) {
    let server = site.start(&CONFIGURED);
    let mut idle = server.connect();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let body = json!({ "order_id": "A", "product_id": 1, "customer_email": "a@example.com", "secret": "wrong" });
    let body = body.to_string();
    let mut open = server.connect();
    let length = body.len();
    let head = format!(
        "POST /api/webhook/order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    let (begin, end) = body.split_at(20);
    open.write_all((head + begin).as_bytes()).unwrap();
    // Answered on a connection of its own after the two were accepted.
    assert_eq!(server.call("GET", "/healthz", "", "").0, 200);
    server.ask_to_stop();
    // The idle one is closed at once.
    assert_eq!(status(&read_answer(&mut idle).0), 200);
    open.write_all(end.as_bytes()).unwrap();
    assert_eq!(status(&read_answer(&mut open).0), 401);
    server.ended();
}
