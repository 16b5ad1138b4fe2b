//! Clients that take their time, and too many of them: what the axum server does about it by itself.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::process::{CONFIGURED, Site, read_answer, status};

/// In real time: the server's deadline for a head, 15 s, is not a setting.
#[test]
fn a_client_that_sends_nothing_or_half_a_head_or_no_second_request_is_cut_off() {
    let server = Site::new("axum_server");
    let server = server.start(&CONFIGURED);
    let mut silent = server.connect();
    let mut half = server.connect();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost:").unwrap();
    let mut idle = server.connect();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(silent.read(&mut [0; 100]).unwrap(), 0, "closed, within the thirty seconds that this test waits");
    assert_eq!(half.read(&mut [0; 100]).unwrap(), 0);
    assert_eq!(status(&read_answer(&mut idle).0), 200);
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
