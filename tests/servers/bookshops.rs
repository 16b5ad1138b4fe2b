//! The embedding examples, started and driven by HTTP: one on axum over PostgreSQL, one on Rocket over SQLite.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{free_port, wait_for};

/// An example that runs.
struct App {
    process: Child,
    address: String,
    printed: Arc<Mutex<String>>,
    _folder: tempfile::TempDir,
}

impl App {
    fn start(example: &str, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(support::process::example(example));
        command.current_dir(folder.path()).env_clear().envs(settings.iter().copied());
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let first = lines.next().expect("an application that does not listen says why");
        let address = first.strip_prefix("listening on http://").unwrap().to_owned();
        let printed = Arc::<Mutex<String>>::default();
        let kept = printed.clone();
        std::thread::spawn(move || lines.for_each(|line| kept.lock().unwrap().extend([&*line, "\n"])));
        Self { process, address, printed, _folder: folder }
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        let headers: String = headers.iter().flat_map(|header| [header, "\r\n"]).collect();
        let (host, length) = (&self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn buy(&self, id: &str, book: &str) -> (u16, String) {
        let order = format!(r#"{{"id":"{id}","book":"{book}","email":"ada@example.com"}}"#);
        self.ask("POST", "/orders", &["Content-Type: application/json"], &order)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn works(app: &App) {
    const JSON: &str = "Content-Type: application/json";
    let guide = "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a01";
    assert_eq!(app.ask("GET", "/", &[], ""), (200, "A bookshop\n".to_owned()));

    let (status, answer) = app.buy("1001", guide);
    let key = answer.lines().find(|line| line.starts_with("dlv_")).unwrap_or_else(|| panic!("{status} {answer}"));
    assert_eq!(status, 200);
    let (_, again) = app.buy("1001", guide);
    assert!(again.contains(key), "a repeated order has the same key");
    let cook_book = "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a02";
    assert_eq!(app.buy("1001", cook_book).0, 409, "an order is for one book");
    assert_eq!(app.buy("1002", "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a99").0, 404);
    wait_for(Duration::from_secs(10), || app.printed.lock().unwrap().contains(key));

    let bearer = format!("Authorization: Bearer {key}");
    assert_eq!(app.ask("HEAD", "/download", &[&bearer], "").0, 200, "which counts nothing");
    assert_eq!(app.ask("GET", "/download", &[], "").0, 400);
    assert_eq!(app.ask("GET", "/download", &["Authorization: Bearer dlv_nonsense"], "").0, 401);
    for times in 1..=2 {
        let (status, body) = app.ask("GET", "/download", &[&bearer], "");
        assert!(status == 200 && body.contains(&format!("{times} times")), "{status} {body}");
    }
    let (status, body) = app.ask("GET", &format!("/api/validate?key={key}"), &[], "");
    assert!(status == 200 && body.contains("\"used_count\":2"), "{body}");

    let by_hand = r#"{"product_id":1,"customer_email":"bob@example.com","send_email":false}"#;
    assert_eq!(app.ask("POST", "/api/admin/issue-key", &[JSON], by_hand).0, 401);
    let (status, _) =
        app.ask("POST", "/api/admin/issue-key", &[JSON, "Cookie: theme=dark; session=demo-session-of-ada"], by_hand);
    assert_eq!(status, 200);
    assert_eq!(app.ask("POST", "/api/webhook/order", &[JSON], "{}").0, 404, "not mounted");

    // The staff's own sign-in opens the desk; buyers need none.
    let (status, page) = app.ask("GET", "/desk", &["Cookie: session=demo-session-of-ada"], "");
    assert!(status == 200 && page.contains("Bookshop") && page.contains("Overview"), "{status} {page}");
    let (status, page) = app.ask("GET", "/desk", &[], "");
    assert!(status == 401 && page.contains("Sign in first") && page.contains("\"&#x2f;staff\""), "{status} {page}");
    assert_eq!(app.ask("GET", "/desk/sign-in", &[], "").0, 404, "no token of ours opens it");
    let (status, page) = app.ask("GET", "/key", &[], "");
    assert!(status == 200 && page.contains("Open what you bought"), "{status} {page}");

    // The e-mail is counted once its outcome is stored.
    let sent = "delivery_messages_total{outcome=\"sent\"} 1";
    wait_for(Duration::from_secs(10), || app.ask("GET", "/metrics", &[], "").1.contains(sent));
    let (_, metrics) = app.ask("GET", "/metrics", &[], "");
    for line in ["delivery_uses_total 2", "delivery_keys_issued_total 2"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("dlv_"));
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn a_bookshop_on_axum_over_its_own_postgres_pool() {
    let url = support::postgres::postgres().database();
    works(&App::start("embed_axum", &[("DATABASE_URL", &url), ("BIND", "127.0.0.1:0")]));
}

#[test]
fn a_bookshop_on_rocket_in_one_file() {
    works(&App::start("embed_rocket", &[("PORT", &free_port().to_string())]));
}
