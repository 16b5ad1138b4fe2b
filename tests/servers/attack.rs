//! What a stranger sends to take a shop down.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use support::process::{JSON, PLENTY, Server, Site, read_answer, status};

use crate::clients::connect_from;
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
