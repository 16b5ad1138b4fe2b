//! Generated requests, over sockets, to the application on both frameworks: every answer must be the same.
//!
//! Compared are the status, the header fields that the API promises, and the bytes of the body. What is generated is near to
//! what a client sends: right and damaged methods, paths, queries, headers and bodies, in short sessions, so that limits,
//! counts and replays meet too. `PROPTEST_CASES=10000 cargo test --test http generated` looks longer.

use std::collections::BTreeMap;
use std::time::Duration;

use delivery_core::http::Endpoint;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::host::Framework;
use crate::shop::{Served, Shop};

/// The fields that the API promises, in its own documentation.
const PROMISED: [&str; 9] = [
    "content-type",
    "content-length",
    "cache-control",
    "referrer-policy",
    "www-authenticate",
    "allow",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
];

/// Who may report orders to the shop: itself, and its platforms.
const SOURCES_OF_ORDERS: [&str; 4] = ["order", "gumroad", "stripe", "woocommerce"];

#[derive(Debug, Clone)]
struct Sent {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: String,
    /// How much later than the request before. It is at least a quarter of a second, because a server reads the secrets
    /// of platforms no more often than that, and a request that needs them would wait in real time.
    after: Duration,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: String,
    promised: BTreeMap<String, String>,
    body: String,
}

/// How many sessions are played at the same time. Each waits for Rocket, which takes a second to stop.
const AT_ONCE: u32 = 10;

pub fn both_frameworks_answer_alike() {
    let cases: u32 = std::env::var("PROPTEST_CASES").map_or(100, |cases| cases.parse().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| play_some(cases.div_ceil(AT_ONCE)));
        }
    });
}

fn play_some(cases: u32) {
    // In real time: a paused clock would jump to the next time limit while bytes are on their way.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let session = |session: Vec<Sent>| runtime.block_on(play(session));
    // Once the frameworks differed here: Rocket calls a method that it does not know GET.
    let (method, target) = ("PROPFIND".to_owned(), "/".to_owned());
    session(vec![Sent { method, target, headers: Vec::new(), body: String::new(), after: Duration::ZERO }]).unwrap();
    let requests = sent()
        .prop_filter("Rocket cannot tell them apart", |sent| !is_posted_or_not(sent))
        .prop_filter("whoever sends what nobody reads may lose a long answer", |sent| !is_long_and_unread(sent));
    if let Err(failure) = runner.run(&proptest::collection::vec(requests, 1..12), session) {
        panic!("{failure}");
    }
}

/// A form with Rocket's `_method` field, where that is Rocket's business: on a path that is not the API's, or with the
/// very method that it came with, which could as well have been posted.
fn is_posted_or_not(sent: &Sent) -> bool {
    let form = sent.headers.iter().any(|(_, value)| value == "application/x-www-form-urlencoded");
    let body = sent.body.to_ascii_lowercase();
    let is_taken = |path: &str| path.strip_prefix("/api/webhook/").is_none_or(|from| SOURCES_OF_ORDERS.contains(&from));
    let path = sent.target.split('?').next().filter(|path| is_taken(path));
    let ours = Endpoint::all().any(|endpoint| Some(endpoint.path()) == path);
    let same = body.starts_with(&format!("_method={}", sent.method.to_ascii_lowercase()));
    form && body.starts_with("_method=") && (same || !ours)
}

/// A server that closes a connection with something unread in it resets it, and what is still on its way is lost.
fn is_long_and_unread(sent: &Sent) -> bool {
    sent.body.len() > 60_000 && sent.target.starts_with(Endpoint::OpenApi.path())
}

async fn play(session: Vec<Sent>) -> Result<(), TestCaseError> {
    let [axum, rocket] = [Shop::serve(Framework::Axum).await, Shop::serve(Framework::Rocket).await];
    for sent in &session {
        axum.shop.clock.advance(sent.after);
        rocket.shop.clock.advance(sent.after);
        let (on_axum, on_rocket) = (exchange(&axum, sent).await, exchange(&rocket, sent).await);
        prop_assert_eq!(on_axum, on_rocket, "{:?}", sent);
        // Which keys a buyer who lost them gets must not depend on when a server looks.
        for shop in [&axum.shop, &rocket.shop] {
            shop.delivery.maintenance().answer_lost().await.unwrap();
        }
    }
    // An e-mail that a server is just sending has gone out then.
    axum.stop.await;
    rocket.stop.await;
    prop_assert_eq!(axum.shop.effects().await, rocket.shop.effects().await);
    Ok(())
}

async fn exchange(served: &Served, sent: &Sent) -> Answer {
    let Sent { method, target, headers, body, .. } = sent;
    let (target, body) = (served.shop.fill(target), served.shop.fill(body));
    let fields: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}\r\n", served.shop.fill(value))).collect();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{body}",
        fields.concat(),
        body.len()
    );
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let answer = String::from_utf8(bytes).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let field = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    let promised = fields.lines().filter_map(field).filter(|(name, _)| PROMISED.contains(&name.as_str())).collect();
    Answer { status: status.to_owned(), promised, body: body.to_owned() }
}

fn sent() -> impl Strategy<Value = Sent> {
    let after =
        prop_oneof![4 => Just(250), 2 => 250..70_000_u64, 1 => Just(86_400_000)].prop_map(Duration::from_millis);
    let headers = proptest::collection::vec(header(), 0..4);
    let right = select(Endpoint::all().collect::<Vec<_>>());
    let right = right.prop_map(|endpoint| (endpoint.method().to_string(), endpoint.path().to_owned()));
    let line = prop_oneof![3 => right, 2 => (method().prop_map(str::to_owned), path())];
    (line, query(), headers, body(), after).prop_map(|((method, path), query, headers, body, after)| {
        let (body, content_type) = body;
        let target = query.map_or(path.clone(), |query| format!("{path}?{query}"));
        let content_type = content_type.map(|value| ("Content-Type".to_owned(), value.to_owned()));
        let headers = headers.into_iter().chain(content_type).collect();
        Sent { method, target, headers, body, after }
    })
}

fn method() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        6 => Just("GET"),
        6 => Just("POST"),
        2 => Just("HEAD"),
        2 => select(&["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "PROPFIND", "get", "Post"][..]),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let endpoints = Endpoint::all().map(Endpoint::path).collect::<Vec<_>>();
    let whole = select(endpoints.clone());
    // The API stands at the root; a damaged path is another one.
    let damaged =
        (whole.clone(), any::<prop::sample::Index>(), select(&["/", "//", "%2F", ".", "%41", "A", ";", "~"][..]));
    let damaged = damaged.prop_map(|(path, at, inserted)| {
        let at = 1 + at.index(path.len());
        format!("{}{inserted}{}", &path[..at], &path[at..])
    });
    let encoded = (whole.clone(), any::<prop::sample::Index>()).prop_map(|(path, at)| {
        let at = 1 + at.index(path.len() - 1);
        format!("{}%{:02X}{}", &path[..at], path.as_bytes()[at], &path[at + 1..])
    });
    prop_oneof![
        10 => whole.prop_map(str::to_owned),
        2 => damaged,
        1 => encoded,
        1 => "/[!-~&&[^?#]]{0,12}",
    ]
}

fn query() -> impl Strategy<Value = Option<String>> {
    let name = prop_oneof![6 => select(&["key", "product_id", "limit", "category", "k%65y"][..]).prop_map(str::to_owned), 1 => "[a-z]{1,3}"];
    let value = prop_oneof![
        6 => key().prop_map(str::to_owned),
        4 => select(&["1", "2", "99", "0", "-1", "", "01", "1.0", "9223372036854775808", "news"][..]).prop_map(str::to_owned),
        1 => select(&["%00", "%zz", "%ff", "%", "+", "%0A", "a%20b", "ü", "%C3%BC", "=", "[]"][..]).prop_map(str::to_owned),
        1 => "[!-~&&[^#]]{0,8}",
    ];
    let pairs = proptest::collection::vec((name, value), 0..4);
    let pairs = pairs.prop_map(|pairs| {
        pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    });
    // Often the right ones, so that sessions get somewhere.
    let right = key().prop_map(|key| format!("key={key}&product_id=1"));
    prop_oneof![1 => Just(None), 4 => pairs.prop_map(Some), 4 => right.prop_map(Some)]
}

fn key() -> impl Strategy<Value = &'static str> {
    select(&["{VALID}", "{LIMITED}", "{SPENT}", "{EXPIRED}", "{EXPIRED_SPENT}", "{REVOKED}", "{FORGED}"][..])
}

/// No value is bytes other than UTF-8: Rocket drops such a field before the API sees it.
fn header() -> impl Strategy<Value = (String, String)> {
    let bearer = prop_oneof![3 => Just("Bearer {ADMIN}"), 1 => select(&["Bearer {VALID}", "bearer {LIMITED}", "Basic x", "Bearer", "ü", "Bearer ü"][..])];
    let named = prop_oneof![
        4 => bearer.prop_map(|value| ("Authorization", value)),
        2 => key().prop_map(|key| ("X-API-Key", key)),
        1 => Just(("X-API-Key", "ü")),
        1 => Just(("Idempotency-Key", "ü")),
        1 => Just(("Content-Type", "ü")),
        1 => Just(("Content-Encoding", "ü")),
        1 => Just(("X-Forwarded-For", "203.0.113.7")),
        1 => Just(("X-Real-IP", "203.0.113.8")),
        1 => Just(("Content-Encoding", "gzip")),
        1 => Just(("Accept", "text/html")),
        1 => Just(("Cookie", "a=b; c")),
        1 => Just(("X-HTTP-Method-Override", "DELETE")),
    ];
    prop_oneof![
        8 => named.prop_map(|(name, value)| (name.to_owned(), value.to_owned())),
        1 => ("X-[a-z]{1,5}", "[!-~]{1,12}"),
    ]
}

fn body() -> impl Strategy<Value = (String, Option<&'static str>)> {
    let order = r#"{"order_id":"A","product_id":1,"customer_email":"a@example.com","secret":"{SECRET}"}"#;
    let product = r##"{"name":"Song","content":"# La","price":1.50,"type":"audio"}"##;
    let key = r#"{"product_id":1,"customer_email":"a@example.com","expires_days":30,"max_uses":2}"#;
    let post = r#"{"title":"Hi","category":"news","content":"text"}"#;
    let whole = select(vec![
        order,
        product,
        key,
        post,
        "",
        "{}",
        "[]",
        "null",
        "_method=delete&a=b",
        "_method=get",
        "_method=head",
    ]);
    let damaged = (whole.clone(), any::<prop::sample::Index>(), "[ -~]{0,2}").prop_map(|(body, at, inserted)| {
        let at = at.index(body.len() + 1);
        format!("{}{inserted}{}", &body[..at], &body[(at + 1).min(body.len())..])
    });
    let kind = prop_oneof![
        6 => Just(Some("application/json")),
        1 => Just(None),
        2 => select(vec![Some("application/x-www-form-urlencoded"), Some("application/json; charset=utf-8"), Some("text/plain"), Some("")]),
    ];
    let long = (60_000..70_000_usize).prop_map(|length| " ".repeat(length));
    let priced = any::<f64>().prop_map(|price| product.replace("1.50", &price.to_string()));
    (prop_oneof![6 => whole.prop_map(str::to_owned), 2 => damaged, 1 => priced, 1 => long], kind)
}
