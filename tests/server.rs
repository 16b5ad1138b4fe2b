//! The server as a seller starts it: a process, a folder, a terminal, a kill.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The example beside this test's binary. `cargo test` builds both; `cargo test --test server` alone does not build the
/// example anew.
fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples/axum_server")
}

fn command(folder: &TempDir, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(binary());
    command.current_dir(folder).env_clear().env("BIND", "127.0.0.1:0").envs(settings.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Server {
    process: Child,
    address: SocketAddr,
    printed: String,
}

impl Server {
    fn start(folder: &TempDir, settings: &[(&str, &str)]) -> Self {
        let mut process = command(folder, settings).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut printed = String::new();
        let address = loop {
            let line = lines.next().expect("a server that does not listen says why").unwrap();
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.parse().unwrap();
            }
            printed.push_str(&line);
            printed.push('\n');
        };
        Self { process, address, printed }
    }

    fn call(&self, method: &str, target: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn add_product(&self) -> (u16, Value) {
        let headers = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
        self.call("POST", "/api/admin/product", &headers, r##"{"name":"Guide","content":"# Guide"}"##)
    }

    fn order(&self, id: &str) -> (u16, Value) {
        let body = json!({ "order_id": id, "product_id": 1, "customer_email": "a@example.com", "secret": SECRET });
        self.call("POST", "/api/webhook/order", "Content-Type: application/json\r\n", &body.to_string())
    }

    fn fetch(&self, key: &str) -> u16 {
        self.call("GET", &format!("/api/product?key={key}&product_id=1"), "", "").0
    }

    /// As a crash does: nothing is finished, nothing is closed.
    fn kill(mut self) -> String {
        self.process.kill().unwrap();
        self.log()
    }

    /// As a service manager does.
    fn terminate(mut self) -> String {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
        self.log()
    }

    fn log(&mut self) -> String {
        let mut log = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        self.process.wait().unwrap();
        log
    }
}

/// No test leaves a process behind, failed or not.
impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already where the test ended it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SECRET: &str = "the-platforms-secret";
const TOKEN: &str = "the-sellers-own-token";
const CONFIGURED: [(&str, &str); 3] =
    [("WEBHOOK_SECRET", SECRET), ("ADMIN_TOKEN", TOKEN), ("KEY_SECRET", "what-keys-are-signed-with")];

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn letters(folder: &TempDir) -> Vec<String> {
    let files = fs::read_dir(folder.path().join("delivery-data/mail")).unwrap();
    let letter = |file: fs::DirEntry| fs::read(file.path()).unwrap();
    files.map(|file| String::from_utf8(letter(file.unwrap())).unwrap()).collect()
}

#[test]
fn the_first_start_prints_three_lines_that_work_and_later_starts_are_silent() {
    let folder = folder();
    let server = Server::start(&folder, &[]);
    let lines: Vec<&str> = server.printed.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(lines.len(), 3, "{}", server.printed);
    let secrets = fs::read_to_string(folder.path().join("delivery-data/secrets.env")).unwrap();
    for secret in secrets.lines().filter_map(|line| line.split_once('=')).map(|(_, secret)| secret) {
        assert!(secret.len() > 50 && !server.printed.contains(secret), "secrets stay in their file");
    }
    if Command::new("curl").arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "curl is missing");
        eprintln!("LEFT OUT: there is no curl to paste the three lines with");
        return;
    }
    let mut output = String::new();
    for line in &lines {
        let ran = Command::new("sh").args(["-c", line]).current_dir(&folder).output().unwrap();
        output = String::from_utf8(ran.stdout).unwrap();
    }
    assert!(
        output.starts_with(r##"{"product":{"id":1,"name":"Field Guide","type":"digital","content":"# Field Guide"##),
        "{output}"
    );
    server.terminate();
    let later = Server::start(&folder, &[]);
    assert_eq!(later.printed, "");
    later.terminate();
}

#[test]
fn a_kill_loses_nothing_and_nothing_secret_is_written_anywhere() {
    let folder = folder();
    let settings = [&CONFIGURED[..], &[("RUST_LOG", "trace"), ("LIMIT_WEBHOOK", "100")]].concat();
    let server = Server::start(&folder, &settings);
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

    let server = Server::start(&folder, &settings);
    for (order, key) in keys.iter().enumerate() {
        let (_, answer) = server.call("GET", "/api/validate", &format!("Authorization: Bearer {key}\r\n"), "");
        assert_eq!(answer["used_count"], 1, "{answer}");
        assert_eq!(server.order(&order.to_string()).1["api_key"], key.as_str());
    }
    let deadline = std::time::Duration::from_secs(30);
    wait_for(deadline, || letters(&folder).len() == 20);
    log.push_str(&server.terminate());
    let letters = letters(&folder).concat().replace("=\r\n", "");
    let data = folder.path().join("delivery-data");
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

#[test]
fn health_and_readiness_and_unknown_paths() {
    let folder = folder();
    let server = Server::start(&folder, &CONFIGURED);
    for (target, status) in [("/healthz", 200), ("/readyz", 200), ("/api/nothing", 404), ("/", 404)] {
        assert_eq!(server.call("GET", target, "", "").0, status, "{target}");
    }
    server.terminate();
}

#[test]
fn limits_and_terms_are_the_configured_ones() {
    let folder = folder();
    let settings = [&CONFIGURED[..], &[("LIMIT_VALIDATE", "2"), ("KEY_DAYS", "-1"), ("KEY_USES", "1")]].concat();
    let server = Server::start(&folder, &settings);
    server.add_product();
    let key = server.order("A").1["api_key"].as_str().unwrap().to_owned();
    let validate = || server.call("GET", &format!("/api/validate?key={key}"), "", "");
    let (status, answer) = validate();
    assert_eq!((status, &answer["expires_at"]), (200, &json!("9999-12-31T23:59:59Z")));
    assert_eq!([server.fetch(&key), server.fetch(&key)], [200, 403]);
    assert_eq!([validate().0, validate().0], [403, 429]);
    server.terminate();
}

#[test]
fn what_makes_no_sense_is_a_refusal_that_names_the_setting_and_repeats_no_secret() {
    for (name, value, takes) in [
        ("BIND", "nowhere", "address and a port"),
        ("DATABASE_URL", "mysql://x", "sqlite://PATH"),
        ("WEBHOOK_SECRET", "hunter2", "16 characters"),
        ("ADMIN_TOKEN", "hunter2", "16 characters"),
        ("ADMIN_TOKEN", "sixteen characters", "without spaces"),
        ("ADMIN_TOKEN", "шестнадцать-знаков", "visible ASCII"),
        ("KEY_SECRET", "long-enough-for-one,hunter2", "16 characters"),
        ("SMTP_URL", "http://user:hunter2@mail.example.com", "smtp://"),
        ("SMTP_URL", "smtp://user:hunter2@mail.example.com", "tls=required"),
        ("MAIL_FROM", "nobody", "address"),
        ("MAIL_FROM", "a..b@example.com", "address"),
        ("BASE_URL", "ftp://x", "https://"),
        ("BASE_URL", "https://user:hunter2@shop.example", "https://"),
        ("BASE_URL", "https://shop.example/#top", "https://"),
        ("DATABASE_URL", "sqlite://nowhere/delivery.db", "does not exist"),
        ("TRUSTED_PROXIES", "10.0.0.0/8,everyone", "networks"),
        ("LIMIT_PRODUCT", "0", "1 or more"),
        ("LIMIT_VALIDATE", "-1", "1 or more"),
        ("LIMIT_WEBHOOK", "many", "1 or more"),
        ("LIMIT_ADMIN", "1.5", "1 or more"),
        ("LIMIT_FAILURES", "0", "1 or more"),
        ("KEY_DAYS", "0", "1 to 36500"),
        ("KEY_DAYS", "36501", "1 to 36500"),
        ("KEY_USES", "0", "1 to 2147483647"),
        ("RUST_LOG", "a=b=c", "log filter"),
    ] {
        let folder = folder();
        let output = command(&folder, &[(name, value)]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{name}={value}");
        assert!(said.contains(name) && said.contains(takes), "{name}={value}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
        let touched = fs::read_dir(&folder).unwrap().count();
        assert!(touched == 0 || name == "DATABASE_URL", "{name}={value}: nothing is made before every setting is good");
        let listens = String::from_utf8(output.stdout).unwrap().contains("listening");
        assert!(!listens);
    }
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let folder = folder();
    let empty = ["DATA_DIR", "DATABASE_URL", "WEBHOOK_SECRET", "SMTP_URL", "MAIL_FROM", "BASE_URL", "TRUSTED_PROXIES"];
    let limits = ["LIMIT_PRODUCT", "LIMIT_VALIDATE", "KEY_DAYS", "KEY_USES", "RUST_LOG"];
    let settings: Vec<_> = empty.into_iter().chain(limits).map(|name| (name, "")).collect();
    Server::start(&folder, &settings).terminate();
    assert!(folder.path().join("delivery-data/secrets.env").exists());
}

#[test]
fn a_second_server_and_a_foreign_secret_are_refused() {
    let folder = folder();
    let server = Server::start(&folder, &CONFIGURED);
    let second = command(&folder, &CONFIGURED).output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(!second.status.success() && said.contains("in use by another process"), "{said}");
    server.terminate();

    let rotated = [CONFIGURED[0], CONFIGURED[1], ("KEY_SECRET", "the-second-secret-of-all,what-keys-are-signed-with")];
    Server::start(&folder, &rotated).terminate();
    let foreign = [CONFIGURED[0], CONFIGURED[1], ("KEY_SECRET", "quite-another-secret")];
    let refused = command(&folder, &foreign).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("KEY_SECRET") && said.contains("made with none"), "{said}");
}

#[test]
fn every_setting_is_in_the_help_and_in_the_readme() {
    let folder = folder();
    let help = String::from_utf8(command(&folder, &[]).arg("--help").output().unwrap().stdout).unwrap();
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let settings: Vec<&str> = help.split("[env: ").skip(1).map(|rest| rest.split(['=', ']']).next().unwrap()).collect();
    assert!(settings.len() > 15, "{help}");
    for setting in settings {
        assert!(readme.contains(&format!("| `{setting}` |")), "README says nothing of {setting}");
    }
}
