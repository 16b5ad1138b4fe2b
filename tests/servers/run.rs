//! Running: limits, health, the log, the end.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use delivery_core::http::{Endpoint, OPENAPI};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::process::{CONFIGURED, JSON, Server, Site, TOKEN, by_token, configured, read_answer, status};
use support::wait_for;

pub fn limits_terms_and_sellers_are_the_configured_ones(site: &Site) {
    const ALICE: &str = "a-token-of-alice-alone";
    let (alice, same) = (format!("alice:{ALICE}"), format!("bob:{TOKEN}"));
    let said = site.refuses(&configured(&[("ADMIN_TOKENS", &same)]), &[], "ADMIN_TOKENS");
    assert!(!said.contains(TOKEN), "{said}");
    let terms = [("LIMIT_VALIDATE", "2"), ("KEY_DAYS", "-1"), ("KEY_USES", "1"), ("ADMIN_TOKENS", &alice)];
    let server = site.shop(&terms);
    let key = server.sell("A");
    let (status, answer) = server.validate(&key);
    assert_eq!((status, &answer["expires_at"]), (200, &json!("9999-12-31T23:59:59Z")));
    assert_eq!([server.fetch(&key), server.fetch(&key)], [200, 403]);
    assert_eq!([server.validate(&key).0, server.validate(&key).0], [403, 429]);
    let product = r#"{"name":"A","content":"a"}"#;
    assert_eq!(server.call("POST", "/api/admin/product", &by_token(ALICE), product).0, 200);
    let (_, log) = server.admin("GET", "events", &Value::Null);
    let [newest, first] = [&log["events"][0]["actor"], &log["events"][1]["actor"]];
    assert_eq!((newest, first), (&json!("alice"), &json!("admin")));
    server.terminate();
}

pub fn an_erased_person_is_in_no_file(site: &Site) {
    const ADDRESSES: [&str; 2] = ["Ada.Lovelace@Example.com", "countess@example.org"];
    let server = site.shop(&[("LIMIT_ADMIN", "100")]);
    let post = |path: &str, body: Value| {
        let (status, answer) = server.admin("POST", path, &body);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    };
    let sold = post("issue-key", json!({ "product_id": 1, "customer_email": ADDRESSES[0] }));
    let (_, keys) = server.admin("GET", "keys?email=ada.lovelace@example.com", &Value::Null);
    let id = &keys["keys"][0]["id"];
    post("key/revoke", json!({ "id": id, "reason": format!("asked for by {}", ADDRESSES[0]) }));
    post("key/restore", json!({ "id": id }));
    wait_for(Duration::from_secs(30), || site.messages().len() == 1);
    post("key/resend", json!({ "id": id, "customer_email": ADDRESSES[1] }));
    wait_for(Duration::from_secs(30), || site.messages().len() == 2);
    let holds = |address: &str| {
        let folders = [site.data(), site.data().join("mail")];
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()));
        let bytes = files.filter(|file| file.is_file()).map(|file| fs::read(file).unwrap().to_ascii_lowercase());
        let address = address.to_ascii_lowercase();
        bytes.filter(|bytes| memchr::memmem::find(bytes, address.as_bytes()).is_some()).count()
    };
    for address in ADDRESSES {
        assert!(holds(address) > 0, "{address} is in the files before");
        post("customer/erase", json!({ "customer_email": address.to_uppercase() }));
        assert_eq!(holds(address), 0, "{address}");
    }
    let key = sold["api_key"].as_str().unwrap();
    assert_eq!(server.fetch(key), 200, "nothing is revoked");
    server.terminate();
    assert_eq!(ADDRESSES.map(holds), [0, 0], "after a stop");
}

pub fn health_and_readiness_and_unknown_paths(site: &Site) {
    let server = site.start(&CONFIGURED);
    for (line, expected, body) in [
        ("GET /healthz", 200, r#"{"status":"ok"}"#),
        ("GET /readyz", 200, r#"{"status":"ready"}"#),
        ("HEAD /healthz", 200, ""),
        ("POST /healthz", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
        ("GET /healthz/", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
        ("GET /docs/", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
        ("GET /api/nothing", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
        ("GET /nothing", 404, r#"{"error":{"code":"NOT_FOUND","message":"There is no such thing."}}"#),
    ] {
        let (method, target) = line.split_once(' ').unwrap();
        let (head, said) = server.exchange(method, target, "", "");
        assert_eq!((status(&head), said.as_str()), (expected, body), "{line}");
        assert!(head.contains("content-type: application/json"), "{line}: {head}");
    }
    // For people there are pages.
    for (target, expected, part) in
        [("/", 303, "location: /key"), ("/desk/", 303, "location: /desk"), ("/nothing", 404, "content-type: text/html")]
    {
        let (head, _) = server.exchange("GET", target, "Accept: text/html\r\n", "");
        assert!(status(&head) == expected && head.contains(part), "{target}: {head}");
    }
    server.terminate();
}

pub fn the_api_describes_itself_to_programs_and_to_people(site: &Site) {
    let server = site.start(&CONFIGURED);
    let (head, said) = server.exchange("GET", "/api/openapi.json", "", "");
    assert_eq!((status(&head), said.as_str()), (200, OPENAPI));
    assert!(head.contains("content-type: application/json"), "{head}");
    let (head, page) = server.exchange("GET", "/docs", "", "");
    assert_eq!(status(&head), 200);
    assert!(head.contains("content-type: text/html; charset=utf-8"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    let page = page.replace("&#x2f;", "/");
    for endpoint in Endpoint::all() {
        assert!(page.contains(&format!("<code class=\"path\">{}</code>", endpoint.path())), "{}", endpoint.path());
    }
    // Addresses of the shop itself, in examples.
    let page = page.replace("http://localhost/", "");
    for elsewhere in ["http://", "https://", " src=", "@import", "url(", "<link"] {
        assert!(!page.contains(elsewhere), "the page asks for {elsewhere}");
    }
    // Its only script is the one that the policy allows.
    let scripts: Vec<&str> = page.split("<script>").skip(1).filter_map(|rest| rest.split("</script>").next()).collect();
    let [script] = scripts.as_slice() else { panic!("{} scripts", scripts.len()) };
    let digest = data_encoding::BASE64.encode(&Sha256::digest(script));
    assert!(head.contains(&format!("script-src 'sha256-{digest}'; connect-src 'self'")), "{head}");
    assert_eq!(server.exchange("HEAD", "/docs", "", "").1, "");
    assert_eq!(server.call("POST", "/docs", "", "").0, 404);
    server.terminate();
}

pub fn every_answer_has_a_name_that_the_log_knows_and_the_log_has_no_query(site: &Site) {
    let server = site.start_with(&[("RUST_LOG", "info,request=debug")]);
    let field = |head: &str, name: &str| {
        let found = head.lines().filter_map(|line| line.split_once(": ")).find(|(field, _)| *field == name);
        found.map(|(_, value)| value.to_owned())
    };
    let too_long = "x".repeat(65);
    let mut names = Vec::new();
    for (target, given, kept) in [
        ("/healthz", "", false),
        ("/api/validate?key=a-secret-key", "from-the.proxy:2", true),
        ("/api/validate?key=a-secret-key", "dlv_0123456789abcdef", false),
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

pub fn a_body_that_breaks_off_is_incomplete(site: &Site) {
    let server = site.start(&CONFIGURED);
    for body in ["{}", r#"{"order_id":"A","product_id":1}"#] {
        let mut stream = server.connect();
        let head = format!("POST /api/webhook/order HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: 90\r\n");
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let (head, said) = read_answer(&mut stream);
        assert!(status(&head) == 400 && said.contains("The body is incomplete"), "{head}\n{said}");
    }
    server.terminate();
}

/// An extension of a chunk is read over up to 16 KiB.
pub fn a_body_that_is_framed_wrongly_is_told_so(site: &Site) {
    let server = site.start(&CONFIGURED);
    let extension = format!("2;{}", "x".repeat(20_000));
    for chunk in ["-1", "2x", &extension] {
        let head = format!("POST /api/webhook/order HTTP/1.1\r\nHost: x\r\n{JSON}Transfer-Encoding: chunked\r\n");
        let (head, said) = server.send(format!("{head}\r\n{chunk}\r\n{{}}\r\n0\r\n\r\n").as_bytes());
        assert!(status(&head) == 400 && said.contains("is not framed as HTTP requires"), "{chunk}: {head}\n{said}");
    }
    server.terminate();
}

pub fn a_log_that_cannot_be_written_stops_nothing(site: &Site) {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = site.command(&configured(&[("RUST_LOG", "debug")]));
    command.stderr(full);
    let server = Server::start(command);
    assert_eq!(server.add_product().0, 200);
    for order in 0..6 {
        server.sell(&order.to_string());
    }
    wait_for(Duration::from_secs(30), || site.messages().len() == 6);
    server.terminate();
}

/// A pipe that nobody reads from is full after some hundred lines.
pub fn a_log_that_nobody_takes_stops_nothing(site: &Site) {
    const CLIENTS: usize = 8;
    const ORDERS: usize = 100;
    let server = site.shop(&[("RUST_LOG", "trace"), ("LIMIT_WEBHOOK", "100000")]);
    // At this level each is dozens of lines: more than the pipe and the line behind it hold.
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                for order in 0..ORDERS {
                    assert_eq!(server.order(&format!("{client}-{order}")).0, 200);
                }
            });
        }
    });
    wait_for(Duration::from_mins(1), || site.messages().len() == CLIENTS * ORDERS);
    assert_eq!(server.call("GET", "/healthz", "", "").0, 200);
    server.ask_to_stop();
    // Its log is read only now.
    server.ended_within(Duration::from_secs(10));
}

pub fn open_requests_are_finished_and_then_the_server_ends(site: &Site) {
    let server = site.shop(&[]);
    let mut idle = server.connect();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    // Answered, and idle from then on. A request that was not read yet may be closed without an answer.
    let mut said = [0; 12];
    idle.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"HTTP/1.1 200");
    // Rocket waits out its grace for a request of which only the head came.
    let sent: &[usize] = if site.program == "axum_server" { &[20, 0] } else { &[20] };
    let open: Vec<_> = sent.iter().map(|sent| server.half_an_order(*sent)).collect();
    server.ask_to_stop();
    // The idle connection is closed at once.
    idle.read_to_end(&mut Vec::new()).unwrap();
    for (mut stream, end) in open {
        stream.write_all(end.as_bytes()).unwrap();
        assert_eq!(status(&read_answer(&mut stream).0), 200);
    }
    server.ended_within(Duration::from_secs(10));
}

pub fn a_server_that_stops_says_so_and_a_second_signal_ends_its_delay(site: &Site) {
    let server = site.shop(&[("STOP_DELAY", "20")]);
    server.ask_to_stop();
    let mut answer = Default::default();
    wait_for(Duration::from_secs(10), || {
        answer = server.exchange("GET", "/readyz", "", "");
        status(&answer.0) == 503
    });
    let (head, body) = answer;
    let head = head.to_ascii_lowercase();
    assert!(body == r#"{"status":"stopping"}"# && head.contains("x-request-id: "), "{head} {body}");
    // What it is asked otherwise it does, on new connections too.
    let (head, _) = server.exchange("GET", "/api/posts", "", "");
    assert!(status(&head) == 200 && head.to_ascii_lowercase().contains("connection: close"), "{head}");
    assert_eq!(server.order("the last").0, 200);
    server.ask_to_stop();
    server.ended_within(Duration::from_secs(10));
}
