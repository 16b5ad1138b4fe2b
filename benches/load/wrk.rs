//! The load: wrk, which runs beside the server as a process of its own, on keep-alive connections.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use hmac::{Hmac, KeyInit, Mac};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use sha2::Sha256;

use support::process::SECRET;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    Validate,
    Fetch,
    Order,
    Forged,
    /// Sales on Shopify, each with its signature.
    Event,
    /// The same, signed by somebody else.
    ForgedEvent,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Measured {
    pub requests: f64,
    pub per_second: f64,
    /// In microseconds.
    pub median: f64,
    pub p99: f64,
    /// Processor time of the server for a request, in microseconds.
    pub processor: f64,
}

pub struct Scripts {
    folder: PathBuf,
}

/// Requests are made before the load begins: wrk takes one after the other.
const GET: &str = r#"
local requests, at = {}, 0
function init()
    for key in io.lines("KEYS") do requests[#requests + 1] = wrk.format("GET", "PATH" .. key) end
end
function request()
    at = at % #requests + 1
    return requests[at]
end
"#;

const POST: &str = r#"
local number = 0
function request()
    number = number + 1
    local order = '{"secret":"SECRET","order_id":"RUN-%d","product_id":1,"customer_email":"buyer@example.com"}'
    return wrk.format("POST", "/api/webhook/order", {["Content-Type"] = "application/json"}, order:format(number))
end
"#;

const EVENT: &str = r#"
local requests, at = {}, 0
function init()
    for line in io.lines("EVENTS") do
        local number, signature, body = line:match("(%S+) (%S+) (.*)")
        requests[#requests + 1] = wrk.format("POST", "/api/webhook/shopify", {
            ["X-Shopify-Hmac-Sha256"] = signature, ["X-Shopify-Topic"] = "orders/paid", ["X-Shopify-Webhook-Id"] = number,
            ["X-Shopify-Shop-Domain"] = "shop.example", ["X-Shopify-API-Version"] = "2026-01"}, body)
    end
end
function request()
    at = at % #requests + 1
    return requests[at]
end
"#;

/// More events than a server takes in a second.
const EVENTS: u32 = 40_000;

/// Sales that were never told of before, a line each: number, signature, body.
fn events(run: u32, count: u32, secret: &str) -> String {
    let line = |number: u32| {
        let number = format!("{run}{number:09}");
        let body = format!(
            "{{\"id\":{number},\"financial_status\":\"paid\",\"email\":\"buyer@example.com\",\
             \"line_items\":[{{\"id\":1,\"sku\":\"PROD-1\",\"quantity\":1}}]}}"
        );
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(body.as_bytes());
        format!("{number} {} {body}\n", data_encoding::BASE64.encode(&mac.finalize().into_bytes()))
    };
    (0..count).map(line).collect()
}

impl Scripts {
    pub fn write(folder: &Path, keys: &[String], secret: &str) -> Self {
        let mut keys = keys.to_vec();
        let mut chance = StdRng::seed_from_u64(1);
        keys.shuffle(&mut chance);
        fs::write(folder.join("keys"), keys.join("\n")).unwrap();
        let forged = keys.iter().map(|key| {
            let (front, back) = key.split_at(key.len() - 8);
            let other: String = back.chars().map(|_| char::from(b'0' + chance.random_range(0..10))).collect();
            format!("{front}{other}&forged")
        });
        fs::write(folder.join("forged"), forged.collect::<Vec<_>>().join("\n")).unwrap();
        for (load, path, file) in [
            (Load::Validate, "/api/validate?key=", "keys"),
            (Load::Fetch, "/api/product?product_id=1&key=", "keys"),
            (Load::Forged, "/api/product?product_id=1&key=", "forged"),
        ] {
            let script = GET.replace("PATH", path).replace("KEYS", folder.join(file).to_str().unwrap());
            fs::write(folder.join(format!("{load:?}.lua")), script).unwrap();
        }
        fs::write(folder.join("Order.lua"), POST.replace("SECRET", secret)).unwrap();
        Self { folder: folder.to_owned() }
    }

    /// Loads a server over so many connections; processor time is for others to add.
    pub fn run(&self, server: SocketAddr, load: Load, connections: u32, seconds: u32) -> Measured {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let mut script = self.folder.join(format!("{load:?}.lua"));
        if load == Load::Order {
            let text = fs::read_to_string(&script).unwrap();
            script = self.folder.join("this-order.lua");
            fs::write(&script, text.replace("RUN", &RUNS.fetch_add(1, Ordering::Relaxed).to_string())).unwrap();
        }
        if matches!(load, Load::Event | Load::ForgedEvent) {
            let run = 1 + RUNS.fetch_add(1, Ordering::Relaxed);
            let secret = if load == Load::Event { SECRET } else { "somebody-else's-secret" };
            let file = self.folder.join("events");
            fs::write(&file, events(run, EVENTS * seconds, secret)).unwrap();
            script = self.folder.join("this-event.lua");
            fs::write(&script, EVENT.replace("EVENTS", file.to_str().unwrap())).unwrap();
        }
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "1", "--latency", "--timeout", "10s", "--connections", &connections.to_string()]);
        wrk.args(["--duration", &format!("{seconds}s"), "--script"]).arg(script).arg(format!("http://{server}/"));
        let output = wrk.output().expect("wrk, as in Debian's package wrk");
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let measured = read(&said);
        assert!(!said.contains("Socket errors"), "{load:?}: {said}");
        let is_forged = matches!(load, Load::Forged | Load::ForgedEvent);
        assert_eq!(said.contains("Non-2xx"), is_forged, "{load:?}: {said}");
        assert!(load != Load::Event || measured.requests < f64::from(EVENTS * seconds), "events came twice");
        measured
    }
}

fn read(said: &str) -> Measured {
    let after = |name: &str| {
        let rest = said.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_else(|| panic!("{said}"));
        rest.trim().to_owned()
    };
    let requests = said.lines().find(|line| line.contains("requests in")).unwrap_or_else(|| panic!("{said}"));
    Measured {
        requests: requests.split_whitespace().next().unwrap().parse().unwrap(),
        per_second: after("Requests/sec:").parse().unwrap(),
        median: microseconds(&after("50%")),
        p99: microseconds(&after("99%")),
        processor: f64::NAN,
    }
}

fn microseconds(text: &str) -> f64 {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7)];
    let (number, unit) = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor))).unwrap();
    number.parse::<f64>().unwrap() * unit
}
