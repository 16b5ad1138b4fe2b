//! Watching a server: metrics, the log as JSON, alerts, and how long records of uses are kept.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use support::faketime;
use support::process::{CONFIGURED, JSON, SECRET, Server, Site, configured, key_of, order_by, read_answer, status};
use support::smtp::{Script, SmtpServer};
use support::{free_port, wait_for};

/// How long a program is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    read_answer(&mut stream)
}

/// The number behind a name with its labels.
fn value(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

pub fn metrics_count_what_happened_apart_from_the_api(site: &Site) {
    let metrics = format!("127.0.0.1:{}", free_port());
    let mail = SmtpServer::alone(Script::KnowsSomeForCertain);
    let settings = [("METRICS_BIND", metrics.as_str()), ("SMTP_URL", &mail.url), ("GUMROAD_TOKEN", SECRET)];
    let server = site.shop(&settings);
    let key = server.sell("1");
    assert_eq!(server.fetch(&key), 200);
    assert_eq!(server.fetch("forged"), 401);
    let once = json!({ "product_id": 1, "customer_email": "ada@example.com", "max_uses": 1, "send_email": false });
    let once = key_of(server.admin("POST", "issue-key", &once));
    assert_eq!([server.fetch(&once), server.fetch(&once)], [200, 403]);
    // One sale that nobody can be sent, and one of a product that is not known here.
    let order = order_by("2", "no@example.com").to_string();
    assert_eq!(server.call("POST", "/api/webhook/order", JSON, &order).0, 200);
    let sale = "sale_id=3&resource_name=sale&permalink=unknown&email=a%40example.com";
    assert_eq!(server.call("POST", &format!("/api/webhook/gumroad?token={SECRET}"), "", sale).0, 200);
    let idle = server.connect();
    // Rocket accepts its connections itself, and does not tell how many are open.
    let connections = (site.program == "axum_server").then_some(1.0);
    let mut text = String::new();
    wait_for(PATIENCE, || {
        text = get(&metrics, "/metrics").1;
        let is_failed = value(&text, r#"delivery_messages_total{outcome="failed"}"#) == Some(1.0);
        let is_sent = value(&text, r#"delivery_messages_total{outcome="sent"}"#) == Some(1.0);
        is_failed
            && is_sent
            && value(&text, "delivery_messages_queued") == Some(0.0)
            && value(&text, "delivery_messages_failed") == Some(1.0)
            && value(&text, "delivery_connections") == connections
    });
    for (name, expected) in [
        (r#"delivery_requests_total{endpoint="/api/product",status="200"}"#, 2.0),
        (r#"delivery_requests_total{endpoint="/api/product",status="403"}"#, 1.0),
        (r#"delivery_requests_total{endpoint="/api/product",status="401"}"#, 1.0),
        (r#"delivery_request_seconds_count{endpoint="/api/product"}"#, 4.0),
        (r#"delivery_request_seconds_bucket{endpoint="/api/product",le="+Inf"}"#, 4.0),
        ("delivery_keys_issued_total", 3.0),
        ("delivery_uses_total", 2.0),
        (r#"delivery_refusals_total{code="EXCEEDED_USES"}"#, 1.0),
        (r#"delivery_refusals_total{code="INVALID_KEY"}"#, 1.0),
        (r#"delivery_messages_total{outcome="sent"}"#, 1.0),
        ("delivery_messages_failed", 1.0),
        ("delivery_messages_queued", 0.0),
        ("delivery_message_oldest_seconds", 0.0),
        (r#"delivery_platform_events_total{platform="gumroad",outcome="needs_attention"}"#, 1.0),
        ("delivery_platform_events_waiting", 1.0),
        ("delivery_store_answers", 1.0),
    ] {
        assert_eq!(value(&text, name), Some(expected), "{name}: {text}");
    }
    for name in ["delivery_commit_seconds_count", "delivery_batch_operations_count", "delivery_queue_depth"] {
        assert!(value(&text, name).is_some(), "{name}: {text}");
    }
    // Each is described, and none is a key or an address.
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(text.contains(&format!("# HELP {family} ")), "{family}");
    }
    assert!(!text.contains(&key[..16]) && !text.contains(&once[..16]) && !text.contains("example.com"), "{text}");
    drop(idle);
    assert_eq!(server.call("GET", "/metrics", "", "").0, 404);
    assert_eq!(status(&get(&metrics, "/api/posts").0), 404);
    site.refuses(&configured(&[("METRICS_BIND", &metrics)]), &[], "METRICS_BIND (--metrics-bind)");
    server.terminate();
}

pub fn the_log_can_be_an_object_a_line(site: &Site) {
    let settings = [("LOG_FORMAT", "json"), ("RUST_LOG", "info,request=debug")];
    let server = site.start_with(&settings);
    assert_eq!(server.call("GET", "/api/validate?key=forged", "X-Request-Id: one-of-mine\r\n", "").0, 401);
    let log = server.terminate();
    let lines = objects(&log);
    let request = lines.iter().find(|line| line["target"] == "request").expect(&log);
    assert_eq!((&request["level"], &request["fields"]["id"]), (&json!("DEBUG"), &json!("one-of-mine")));
    assert_eq!((&request["fields"]["path"], &request["fields"]["status"]), (&json!("/api/validate"), &json!(401)));
    assert!(lines.iter().all(|line| line["timestamp"].is_string() && line["level"].is_string()), "{log}");
    // Why it does not start, before there is a log and behind it.
    for (setting, value) in [("KEY_DAYS", "0"), ("BIND", "192.0.2.1:1")] {
        let (_, _, log) = site.run(&[settings[0], (setting, value)], &[]);
        let last = objects(&log).pop().expect("a line");
        assert!(last["timestamp"].is_string() && last["level"] == "ERROR", "{log}");
        assert!(last["fields"]["message"].as_str().unwrap().contains(setting), "{log}");
    }
}

fn objects(log: &str) -> Vec<Value> {
    log.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// In real time: failures are gathered for ten seconds.
pub fn the_seller_is_told_of_what_failed_for_good(site: &Site) {
    let mail = SmtpServer::alone(Script::KnowsSomeForCertain);
    let settings = [
        ("SMTP_URL", mail.url.as_str()),
        ("ALERT_EMAIL", "seller@example.com"),
        ("BASE_URL", "https://shop.example"),
        ("MAIL_FROM", "Shop <shop@example.com>"),
    ];
    let server = site.shop(&settings);
    for order in 1..=3 {
        let order = order_by(&order.to_string(), "no@example.com").to_string();
        assert_eq!(server.call("POST", "/api/webhook/order", JSON, &order).0, 200);
    }
    wait_for(PATIENCE, || !mail.received().is_empty());
    let alerts = mail.received();
    let alert = alerts[0].replace("=\r\n", "");
    assert!(
        alert.contains("To: seller@example.com") && alert.contains("Subject: 3 e-mails to buyers failed"),
        "{alert}"
    );
    assert!(alert.contains("knows no such recipient (550 5.1.1)"), "{alert}");
    assert!(alert.contains("https://shop.example/desk/messages?state=3Dfailed"), "{alert}");
    // Another one within the hour waits, but not longer than the server runs.
    let terms = json!({ "product_id": 1, "customer_email": "noone@example.com" });
    assert_eq!(server.admin("POST", "issue-key", &terms).0, 200);
    wait_for(PATIENCE, || mail.recipients().len() >= 5);
    let log = server.terminate();
    let alerts = mail.received();
    assert_eq!(alerts.len(), 2, "{alerts:?}\n{log}");
    assert!(alerts[1].contains("Subject: An e-mail to a buyer failed"), "{}", alerts[1]);
}

/// Sixty days ago a key was used, and today again.
pub fn old_records_of_uses_are_deleted_and_counts_stay(site: &Site) {
    let library = faketime::library();
    let mut past = site.command(&CONFIGURED);
    past.env("LD_PRELOAD", library).env("FAKETIME", "-60d");
    let server = Server::start(past);
    assert_eq!(server.add_product().0, 200);
    let key = server.sell("1");
    for _ in 0..3 {
        assert_eq!(server.fetch(&key), 200);
    }
    server.terminate();
    let mut server = site.start_with(&[("HISTORY_DAYS", "30")]);
    assert_eq!(server.fetch(&key), 200);
    // At once, and then each day.
    assert!(server.logged_within("old records of uses were deleted records=3", PATIENCE));
    assert_eq!(server.validate(&key).1["used_count"], 4);
    server.terminate();
}

/// A program of the seller's gets a request for each key, which is signed with the secret before too.
pub fn a_program_of_the_sellers_is_told_of_keys(site: &Site) {
    const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hooks?secret=in-the-address", receiver.local_addr().unwrap());
    let both = format!("{NEW},{OLD}");
    let server = site.shop(&[("WEBHOOK_URLS", &url), ("WEBHOOK_URLS_SECRET", &both)]);
    server.sell("A");
    receiver.set_nonblocking(true).unwrap();
    let mut accepted = None;
    wait_for(PATIENCE, || {
        accepted = receiver.accept().ok();
        accepted.is_some()
    });
    let (mut stream, _) = accepted.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let signatures = lines.find_map(|line| Some(line.strip_prefix("webhook-signature: ")?.split(' ').count()));
    assert_eq!(signatures, Some(2));
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let log = server.terminate();
    assert!(!log.contains("in-the-address") && !log.contains(NEW), "{log}");
}
