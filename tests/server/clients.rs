//! Clients that take their time, and too many of them: what the axum server does about it by itself.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::process::{CONFIGURED, Site, read_answer, status};

/// In real time: the server's deadlines, 15 s for a head and 10 s for an order's body, are no settings.
#[test]
fn five_hundred_slow_clients_keep_nobody_out_and_are_all_cut_off() {
    const HEAD: &[u8] =
        b"POST /api/webhook/order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n";
    let site = Site::new("axum_server");
    let server = site.start(&[&CONFIGURED[..], &[("LIMIT_WEBHOOK", "100000")]].concat());
    assert_eq!(server.add_product().0, 200);
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
    // A byte a second, for as long as the server takes it; in between others are answered.
    let request = b"ET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ".iter().chain(std::iter::repeat(&b'x'));
    #[expect(clippy::disallowed_methods, reason = "a slow client is slow in real time")]
    let (started, mut request) = (std::time::Instant::now(), request);
    let mut seconds = 0;
    while started.elapsed() < Duration::from_secs(20) {
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
    let mut answers: Vec<String> = Vec::new();
    for mut stream in [silent, half, bodiless, idle, dripping].into_iter().flatten() {
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answer = Vec::new();
        // One that was reset in the middle of a byte is as closed as any.
        let _ =
            stream.read_to_end(&mut answer).inspect_err(|error| assert_eq!(error.kind(), ErrorKind::ConnectionReset));
        answers.push(String::from_utf8(answer).unwrap());
    }
    let answered = |status: &str| answers.iter().filter(|answer| answer.starts_with(status)).count();
    assert_eq!(answers.len(), 500);
    assert_eq!(answered("HTTP/1.1 200"), 100, "those that asked something");
    assert_eq!(answered("HTTP/1.1 400"), 100, "those whose body never came");
    server.terminate();
}

#[test]
fn with_all_places_taken_a_client_waits_for_the_next_that_is_free() {
    let site = Site::new("axum_server");
    // 64 are for the database and the like, which leaves 32.
    let server = site.start_with_descriptors(96, &CONFIGURED);
    let mut taken: Vec<_> = (0..32).map(|_| server.connect()).collect();
    let mut waiting = server.connect();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let early = waiting.read(&mut [0; 1]).unwrap_err().kind();
    assert!(matches!(early, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early}");
    taken.pop();
    waiting.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(status(&read_answer(&mut waiting).0), 200);
    drop(taken);
    server.terminate();
}
