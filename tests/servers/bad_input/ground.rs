//! What cases need to stand on: servers with a shop in each, and a key or an order; and what they left behind.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{ConnectOptions, Row};
use tokio::runtime::Runtime;

use super::case::{Case, Kind, MAX_USES, Setup};
use super::exchange::exchange;
use support::process::{CONFIGURED, JSON, PLENTY, SECRET, Server, Site, TOKEN, order_by};
use support::wait_for;

/// Posts in each shop, of one category: a list that shows all of them was not limited, or matched what it should not.
pub const POSTS: usize = 70;
const HEAD: &str = "Host: x\r\nConnection: close\r\n";

/// What stands for `{{NAME}}`.
pub type Values = HashMap<&'static str, String>;

/// Two servers of one framework.
pub struct Ground {
    shops: HashMap<Kind, Shop>,
    uniq: u32,
    runtime: Runtime,
}

pub struct Shop {
    site: Site,
    pub server: Server,
    log: PathBuf,
    database: SqliteConnection,
}

/// What is in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub keys: i64,
    pub uses: i64,
    pub messages: i64,
    pub products: i64,
}

/// A key as its row has it, and the e-mail that goes with it.
#[derive(Debug)]
pub struct Sold {
    pub email: String,
    pub max_uses: i64,
    /// From issue to expiry.
    pub seconds: i64,
    message_id: Option<String>,
}

impl Ground {
    pub fn new(program: &'static str) -> Self {
        let runtime = Runtime::new().unwrap();
        let kinds = [Kind::Generous, Kind::Limits];
        let shops = kinds.map(|kind| (kind, Shop::open(program, kind, &runtime))).into();
        Self { shops, uniq: 0, runtime }
    }

    pub fn uniq(&mut self) -> u32 {
        self.uniq += 1;
        self.uniq
    }

    /// A loopback address that nobody had before.
    pub fn source(&mut self) -> Ipv4Addr {
        let [_, b, c, d] = self.uniq().to_be_bytes();
        Ipv4Addr::new(127, b + 1, c, d)
    }

    pub fn shop(&mut self, case: &Case) -> (&mut Shop, &Runtime) {
        (self.shops.get_mut(&case.server).unwrap(), &self.runtime)
    }

    /// What stands for the placeholders of a case.
    pub fn set_up(&mut self, case: &Case) -> Values {
        let (uniq, source) = (self.uniq(), self.source());
        let shop = &self.shops[&case.server];
        let mail = format!("buyer{uniq}@example.com");
        let mut values: Values = HashMap::from([
            ("WEBHOOK_SECRET", SECRET.to_owned()),
            ("WEBHOOK_SECRET_MINUS_LAST", minus_last(SECRET)),
            ("WEBHOOK_SECRET_SWAPCASE", swapped(SECRET)),
            ("WEBHOOK_SECRET_FLIP1", flipped(SECRET)),
            ("ADMIN_TOKEN", TOKEN.to_owned()),
            ("ADMIN_TOKEN_MINUS_LAST", minus_last(TOKEN)),
            ("ADMIN_TOKEN_SWAPCASE", swapped(TOKEN)),
            ("ADMIN_TOKEN_FLIP1", flipped(TOKEN)),
            ("PRODUCT_ID", "1".to_owned()),
            ("RUN", "run".to_owned()),
            ("MAIL", mail.clone()),
        ]);
        match case.setup {
            Setup::None => {}
            Setup::ValidKey => {
                let body = json!({ "product_id": 1, "customer_email": mail, "max_uses": MAX_USES });
                let issued = admin(&shop.server, source, "issue-key", &body);
                let key = issued["api_key"].as_str().unwrap();
                values.extend([("KEY_MINUS_LAST", minus_last(key)), ("KEY_SWAPCASE", swapped(key))]);
                values.extend([("KEY_FLIP1", flipped(key)), ("KEY", key.to_owned())]);
            }
            Setup::Order => {
                let (id, mail) = (format!("order-{uniq}"), format!("Orderer{uniq}@example.com"));
                let ordered = post(&shop.server, source, "/api/webhook/order", "", &order_by(&id, &mail));
                values.insert("ORDER_MAIL_UPPER_DOMAIN", mail.replace("example.com", "EXAMPLE.COM"));
                values.extend([("ORDER_ID", id), ("ORDER_MAIL", mail)]);
                values.insert("ORDER_KEY", ordered["api_key"].as_str().unwrap().to_owned());
            }
        }
        values
    }

    /// The logs of both, which are asked to end.
    pub fn end(self) -> Vec<String> {
        let ended = |shop: Shop| {
            shop.server.terminate();
            fs::read_to_string(&shop.log).unwrap()
        };
        self.shops.into_values().map(ended).collect()
    }
}

fn minus_last(secret: &str) -> String {
    secret[..secret.len() - 1].to_owned()
}

fn swapped(secret: &str) -> String {
    let swap = |c: char| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
    secret.chars().map(swap).collect()
}

/// With one bit of the last character another.
fn flipped(secret: &str) -> String {
    let last = secret.as_bytes()[secret.len() - 1] ^ 1;
    format!("{}{}", minus_last(secret), char::from(last))
}

/// Sends a request of the shop's owner or platform, which must be a good one.
fn post(server: &Server, source: Ipv4Addr, path: &str, headers: &str, body: &Value) -> Value {
    let body = body.to_string();
    let length = body.len();
    let request = format!("POST {path} HTTP/1.1\r\n{HEAD}{JSON}{headers}Content-Length: {length}\r\n\r\n{body}");
    let answer = exchange(server.address, source, request.as_bytes(), false).answers.remove(0);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn admin(server: &Server, source: Ipv4Addr, path: &str, body: &Value) -> Value {
    post(server, source, &format!("/api/admin/{path}"), &format!("Authorization: Bearer {TOKEN}\r\n"), body)
}

impl Shop {
    fn open(program: &'static str, kind: Kind, runtime: &Runtime) -> Self {
        let site = Site::new(program);
        let log = site.path().join("log");
        let start = |settings: &[(&str, &str)]| {
            let mut command = site.command(settings);
            // Read at the end; a pipe that nobody reads would stop the server.
            let log = File::options().create(true).append(true).open(&log).unwrap();
            command.env("RUST_LOG", "trace").stderr(log);
            Server::start(command)
        };
        // Where quotas are not what is tested.
        let generous = [&CONFIGURED[..], &PLENTY, &[("LIMIT_FAILURES", "1000000")]].concat();
        let (server, here) = (start(&generous), Ipv4Addr::LOCALHOST);
        admin(&server, here, "product", &json!({ "name": "Guide", "content": "# Guide" }));
        for number in 0..POSTS {
            let post = json!({ "title": format!("Post {number}"), "category": "news", "content": "x" });
            admin(&server, here, "post", &post);
        }
        server.terminate();
        let options = SqliteConnectOptions::new().filename(site.data().join("delivery.db"));
        let options = options.busy_timeout(Duration::from_secs(10));
        let database = runtime.block_on(options.connect()).unwrap();
        let server = start(if kind == Kind::Limits { &CONFIGURED } else { &generous });
        Self { site, server, log, database }
    }

    /// Buys the product that was just added.
    pub fn buy(&self, source: Ipv4Addr, product: &Value, email: &str) {
        let mut order = order_by(&format!("then-{email}"), email);
        order["product_id"] = product.clone();
        post(&self.server, source, "/api/webhook/order", "", &order);
    }

    pub fn counts(&mut self, runtime: &Runtime) -> Counts {
        const SQL: &str = "SELECT (SELECT count(*) FROM delivery_key) AS keys, (SELECT count(*) FROM delivery_use) AS uses, \
            (SELECT count(*) FROM delivery_message) AS messages, (SELECT count(*) FROM delivery_product) AS products";
        let row = runtime.block_on(sqlx::query(SQL).fetch_one(&mut self.database)).unwrap();
        let count = |name| row.get(name);
        Counts { keys: count("keys"), uses: count("uses"), messages: count("messages"), products: count("products") }
    }

    /// The keys beyond the first `known`.
    pub fn sold_since(&mut self, runtime: &Runtime, known: i64) -> Vec<Sold> {
        const SQL: &str = "SELECT g.email, g.max_uses, g.expires_at - g.issued_at AS seconds, l.message_id \
            FROM delivery_key g LEFT JOIN delivery_message l ON l.key = g.number ORDER BY g.number LIMIT -1 OFFSET ?";
        let rows = runtime.block_on(sqlx::query(SQL).bind(known).fetch_all(&mut self.database)).unwrap();
        let sold = |row: &SqliteRow| Sold {
            email: row.get("email"),
            max_uses: row.get("max_uses"),
            seconds: row.get("seconds"),
            message_id: row.get("message_id"),
        };
        rows.iter().map(sold).collect()
    }

    /// The e-mail as it was sent, once it was.
    pub fn message(&self, sold: &Sold) -> String {
        let id = format!("Message-ID: <{}>", sold.message_id.as_ref().expect("a key whose e-mail is none"));
        let mut message = None;
        wait_for(Duration::from_secs(20), || {
            message = self.site.messages().into_iter().find(|message| message.contains(&id));
            message.is_some()
        });
        message.unwrap_or_default()
    }

    /// Bytes in memory.
    pub fn resident(&self) -> u64 {
        let pages = fs::read_to_string(format!("/proc/{}/statm", self.server.id())).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// Whether the machine has a connection to an address of a cloud's metadata service, or is about to.
    pub fn fetches_upstream(&self) -> bool {
        let sockets = fs::read_to_string(format!("/proc/{}/net/tcp", self.server.id())).unwrap();
        // 169.254.169.254, as the kernel writes it.
        sockets.contains("FEA9FEA9:")
    }
}
