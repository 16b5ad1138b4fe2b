//! Canaries: secrets that are known to the test go everywhere that a client can put them, with the log at its most talkative.
//! None may come back in a refusal, stand in a log, or lie in the database.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use support::process::{CONFIGURED, JSON, PLENTY, Server, Site, TOKEN, by_token, status};
use support::{free_port, wait_for};

/// What an attacker or a mistaken client sends as a secret is as little for a log as a right one.
const WRONG: [&str; 3] =
    ["dlv_a-canary-that-is-no-key", "a-canary-that-is-no-token", "a-canary-that-is-no-webhook-secret"];
const SMTP_PASSWORD: &str = "a-canary-for-the-mail-server";
const SET_AT_THE_DESK: &str = "pdl_ntfset_what-paddle-signs-with";

pub fn nothing_secret_is_told_logged_or_kept(site: &Site) {
    // Nobody listens there: that e-mails are not sent, and why, goes to the log too.
    let smtp = format!("smtp://shop:{SMTP_PASSWORD}@127.0.0.1:{}", free_port());
    let platforms =
        [("GUMROAD_TOKEN", "a-token-in-gumroads-address"), ("STRIPE_SECRET", "whsec_what-stripe-signs-with")];
    let talkative = [("RUST_LOG", "trace"), ("SMTP_URL", &smtp), ("KEY_USES", "1")];
    let mut command = site.command(&[&CONFIGURED[..], &platforms, &PLENTY, &talkative].concat());
    let log = site.path().join("log");
    command.stderr(fs::File::create(&log).unwrap());
    let server = Server::start(command);
    assert_eq!(server.add_product().0, 200);
    let of_paddle = json!({ "platform": "paddle", "secret": SET_AT_THE_DESK });
    assert_eq!(server.admin("POST", "platform/secret", &of_paddle).0, 200);
    let key = server.sell("A");
    assert_eq!(server.call("GET", "/api/validate", &format!("X-API-Key: {key}\r\n"), "").0, 200);
    assert_eq!(server.fetch(&key), 200);

    let mut secrets: Vec<&str> = CONFIGURED.iter().chain(&platforms).map(|(_, secret)| *secret).chain(WRONG).collect();
    secrets.extend([key.as_str(), SMTP_PASSWORD, SET_AT_THE_DESK]);
    let refused = everywhere(&server, &secrets);
    assert!([400, 401, 403, 404, 405, 413, 415, 429].iter().all(|status| refused.contains(status)), "{refused:?}");
    wait_for(std::time::Duration::from_secs(30), || fs::read_to_string(&log).unwrap().contains("e-mail not sent yet"));

    // As it is while the server runs, with what is only in the write-ahead log.
    let kept: Vec<_> = ["delivery.db", "delivery.db-wal"].map(|file| fs::read(site.data().join(file)).unwrap()).into();
    server.kill();
    let log = fs::read(&log).unwrap();
    for secret in secrets {
        assert!(memchr::memmem::find(&log, secret.as_bytes()).is_none(), "the log holds {secret}");
        for bytes in &kept {
            assert!(memchr::memmem::find(bytes, secret.as_bytes()).is_none(), "the database holds {secret}");
        }
    }
    assert!(log.len() > 10_000, "a log at its most talkative");
}

/// Puts each secret into each place; the statuses of what was refused.
fn everywhere(server: &Server, secrets: &[&str]) -> BTreeSet<u16> {
    let (json, admin) = (JSON, by_token(TOKEN));
    let mut refused = BTreeSet::new();
    let mut ask = |method: &str, target: &str, headers: &str, body: &str| {
        let (head, body) = server.exchange(method, target, headers, body);
        if status(&head) >= 400 {
            refused.insert(status(&head));
            for secret in secrets {
                assert!(!head.contains(secret) && !body.contains(secret), "{method} {target}: {head}\n\n{body}");
            }
        }
    };
    for secret in secrets {
        let order =
            json!({ "order_id": secret, "product_id": 2, "customer_email": secret, "secret": secret }).to_string();
        for (method, path) in [
            ("GET", "/api/validate"),
            ("GET", "/api/product"),
            ("HEAD", "/api/product"),
            ("GET", "/api/posts"),
            ("POST", "/api/webhook/order"),
            ("POST", "/api/webhook/stripe"),
            ("POST", "/api/webhook/gumroad"),
            ("POST", "/api/admin/product"),
            ("POST", "/api/admin/issue-key"),
            ("POST", "/api/admin/post"),
            ("DELETE", "/api/validate"),
            ("GET", "/docs"),
            ("GET", "/nothing"),
        ] {
            ask(method, &format!("{path}?key={secret}&product_id={secret}&limit={secret}"), json, &order);
            ask(method, &format!("{path}?key={secret}&product_id=2"), &format!("X-API-Key: {secret}\r\n"), &order);
            // What looks like a key is no name for a request; of anything else nobody can tell.
            let name = if secret.starts_with("dlv_") { secret } else { "a name" };
            ask(method, &format!("{path}/{secret}"), &format!("X-Request-Id: {name}\r\n{json}"), "{");
            ask(method, path, &format!("Authorization: Bearer {secret}\r\n{json}"), &order);
            ask(method, path, &format!("Cookie: key={secret}\r\nUser-Agent: {secret}\r\n{admin}"), &order);
            ask(method, path, &format!("X-Forwarded-For: {secret}\r\nContent-Type: {secret}\r\n"), secret);
        }
        ask("POST", &format!("/api/webhook/gumroad?token={secret}"), json, "{}");
        ask("POST", "/api/webhook/order", json, &format!("{{\"secret\":\"{secret}\",\"secret\":1}}"));
        ask("POST", "/api/webhook/order", json, &format!("{{\"secret\":\"{secret}\"}}{}", " ".repeat(70_000)));
    }
    for _ in 0..70 {
        ask("GET", &format!("/api/product?product_id=1&key={}", WRONG[0]), "", "");
    }
    refused
}
