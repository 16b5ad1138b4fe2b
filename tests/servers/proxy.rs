//! Behind nginx and Caddy, with the configurations of `examples/deploy`.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::clients::connect_from;
use crate::crash::clients::Done;
use support::postgres::postgres;
use support::process::{self, JSON, PLENTY, Site, TOKEN, key_of, status};
use support::{free_port, programs, wait_for};

/// How buyers see the shop.
const HOST: &str = "shop.example";

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Nginx,
    Caddy,
}

/// A proxy that ends with the test.
pub struct Proxy {
    process: Child,
    pub address: SocketAddr,
    folder: TempDir,
}

impl Proxy {
    /// In front of these servers.
    pub fn start(kind: Kind, upstreams: &[SocketAddr]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = match kind {
            Kind::Nginx => nginx(folder.path(), address, upstreams),
            Kind::Caddy => caddy(folder.path(), address, upstreams),
        };
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("said")).unwrap())
            .spawn()
            .unwrap();
        let proxy = Self { process, address, folder };
        wait_for(Duration::from_secs(30), || {
            let stream = TcpStream::connect(address).ok();
            stream.and_then(|stream| Client::over(stream).get("/readyz")) == Some(200)
        });
        proxy
    }

    /// What it has said of failures.
    pub fn said(&self) -> String {
        ["said", "error"].map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()).concat()
    }

    /// The key of an order, which must be answered with one.
    pub fn sell(&self, client: &mut Client, id: &str) -> String {
        match client.json("/api/webhook/order", "", &process::order(id)) {
            Some(sold) if sold.0 == 200 => key_of(sold),
            other => panic!("order {id} was answered {other:?}: {}", self.said()),
        }
    }

    pub fn client(&self) -> Client {
        Client::over(TcpStream::connect(self.address).unwrap())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It stops its workers too.
        let _ = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

fn sample(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy").join(name)).unwrap()
}

/// The text with a line replaced, which must be there.
fn with(text: &str, line: &str, by: &str) -> String {
    assert!(text.contains(line), "{line}: {text}");
    text.replace(line, by)
}

fn nginx(folder: &Path, address: SocketAddr, upstreams: &[SocketAddr]) -> Command {
    let program = programs::folder("nginx").join("nginx");
    let mut servers = String::new();
    for upstream in upstreams {
        writeln!(servers, "server {upstream} max_fails=0;").unwrap();
    }
    let text = with(&sample("nginx.conf"), "server 127.0.0.1:8080 max_fails=0;", &servers);
    // Certificates are nginx's business.
    let text = with(&text, "listen 443 ssl;", &format!("listen {address};"));
    let text = with(&text, "ssl_certificate ", "# ").replace("ssl_certificate_key", "#");
    let text = with(&text, "/var/log/nginx/delivery.log", &folder.join("access").display().to_string());
    let text = with(&text, "/var/log/nginx/delivery-error.log", &folder.join("error").display().to_string());
    let place = folder.display();
    let mut temporary = String::new();
    for of in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(temporary, "{of}_temp_path {place}/{of};").unwrap();
    }
    let user = if fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        "user root;\n"
    } else {
        ""
    };
    let main = format!(
        "{user}daemon off;\nworker_processes 1;\npid {place}/pid;\nerror_log {place}/error;\nevents {{}}\nhttp {{\n{temporary}{text}\n}}\n"
    );
    fs::write(folder.join("nginx.conf"), main).unwrap();
    let mut command = Command::new(program);
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf")).arg("-e").arg(folder.join("error"));
    command
}

fn caddy(folder: &Path, address: SocketAddr, upstreams: &[SocketAddr]) -> Command {
    let program = programs::folder("caddy").join("caddy");
    // Caddy's own interface has a port that other tests want too.
    let text = with(&sample("Caddyfile"), "\n{\n\tlog {", "\n{\n\tadmin off\n\tlog {");
    fs::write(folder.join("Caddyfile"), text).unwrap();
    let mut command = Command::new(program);
    command.arg("run").arg("--config").arg(folder.join("Caddyfile")).args(["--adapter", "caddyfile"]);
    let upstreams: Vec<String> = upstreams.iter().map(ToString::to_string).collect();
    command.env("DOMAIN", format!("http://{HOST}:{}", address.port())).env("UPSTREAMS", upstreams.join(" "));
    command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
    command
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// A client that keeps its connection.
pub struct Client(BufReader<TcpStream>);

impl Client {
    /// It waits for an answer as long as one of the server itself does.
    fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_mins(2))).unwrap();
        Self(BufReader::new(stream))
    }

    fn get(&mut self, target: &str) -> Option<u16> {
        self.ask("GET", target, "", b"").map(|(head, _)| status(&head))
    }

    fn ask(&mut self, method: &str, target: &str, headers: &str, body: &[u8]) -> Option<(String, Vec<u8>)> {
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {HOST}\r\n{headers}Content-Length: {length}\r\n\r\n");
        self.0.get_mut().write_all(head.as_bytes()).ok()?;
        // Whoever refuses a long body may stop reading it.
        let _ = self.0.get_mut().write_all(body);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let mut body = Vec::new();
        if let Some(length) = field(&head, "content-length") {
            body.resize(length.parse().unwrap(), 0);
            self.0.read_exact(&mut body).ok()?;
        } else if field(&head, "transfer-encoding").is_some() {
            loop {
                let mut size = String::new();
                self.0.read_line(&mut size).ok()?;
                let size = usize::from_str_radix(size.trim(), 16).ok()?;
                let mut chunk = vec![0; size + 2];
                self.0.read_exact(&mut chunk).ok()?;
                if size == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        }
        Some((head, body))
    }

    /// Adds a product to sell.
    fn add_guide(&mut self) {
        let guide = json!({ "name": "Guide", "content": "# Guide" });
        assert_eq!(self.json("/api/admin/product", &bearer(TOKEN), &guide).unwrap().0, 200);
    }

    fn json(&mut self, target: &str, headers: &str, body: &serde_json::Value) -> Option<(u16, serde_json::Value)> {
        let headers = format!("{JSON}{headers}");
        let (head, body) = self.ask("POST", target, &headers, body.to_string().as_bytes())?;
        Some((status(&head), serde_json::from_slice(&body).unwrap_or_default()))
    }
}

pub fn behind_nginx_addresses_limits_cookies_and_bodies_are_right(site: &Site) {
    one(site, Kind::Nginx);
}

pub fn behind_caddy_addresses_limits_cookies_and_bodies_are_right(site: &Site) {
    one(site, Kind::Caddy);
}

pub fn behind_nginx_one_of_two_servers_restarts_without_a_failed_request(site: &Site) {
    restart(site, Kind::Nginx);
}

pub fn behind_caddy_one_of_two_servers_restarts_without_a_failed_request(site: &Site) {
    restart(site, Kind::Caddy);
}

fn one(site: &Site, kind: Kind) {
    let base = format!("https://{HOST}");
    let settings =
        [("TRUSTED_PROXIES", "127.0.0.1"), ("BASE_URL", &base), ("LIMIT_VALIDATE", "20"), ("LIMIT_ADMIN", "1000")];
    let server = site.start_with(&settings);
    let proxy = Proxy::start(kind, &[server.address]);
    let mut client = proxy.client();
    client.add_guide();

    // Whatever a client says of its address, it is the one that the proxy sees.
    let admitted = |client: &mut Client| {
        let ask = |number: usize| {
            let forwarded = format!("X-Forwarded-For: 10.0.0.{number}\r\n");
            status(&client.ask("GET", "/api/validate?key=forged", &forwarded, b"").unwrap().0)
        };
        (0..40).map(ask).filter(|status| *status == 401).count()
    };
    assert_eq!(admitted(&mut client), 20, "on one connection");
    let mut other = Client::over(connect_from(proxy.address, [127, 0, 0, 2]));
    assert_eq!(admitted(&mut other), 20, "another client has its own");

    // Sellers sign in over HTTPS, as far as they see.
    let (head, page) = client.ask("GET", "/desk/sign-in", "", b"").unwrap();
    let cookie = field(&head, "set-cookie").expect(&head).split(';').next().unwrap();
    let page = String::from_utf8(page).unwrap();
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("token={TOKEN}&csrf={csrf}");
    let headers =
        format!("Content-Type: application/x-www-form-urlencoded\r\nOrigin: https://{HOST}\r\nCookie: {cookie}\r\n");
    let (head, _) = client.ask("POST", "/desk/sign-in", &headers, form.as_bytes()).unwrap();
    let cookie = field(&head, "set-cookie").expect(&head);
    assert!(status(&head) == 303 && cookie.contains("; Secure") && cookie.contains("HttpOnly"), "{kind:?}: {head}");
    let foreign = headers.replace(&format!("https://{HOST}"), "https://evil.example");
    let (head, _) = client.ask("POST", "/desk/sign-in", &foreign, form.as_bytes()).unwrap();
    assert_eq!(status(&head), 403, "{kind:?}: a form of somebody else's");

    // What is too long is refused, by the server or before it.
    let order = |length: usize| {
        let mut order = process::order("1");
        order["x"] = "x".repeat(length).into();
        order
    };
    let admin = bearer(TOKEN);
    let product = |length: usize| json!({ "name": "Long", "content": "x".repeat(length) });
    for (target, headers, body, expected) in [
        ("/api/webhook/order", "", order(10), 200),
        ("/api/webhook/order", "", order(100_000), 413),
        ("/api/admin/product", &*admin, product(900_000), 200),
        ("/api/admin/product", &*admin, product(2_500_000), 413),
        ("/api/admin/product", &*admin, product(5_000_000), 413),
    ] {
        let length = body.to_string().len();
        let (status, said) = proxy.client().json(target, headers, &body).unwrap();
        assert_eq!(status, expected, "{kind:?}: {target} {length}");
        assert!(status == 200 || said["error"]["code"] == "PAYLOAD_TOO_LARGE", "{kind:?}: {target} {length}: {said}");
        let next = proxy.client().get("/api/products");
        assert_eq!(next, Some(200), "{kind:?}: the server counts as failed after {length}");
    }
    if matches!(kind, Kind::Nginx) {
        // Longer than nginx lets through.
        let (status, said) = proxy.client().json("/api/admin/product", &admin, &product(6_000_000)).unwrap();
        assert_eq!((status, &said["error"]["code"]), (413, &json!("PAYLOAD_TOO_LARGE")), "{said}");
    }
    // Nobody is there: what a proxy notes of it has no key.
    let key = key_of(client.json("/api/webhook/order", "", &order(10)).unwrap());
    let target = format!("/api/product?product_id=1&key={key}");
    assert_eq!(client.get(&target), Some(200));
    server.terminate();
    let headers = format!("X-API-Key: {key}\r\n{}", bearer(&key));
    let (head, body) = proxy.client().ask("GET", &target, &headers, b"").unwrap();
    assert_eq!(status(&head), 503, "{kind:?}: {head}");
    let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(said["error"]["code"], "UNAVAILABLE", "{kind:?}: {head}");
    assert!(head.contains("Retry-After: 5") && head.contains("Content-Type: application/json"), "{kind:?}: {head}");
    for name in ["said", "error", "access"] {
        let noted = fs::read_to_string(proxy.folder.path().join(name)).unwrap_or_default();
        assert!(!noted.contains(&key[4..]), "{kind:?} {name}: {noted}");
        assert!(name != "access" || matches!(kind, Kind::Caddy) || noted.contains("/api/product"), "{noted}");
    }
}

/// The value of a field of an answer.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn restart(site: &Site, kind: Kind) {
    let url = postgres().database();
    let sites = [site, &Site::new(site.program)];
    let binds = [0, 1].map(|_| format!("127.0.0.1:{}", free_port()));
    let start = |server: usize| {
        let bind: &str = &binds[server];
        let settings =
            [("DATABASE_URL", url.as_str()), ("BIND", bind), ("TRUSTED_PROXIES", "127.0.0.1"), ("STOP_DELAY", "4")];
        sites[server].start_with(&[&settings[..], &PLENTY].concat())
    };
    let mut servers = [0, 1].map(|server| Some(start(server)));
    let addresses = [0, 1].map(|server: usize| servers[server].as_ref().unwrap().address);
    let proxy = Proxy::start(kind, &addresses);
    proxy.client().add_guide();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _done = Done(&done);
        for number in 0..8 {
            let (proxy, done, answered) = (&proxy, &done, &answered);
            scope.spawn(move || {
                let mut client = proxy.client();
                for order in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let key = proxy.sell(&mut client, &format!("{number}-{order}"));
                    let fetched = client.get(&format!("/api/product?product_id=1&key={key}"));
                    assert_eq!(fetched, Some(200), "{kind:?}: a fetch");
                    answered.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        let more = |requests: usize| {
            let before = answered.load(Ordering::Relaxed);
            wait_for(Duration::from_mins(1), || answered.load(Ordering::Relaxed) >= before + requests);
        };
        // Until the proxy has taken note that both are there.
        more(200);
        servers[1].take().unwrap().terminate();
        more(100);
        servers[1] = Some(start(1));
        more(200);
    });
    for server in servers.into_iter().flatten() {
        server.terminate();
    }
}
