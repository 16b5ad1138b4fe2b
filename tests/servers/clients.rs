//! Clients that take their time, and too many of them: what the servers do about it by themselves.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;
use socket2::{Domain, Socket, Type};

use support::process::{CONFIGURED, JSON, RESIDENT, Server, Site, TOKEN, by_token, configured, read_answer, status};
use support::{free_port, wait_for};

/// In real time: five seconds for a head, and the ten that an order's body may take.
pub fn five_hundred_slow_clients_keep_nobody_out_and_are_all_cut_off(site: &Site) {
    const HEAD: &[u8] =
        b"POST /api/webhook/order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n";
    let server = site.shop(&[("LIMIT_WEBHOOK", "100000"), ("HEAD_TIMEOUT", "5")]);
    #[expect(clippy::disallowed_methods, reason = "a slow client is slow in real time")]
    let started = std::time::Instant::now();
    let crowd = |sent: &[u8]| -> Vec<TcpStream> {
        let slow = (0..100).map(|_| {
            let mut stream = server.connect();
            stream.write_all(sent).unwrap();
            stream
        });
        slow.collect()
    };
    let silent = crowd(b"");
    let half = crowd(b"GET /healthz HTTP/1.1\r\nHost:");
    let bodiless = crowd(HEAD);
    let idle = crowd(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut dripping = crowd(b"G");
    let heard_of_dripping = dripping.iter().map(|stream| stream.try_clone().unwrap());
    let heads: Vec<TcpStream> = silent.into_iter().chain(half).chain(idle).chain(heard_of_dripping).collect();
    let heads = std::thread::spawn(move || {
        let answers: Vec<String> = heads.into_iter().map(read_until_closed).collect();
        // By default, a head has 15 seconds, and none of them began before `started`.
        assert!(started.elapsed() < Duration::from_secs(15), "cut off as by default, and not as HEAD_TIMEOUT says");
        answers
    });
    // A byte a second, for as long as the server takes it; in between others are answered.
    let mut request = b"ET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ".iter().chain(std::iter::repeat(&b'x'));
    let mut seconds = 0;
    // Until the last body is given up.
    let last = bodiless.last().unwrap();
    last.set_nonblocking(true).unwrap();
    while last.peek(&mut [0]).is_err() {
        assert!(started.elapsed() < Duration::from_mins(1), "a body is waited for without end");
        assert_eq!(server.call("GET", "/healthz", "", "").0, 200);
        assert_eq!(server.order("while others are slow").0, 200);
        // A pause for the machine, not for the server.
        std::thread::park_timeout(Duration::from_millis(20));
        if started.elapsed().as_secs() > seconds {
            seconds = started.elapsed().as_secs();
            let byte = [*request.next().unwrap()];
            // Until it is cut off.
            for stream in &mut dripping {
                drop(stream.write_all(&byte));
            }
        }
    }
    last.set_nonblocking(false).unwrap();
    let mut answers = heads.join().unwrap();
    answers.extend(bodiless.into_iter().map(read_until_closed));
    let answered = |status: &str| answers.iter().filter(|answer| answer.starts_with(status)).count();
    assert_eq!(answers.len(), 500);
    assert_eq!(answered("HTTP/1.1 200"), 100, "those that asked something");
    assert_eq!(answered("HTTP/1.1 400"), 100, "those whose body never came");
    server.terminate();
}

/// Reads what is answered until the connection is closed.
fn read_until_closed(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // One that was reset in the middle of a byte is as closed as any.
    let _ = stream.read_to_end(&mut answer).inspect_err(|error| assert_eq!(error.kind(), ErrorKind::ConnectionReset));
    String::from_utf8(answer).unwrap()
}

pub fn with_all_places_busy_a_client_waits_for_the_next_that_is_free(site: &Site) {
    // 64 are for the database and the like, which leaves 32.
    // None is cut off before all places are taken.
    let server = site.start_with_descriptors(96, &configured(&[("ANSWER_TIMEOUT", "300")]));
    add_long_posts(&server);
    // No address takes more than three quarters of them.
    let mut taken: Vec<_> = (0..24).map(|_| busy(server.address, [127, 0, 0, 1])).collect();
    let mut refused = server.connect();
    assert!(matches!(refused.read(&mut [0; 1]), Ok(0) | Err(_)), "it is closed, and does not wait for us to ask");
    taken.extend((0..8).map(|_| busy(server.address, [127, 0, 0, 2])));
    let mut waiting = connect_from(server.address, [127, 0, 0, 3]);
    waiting.write_all(HEALTH).unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let early = waiting.read(&mut [0; 1]).unwrap_err().kind();
    assert!(matches!(early, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early}");
    // One takes its answer, which makes room.
    let mut answered = taken.pop().unwrap();
    let mut rest = Vec::new();
    answered.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 1_000_000, "{} bytes", rest.len());
    waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(status(&read_answer(&mut waiting).0), 200);
    drop(taken);
    server.terminate();
}

/// Posts of half a mebibyte: an answer has two, and one is left.
fn add_long_posts(server: &Server) {
    let post = json!({ "title": "Long", "category": "news", "content": "x".repeat(500_000) });
    for _ in 0..3 {
        assert_eq!(server.admin("POST", "post", &post).0, 200);
    }
}

/// A client that asks for a long answer, and whose system takes only about `bytes` bytes of it.
fn half_read(server: SocketAddr, source: [u8; 4], bytes: usize) -> TcpStream {
    let mut stream = connect(server, source, Some(bytes));
    stream.write_all(b"GET /api/posts?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream
}

/// A connection on which a request is being answered: its client takes no more than the beginning of a long answer.
fn busy(server: SocketAddr, source: [u8; 4]) -> TcpStream {
    // With what the server's side holds, less than half of the answer.
    let mut stream = half_read(server, source, 64 << 10);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    stream
}

/// The head of an order whose body is waited for.
pub fn begin_order(server: SocketAddr, source: [u8; 4], length: usize) -> TcpStream {
    const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut stream = connect_from(server, source);
    let head = format!("POST /api/webhook/order HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: {length}\r\n");
    stream.write_all(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes()).unwrap();
    let mut answer = [0; GO_ON.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, GO_ON);
    stream
}

/// Heads of orders, whose bodies may take ten seconds: who has sent none for a second makes room.
pub fn who_sends_no_body_makes_room_for_who_asks(site: &Site) {
    let server = site.start_with(&[("MAX_CONNECTIONS", "10")]);
    let mut silent: Vec<TcpStream> = Vec::new();
    for source in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        silent.extend((0..5).map(|_| begin_order(server.address, source, 99)));
    }
    let mut stranger = connect_from(server.address, [127, 0, 0, 3]);
    // Before the ten seconds of a body are over.
    stranger.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    stranger.write_all(HEALTH).unwrap();
    assert_eq!(status(&read_answer(&mut stranger).0), 200);
    // No more than one was closed for it: the bodies of the others are waited for.
    let answered = silent.iter_mut().filter_map(|stream| {
        let mut answer = [0; 12];
        stream.write_all(&[b' '; 99]).and_then(|()| stream.read_exact(&mut answer)).ok().map(|()| answer)
    });
    assert_eq!(answered.collect::<Vec<_>>(), [*b"HTTP/1.1 400"; 9]);
    drop(silent);
    server.terminate();
}

/// Nobody waits until a connection has been idle for as long as it may be.
pub fn who_is_idle_longest_makes_room_for_who_asks(site: &Site) {
    let server = site.start_with(&[("MAX_CONNECTIONS", "10"), ("HEAD_TIMEOUT", "300")]);
    let mut idle: Vec<TcpStream> = Vec::new();
    for source in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        idle.extend((0..5).map(|_| connect_from(server.address, source)));
    }
    // Once the last is answered, the server has taken all, one after another. Then the second has been idle longest.
    for asking in [9, 0] {
        idle[asking].write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert_ne!(idle[asking].read(&mut [0; 4096]).unwrap(), 0);
    }
    // They say nothing, and get nobody's place.
    let silent: Vec<TcpStream> = (0..3).map(|_| connect_from(server.address, [127, 0, 0, 2])).collect();
    let mut third = connect_from(server.address, [127, 0, 0, 3]);
    third.write_all(HEALTH).unwrap();
    assert_eq!(status(&read_answer(&mut third).0), 200);
    let mut closed = idle.remove(1);
    assert_eq!(closed.read(&mut [0; 1]).unwrap(), 0);
    for stream in &mut idle {
        stream.write_all(HEALTH).unwrap();
        assert_eq!(status(&read_answer(stream).0), 200, "it is served as ever");
    }
    drop(silent);
    server.terminate();
}

/// A connection from another address of this machine.
pub fn connect_from(server: SocketAddr, source: [u8; 4]) -> TcpStream {
    connect(server, source, None)
}

/// A connection from another address of this machine. Until the client reads, its system takes only about `bytes`
/// bytes.
fn connect(server: SocketAddr, source: [u8; 4], bytes: Option<usize>) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    if let Some(bytes) = bytes {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

pub const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

pub fn one_address_keeps_no_other_out(site: &Site) {
    // None of them is cut off because it says nothing.
    let settings = [("MAX_CONNECTIONS_PER_ADDRESS", "5"), ("MAX_CONNECTIONS", "10"), ("HEAD_TIMEOUT", "300")];
    let server = site.start_with(&settings);
    // Five are served, and say nothing; the next five wait in line.
    let mut silent: Vec<TcpStream> = (0..5).map(|_| connect_from(server.address, [127, 0, 0, 1])).collect();
    let mut waiting: Vec<TcpStream> = (0..5).map(|_| connect_from(server.address, [127, 0, 0, 1])).collect();
    for stream in &mut waiting {
        stream.write_all(HEALTH).unwrap();
    }
    let mut other = connect_from(server.address, [127, 0, 0, 2]);
    other.write_all(HEALTH).unwrap();
    assert_eq!(status(&read_answer(&mut other).0), 200, "another address is served at once");
    waiting[0].set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let early = waiting[0].read(&mut [0; 1]).unwrap_err().kind();
    assert!(matches!(early, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early}");
    // One leaves: the whole line passes through its place.
    silent.pop();
    for stream in &mut waiting {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert_eq!(status(&read_answer(stream).0), 200);
    }
    // A trusted proxy speaks for many.
    let site = Site::new(site.program);
    let server = site.start_with(&[("TRUSTED_PROXIES", "127.0.0.3"), ("MAX_CONNECTIONS_PER_ADDRESS", "2")]);
    let held: Vec<TcpStream> = (0..5).map(|_| connect_from(server.address, [127, 0, 0, 3])).collect();
    let mut proxy = connect_from(server.address, [127, 0, 0, 3]);
    proxy.write_all(HEALTH).unwrap();
    assert_eq!(status(&read_answer(&mut proxy).0), 200);
    drop(held);
}

/// In real time: fifteen seconds without taking anything, in which a busy machine opens all connections.
pub fn whoever_takes_no_answer_fills_no_memory_and_is_cut_off(site: &Site) {
    let server = site.start_with(&[("ANSWER_TIMEOUT", "15")]);
    add_long_posts(&server);
    let (_, list) = server.call("GET", "/api/posts?limit=100", "", "");
    assert_eq!(list["posts"].as_array().map(Vec::len), Some(2), "a mebibyte of content");
    let readers: Vec<TcpStream> = (0..500).map(|_| half_read(server.address, [127, 0, 0, 1], 4096)).collect();
    let sockets = || std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count();
    wait_for(Duration::from_secs(15), || sockets() > 500);
    let mut most = 0;
    wait_for(Duration::from_mins(1), || {
        most = most.max(server.memory(RESIDENT));
        sockets() < 100
    });
    assert!(most < 150, "{most} MB");
    drop(readers);
}

pub fn a_connection_made_while_the_server_starts_is_served(site: &Site) {
    for _ in 0..5 {
        let bind = format!("127.0.0.1:{}", free_port());
        std::thread::scope(|scope| {
            let early = scope.spawn(|| {
                let mut early = None;
                wait_for(Duration::from_secs(30), || {
                    early = TcpStream::connect(&bind).ok();
                    early.is_some()
                });
                let mut early = early.unwrap();
                early.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                early.write_all(HEALTH).unwrap();
                assert_eq!(status(&read_answer(&mut early).0), 200);
            });
            let _server = site.start_with(&[("BIND", &bind)]);
            early.join().unwrap();
        });
    }
}

/// It has sent all of it before it reads, as proxies do.
pub fn who_sends_too_long_a_body_is_told(site: &Site) {
    let server = site.start(&CONFIGURED);
    let admin = by_token(TOKEN);
    for (target, headers, length, expected) in [
        ("/api/webhook/order", JSON, 100_000, 413),
        ("/api/webhook/order", JSON, 10_000_000, 413),
        ("/api/admin/product", &*admin, 10_000_000, 413),
        ("/api/admin/product", JSON, 10_000_000, 413),
    ] {
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n");
        let (answer, _) = server.send(&[head.as_bytes(), &vec![b' '; length]].concat());
        assert_eq!(status(&answer), expected, "{target} {length}");
    }
    server.terminate();
}

pub fn a_request_names_its_host_once(site: &Site) {
    let server = site.start(&CONFIGURED);
    for (head, expected) in [
        ("GET /healthz HTTP/1.1\r\nHost: x\r\n", 200),
        ("GET /healthz HTTP/1.1\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: x\r\nhost: x\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: a b\r\n", 400),
        ("GET /healthz HTTP/1.0\r\n", 200),
        ("GET /healthz HTTP/1.0\r\nHost: x\r\nHost: y\r\n", 400),
    ] {
        let (answer, body) = server.send(format!("{head}Connection: close\r\n\r\n").as_bytes());
        assert_eq!(status(&answer), expected, "{head}");
        assert!(expected == 200 || body.contains("INVALID_PARAMS"), "{body}");
    }
    server.terminate();
}

/// The second line ends the walk at the proxy, whatever bytes it has: the first is the client's own.
pub fn who_forwards_in_two_lines_is_believed_in_none(site: &Site) {
    let server = site.start_with(&[("TRUSTED_PROXIES", "127.0.0.1"), ("LIMIT_VALIDATE", "20")]);
    for second in [&b"\xff"[..], b"\xc3\xa4", b"unknown"] {
        let statuses: Vec<u16> = (0..40)
            .map(|index| {
                let head =
                    format!("GET /api/validate?key=x HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.0.0.{index}\r\n");
                let head = [head.as_bytes(), b"X-Forwarded-For: ", second, b"\r\nConnection: close\r\n\r\n"].concat();
                status(&server.send(&head).0)
            })
            .collect();
        assert!(statuses.iter().filter(|status| **status == 401).count() <= 20, "{second:?}: {statuses:?}");
    }
    // The peer that is not trusted is told of, once.
    let site = Site::new(site.program);
    let server = site.start(&CONFIGURED);
    for _ in 0..3 {
        server.call("GET", "/api/validate?key=x", "X-Forwarded-For: 10.0.0.1\r\n", "");
    }
    assert_eq!(server.terminate().matches("TRUSTED_PROXIES").count(), 1);
}
