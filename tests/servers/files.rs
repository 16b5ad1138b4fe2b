//! Files of products, as a seller uploads them and as buyers download them: broken connections, many parts, a kill.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;
use sha2::{Digest, Sha256};
use support::process::{Server, Site, TOKEN, configured, status};
use support::wait_for;

const MIB: usize = 1 << 20;

pub fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    StdRng::seed_from_u64(length as u64).fill(&mut bytes[..]);
    bytes
}

/// Begins an upload that says it has `length` bytes.
fn begin(server: &Server, name: &str, length: usize) -> TcpStream {
    let mut stream = server.connect();
    let head = format!(
        "PUT /api/admin/product/file?product_id=1&name={name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Authorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

pub fn upload(server: &Server, name: &str, content: &[u8]) -> Value {
    let mut stream = begin(server, name, content.len());
    stream.write_all(content).unwrap();
    let (head, body) = support::process::read_answer(&mut stream);
    assert_eq!(status(&head), 200, "{head}{body}");
    serde_json::from_str(&body).unwrap()
}

pub fn names(server: &Server) -> Vec<String> {
    let (status, listed) = server.admin("GET", "product/files?product_id=1", &Value::Null);
    assert_eq!(status, 200);
    listed["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap().to_owned()).collect()
}

/// Opens the product, which counts a use, and returns the path of its first file.
pub fn open(server: &Server, key: &str) -> String {
    let (status, product) = server.call("GET", &format!("/api/product?key={key}&product_id=1"), "", "");
    assert_eq!(status, 200, "{product}");
    let url = product["product"]["files"][0]["url"].as_str().unwrap().to_owned();
    format!("/{}", url.splitn(4, '/').nth(3).unwrap())
}

/// Reads the part of a file from `at` on, of which `most` bytes are taken before the connection is closed.
pub fn part(server: &Server, path: &str, at: usize, end: usize, most: usize) -> Vec<u8> {
    let mut stream = server.connect();
    let last = end - 1;
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRange: bytes={at}-{last}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.take(most as u64 + 2000).read_to_end(&mut answer).unwrap();
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    assert!(answer.starts_with(b"HTTP/1.1 206 "), "{}", String::from_utf8_lossy(&answer[..body]));
    answer[body..].to_vec()
}

pub fn a_thousand_parts_some_broken_off_are_one_use_and_the_whole_file(site: &Site) {
    let server = site.shop(&[("LIMIT_FILES", "1000000")]);
    let content = bytes(8 * MIB + 77);
    let uploaded = upload(&server, "guide.pdf", &content);
    assert_eq!(uploaded["file"]["sha256"], data_encoding::HEXLOWER.encode(&Sha256::digest(&content)));
    let key = server.sell("A");
    let path = open(&server, &key);
    let step = content.len().div_ceil(500);
    let starts = Mutex::new((0..content.len()).step_by(step));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(at) = { starts.lock().unwrap().next() } {
                    let end = (at + step).min(content.len());
                    // Every part is begun twice: the first time it breaks off.
                    part(&server, &path, at, end, 100);
                    assert!(part(&server, &path, at, end, usize::MAX >> 1) == content[at..end], "{at}");
                }
            });
        }
    });
    assert_eq!(server.validate(&key).1["used_count"], 1, "a download is no use");
    server.terminate();
}

pub fn an_upload_that_breaks_off_leaves_nothing(site: &Site) {
    let server = site.shop(&[]);
    upload(&server, "a.pdf", &bytes(6 * MIB));
    let objects = || {
        let folders = fs::read_dir(site.data().join("files")).unwrap().map(Result::unwrap);
        folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path())).count()
    };
    // The client goes away after the server has written a part.
    let mut stream = begin(&server, "b.pdf", 20 * MIB);
    stream.write_all(&vec![0; 12 * MIB]).unwrap();
    wait_for(Duration::from_secs(20), || objects() == 2);
    stream.shutdown(Shutdown::Both).unwrap();
    drop(stream);
    wait_for(Duration::from_secs(20), || objects() == 1);
    // The client goes away before a framework has looked at the body.
    for sent in [0, 1, 13, 14] {
        let mut stream = server.connect();
        let chunk = if sent == 0 { String::new() } else { format!("{sent:x}\r\n{}\r\n", "x".repeat(sent)) };
        let head = "PUT /api/admin/product/file?product_id=1&name=a.pdf HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
        let body = format!("Authorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(!answer.starts_with("HTTP/1.1 200 "), "{sent}: {answer}");
    }
    let (_, listed) = server.admin("GET", "product/files?product_id=1", &Value::Null);
    assert_eq!((listed["files"][0]["size"].as_u64(), objects()), (Some(6 * MIB as u64), 1));
    // The server dies.
    let mut stream = begin(&server, "c.pdf", 20 * MIB);
    stream.write_all(&vec![0; 12 * MIB]).unwrap();
    wait_for(Duration::from_secs(20), || objects() == 2);
    server.kill();
    let server = site.start_with(&[]);
    assert_eq!(names(&server), ["a.pdf"]);
    server.terminate();
    site.says(&configured(&[]), &["check"], "all there");
    for folder in fs::read_dir(site.data().join("files")).unwrap() {
        fs::remove_dir_all(folder.unwrap().path()).unwrap();
    }
    let (good, said, _) = site.run(&configured(&[]), &["check"]);
    assert!(!good && said.contains("1 of 1 files are missing"), "{said}");
}

pub fn a_replaced_and_a_deleted_file_are_read_to_their_end(site: &Site) {
    let server = site.shop(&[]);
    let content = bytes(8 * MIB);
    upload(&server, "guide.pdf", &content);
    let key = server.sell("A");
    let path = open(&server, &key);
    for command in ["replaced", "deleted"] {
        let mut stream = server.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = vec![0; 1000];
        stream.read_exact(&mut answer).unwrap();
        if command == "replaced" {
            upload(&server, "GUIDE.pdf", b"new");
        } else {
            let file = serde_json::json!({ "product_id": 1, "name": "guide.pdf" });
            assert_eq!(server.admin("POST", "product/file/delete", &file).0, 200);
        }
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.ends_with(&content), "{command}");
    }
    assert_eq!(names(&server), [""; 0]);
    // A refund ends what its buyer could still download.
    let (_, keys) = server.admin("GET", "keys", &Value::Null);
    let id = serde_json::json!({ "id": keys["keys"][0]["id"] });
    assert_eq!(server.admin("POST", "key/revoke", &id).0, 200);
    assert_eq!(server.call("GET", &path, "", "").0, 403);
    server.terminate();
}

pub fn a_file_that_has_lost_its_end_is_in_the_log(site: &Site) {
    let server = site.shop(&[]);
    upload(&server, "guide.pdf", &bytes(8 * MIB));
    let path = open(&server, &server.sell("A"));
    for folder in fs::read_dir(site.data().join("files")).unwrap() {
        for object in fs::read_dir(folder.unwrap().path()).unwrap() {
            fs::File::options().write(true).open(object.unwrap().path()).unwrap().set_len(MIB as u64).unwrap();
        }
    }
    assert_eq!(server.call("GET", &path, "", "").0, 500);
    let log = server.terminate();
    assert!(log.contains("the object is shorter than the file"), "{log}");
}
