//! What a stranger sends to take a shop down.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use support::process::{JSON, PEAK, PLENTY, RESIDENT, SECRET, Server, Site, read_answer, status};
use support::wait_for;

use crate::clients::{HEALTH, begin_order, connect_from};
use crate::crash::clients::Done;
use crate::proxy::{Kind, Proxy};

/// Bytes that a stranger sends at once.
const PIECE: usize = 10_000;
/// What strangers send: a target, the length of the body, and how many pieces a second.
const BODIES_NOBODY_READS: [(&str, usize, u64); 3] =
    [("GET /api/products", 100_000, 50), ("POST /nowhere", 70_000, 50), ("POST /key", 1_000_000, 200)];

pub fn bodies_that_nobody_reads_fail_no_order_behind_nginx(site: &Site) {
    bodies_that_nobody_reads_fail_no_order(site, Kind::Nginx);
}

pub fn bodies_that_nobody_reads_fail_no_order_behind_caddy(site: &Site) {
    bodies_that_nobody_reads_fail_no_order(site, Kind::Caddy);
}

/// Answered before the end of the body, the proxy must still get the answer, and must not leave the server out.
fn bodies_that_nobody_reads_fail_no_order(site: &Site, kind: Kind) {
    let orders = support::rounds(200, 1_000);
    for count in [1, 2] {
        let sites = [site, &Site::new(site.program)];
        let shop = |site: &&Site| site.shop(&[&PLENTY[..], &[("TRUSTED_PROXIES", "127.0.0.1")]].concat());
        let servers: Vec<Server> = sites[..count].iter().map(shop).collect();
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        let proxy = Proxy::start(kind, &addresses);
        let (done, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let _done = Done(&done);
            for (host, (target, length, pace)) in BODIES_NOBODY_READS.into_iter().cycle().take(6).enumerate() {
                let (proxy, done, sent) = (&proxy, &done, &sent);
                let host = 2 + u8::from(host >= BODIES_NOBODY_READS.len());
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let mut stream = connect_from(proxy.address, [127, 0, 0, host]);
                        let head =
                            format!("{target} HTTP/1.1\r\nHost: shop.example\r\nContent-Length: {length}\r\n\r\n");
                        let mut sending = stream.write_all(head.as_bytes());
                        for _ in 0..length / PIECE {
                            // As fast as the stranger's line is.
                            thread::park_timeout(Duration::from_millis(1_000 / pace));
                            sending = sending.and_then(|()| stream.write_all(&[b'x'; PIECE]));
                        }
                        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
                        let _ = stream.read(&mut [0; 1]);
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let buyers: Vec<_> = (0..4)
                .map(|buyer| {
                    let (proxy, sent) = (&proxy, &sent);
                    scope.spawn(move || {
                        // Until all is sent, and the strangers have been there.
                        for number in (0..).take_while(|n| *n < orders / 4 || sent.load(Ordering::Relaxed) < 20) {
                            // By a client of its own, as platforms are.
                            proxy.sell(&mut proxy.client(), &format!("{buyer}-{number}"));
                        }
                    })
                })
                .collect();
            for buyer in buyers {
                buyer.join().unwrap();
            }
        });
    }
}

/// Told so, a client and a proxy know that the connection ends, and that nothing is broken.
pub fn an_answer_before_the_end_of_a_body_is_the_last_of_its_connection(site: &Site) {
    let server = site.shop(&[]);
    for (target, headers, sent, expected) in [
        ("GET /api/products", "", 0, 200),
        ("GET /api/products", "", 50_000, 200),
        ("GET /healthz", "", 50_000, 200),
        ("POST /nowhere", "", 1, 404),
        ("PUT /api/webhook/order", JSON, 1, 405),
        ("GET /api/products", "", 100_000, 200),
        ("POST /api/resend", JSON, 100_000, 413),
        ("POST /key", "Content-Type: text/plain\r\n", 100_000, 413),
    ] {
        let mut stream = server.connect();
        let head = format!("{target} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: 100000\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'x'; sent]).unwrap();
        let (head, _) = read_answer(&mut stream);
        assert_eq!(status(&head), expected, "{target}: {head}");
        assert!(head.to_lowercase().contains("\r\nconnection: close"), "{target} {sent}: {head}");
    }
    // One that was read leaves it open.
    let mut stream = server.connect();
    for _ in 0..2 {
        let request = format!("POST /api/webhook/order HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: 2\r\n\r\n{{}}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 8 << 10];
        let read = stream.read(&mut head).unwrap();
        let answer = String::from_utf8_lossy(&head[..read]);
        assert!(answer.starts_with("HTTP/1.1 400") && !answer.to_lowercase().contains("connection: close"), "{answer}");
    }
}

/// Bodies of orders, which may take ten seconds, from senders who send a little more than what counts as idle.
pub fn bodies_that_drip_keep_nobody_out(site: &Site) {
    const LENGTH: usize = 64 << 10;
    /// Four of them are sent a second: 6,000 bytes.
    const DROP: [u8; 1_500] = [b' '; 1_500];
    let server = site.start_with(&[("MAX_CONNECTIONS", "10")]);
    let mut bodies: Vec<TcpStream> = Vec::new();
    for source in [[127, 0, 0, 2], [127, 0, 0, 3]] {
        bodies.extend((0..5).map(|_| begin_order(server.address, source, LENGTH)));
    }
    let mut stranger = connect_from(server.address, [127, 0, 0, 4]);
    stranger.write_all(HEALTH).unwrap();
    // The attack takes time: whoever asks is waited for between two drops, for half of what their bodies may take.
    stranger.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
    let drops = (1..=20).find(|_| {
        for stream in &mut bodies {
            // The one that makes room is closed.
            let _ = stream.write_all(&DROP);
        }
        stranger.peek(&mut [0]).is_ok()
    });
    let drops = drops.expect("an answer while the bodies drip");
    assert_eq!(status(&read_answer(&mut stranger).0), 200);
    // No more than one was closed for it: the bodies of the others are waited for.
    let rest = vec![b' '; LENGTH - drops * DROP.len()];
    let answered = bodies.iter_mut().filter_map(|stream| {
        let mut answer = [0; 12];
        stream.write_all(&rest).and_then(|()| stream.read_exact(&mut answer)).ok().map(|()| answer)
    });
    assert_eq!(answered.collect::<Vec<_>>(), [*b"HTTP/1.1 400"; 9]);
    server.terminate();
}

/// Bodies of a mebibyte that end never, from one address and from many behind a proxy; a platform's events are taken meanwhile. What
/// they held is given back when they have left.
pub fn bodies_of_strangers_fill_no_memory(site: &Site) {
    const HEAD: &str = "POST /api/webhook/stripe HTTP/1.1\r\nHost: x\r\nStripe-Signature: t=1,v1=00\r\n";
    const LENGTH: usize = (1 << 20) - 1;
    let settings =
        [("STRIPE_SECRET", "a-secret-of-stripe-s"), ("GUMROAD_TOKEN", SECRET), ("TRUSTED_PROXIES", "127.0.0.3")];
    let server = site.start_with(&[&settings[..], &PLENTY].concat());
    let product = json!({ "name": "Guide", "content": "x", "refs": { "gumroad": ["guide"] } });
    assert_eq!(server.admin("POST", "product", &product).0, 200);
    let sale_is_taken = |id: &str, length: usize| {
        let pad = "x".repeat(length);
        let sale = format!("sale_id={id}&resource_name=sale&permalink=guide&email=a%40example.com&pad={pad}");
        let told = server.call("POST", &format!("/api/webhook/gumroad?token={SECRET}"), "", &sale);
        assert_eq!(told.0, 200, "{id}: {told:?}");
    };
    let mut held = Vec::new();
    for stranger in 0..300 {
        let from = [127, 0, 0, 2 + u8::from(stranger % 2 == 0)];
        let mut stream = connect_from(server.address, from);
        stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        let address = format!("X-Forwarded-For: 10.0.{}.{}\r\n", stranger / 250, stranger % 250);
        stream.write_all(format!("{HEAD}{address}Content-Length: {LENGTH}\r\n\r\n").as_bytes()).unwrap();
        // One that had to give way is closed in the middle.
        let _ = stream.write_all(&vec![b'x'; LENGTH - 1]);
        held.push(stream);
        if stranger % 10 == 0 {
            sale_is_taken(&format!("beside-{stranger}"), 20_000);
            assert_eq!(server.call("GET", "/healthz", "", "").0, 200);
        }
    }
    let peak = server.memory(PEAK);
    assert!(peak <= 250, "{peak} MB");
    drop(held);
    // Half of the 32 MiB that their bodies held, at least. The allocator returns memory to the system a second after it was
    // freed, when large blocks are allocated again.
    wait_for(Duration::from_mins(2), || {
        sale_is_taken("afterwards", 200_000);
        server.memory(RESIDENT) + 16 <= peak
    });
}

/// The page that an answer leads to, and the cookie that it sets.
fn leads_to(head: &str) -> (String, String) {
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).expect(name).to_owned();
    (field("location: "), field("set-cookie: ").split(';').next().unwrap().to_owned())
}

/// Counts what has ended.
struct Counted<'n>(&'n AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Many times at once, the longest content that there may be, in the form that takes the most. Orders are answered while it is
/// rendered.
pub fn one_key_fills_no_memory_and_keeps_nobody_waiting(site: &Site) {
    /// A page takes more than six megabytes: one for each opener is more than the bound below.
    const OPENERS: usize = 60;
    let server = site.start_with(&PLENTY);
    let table = format!("|a|b|\n|-|-|\n{}", "|x|y|\n".repeat(170_000));
    assert_eq!(server.admin("POST", "product", &json!({ "name": "Table", "content": table })).0, 200);
    let key = server.sell("1");
    let ended = AtomicUsize::new(0);
    let opened = thread::scope(|scope| {
        let open = |request: usize| {
            let (server, key, ended) = (&server, &key, &ended);
            scope.spawn(move || {
                // Counted also if it fails, so that nobody waits for it.
                let _counted = Counted(ended);
                let form = format!("do=open&request=r{request}&key={key}");
                let (opened, _) =
                    server.exchange("POST", "/key", "Content-Type: application/x-www-form-urlencoded\r\n", &form);
                assert_eq!(status(&opened), 303, "{opened}");
                let (page, cookie) = leads_to(&opened);
                server.exchange("GET", &page, &format!("Cookie: {cookie}\r\n"), "")
            })
        };
        let opening: Vec<_> = (0..OPENERS).map(open).collect();
        // Until the first has its page. An order takes milliseconds, and the page a debug build seconds. There are four
        // buyers, because a busy machine may let some stand still meanwhile. One of them must get five orders answered,
        // one after another.
        let buy = |buyer: usize| {
            let (server, ended) = (&server, &ended);
            scope.spawn(move || {
                let beside = (0..).take_while(|order| {
                    assert_eq!(server.order(&format!("beside them {buyer}-{order}")).0, 200);
                    ended.load(Ordering::Relaxed) == 0
                });
                beside.count()
            })
        };
        let buyers: Vec<_> = (0..4).map(buy).collect();
        let beside: Vec<usize> = buyers.into_iter().map(|buyer| buyer.join().unwrap()).collect();
        assert!(beside.iter().any(|orders| *orders >= 5), "{beside:?} orders were answered before the first page");
        opening.into_iter().map(|opening| opening.join().unwrap()).collect::<Vec<_>>()
    });
    let pages =
        opened.iter().filter(|(head, page)| status(head) == 200 && page.contains("|x|y|") && page.ends_with("</html>"));
    assert_eq!(pages.count(), OPENERS);
    let peak = server.memory(PEAK);
    assert!(peak <= 256, "{peak} MB");
}
