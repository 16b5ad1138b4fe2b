//! Disks that hang and disks that are full.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::process::{CONFIGURED, Site};
use support::wait_for;

/// In real time: `strace` lets no write of the server go on for half a minute, as a frozen disk does.
pub fn a_disk_that_hangs_keeps_nobody_waiting(site: &Site) {
    let mut server = site.start(&[&CONFIGURED[..], &[("LIMIT_WEBHOOK", "1000")]].concat());
    assert_eq!(server.add_product().0, 200);
    assert_eq!(server.order("A").0, 200);
    let calls = "fdatasync,fsync,pwrite64";
    let mut frozen = Command::new("strace")
        .args(["-f", "-p", &server.id().to_string(), "-e", &format!("trace={calls}")])
        .args(["-e", &format!("inject={calls}:delay_enter=45000000")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let traced = format!("/proc/{}/status", server.id());
    wait_for(Duration::from_secs(10), || {
        fs::read_to_string(&traced).unwrap().contains(&format!("TracerPid:\t{}", frozen.id()))
    });
    // A request that is not answered at all would take the thirty seconds that a client waits here.
    #[expect(clippy::disallowed_methods, reason = "a disk hangs in real time")]
    let started = std::time::Instant::now();
    assert_eq!(server.order("B").0, 503);
    assert_eq!(server.call("GET", "/readyz", "", "").0, 503);
    assert_eq!(server.order("C").0, 503);
    assert_eq!(server.call("GET", "/healthz", "", "").0, 200);
    assert!(started.elapsed() < Duration::from_secs(20));
    server.ask_to_stop();
    let ended = server.logged_within("did not end in time", Duration::from_secs(29));
    assert!(ended, "it gives up within the grace time");
    frozen.kill().unwrap();
    frozen.wait().unwrap();
}

pub fn a_server_starts_on_a_full_disk(site: &Site) {
    fs::create_dir(site.data()).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(site.data()).output();
    assert!(mounted.is_ok_and(|mounted| mounted.status.success()), "a small disk cannot be mounted");
    let _unmounted = Unmounted(site.data());
    let settings = [&CONFIGURED[..], &[("LIMIT_WEBHOOK", "1000")]].concat();
    let server = site.start(&settings);
    assert_eq!(server.add_product().0, 200);
    let sold: Vec<_> = (0..3).map(|order| server.order(&order.to_string()).1["api_key"].clone()).collect();
    // An error: the disk is full.
    let fill = site.data().join("fill");
    assert!(fs::write(&fill, vec![0; 8 << 20]).is_err());
    let check = |server: &support::process::Server| {
        assert_eq!(server.order("new").0, 503);
        for (order, key) in sold.iter().enumerate() {
            let (status, answer) = server.order(&order.to_string());
            assert_eq!((status, &answer["api_key"]), (200, key), "a replay is answered");
            let target = format!("/api/validate?key={}", key.as_str().unwrap());
            assert_eq!(server.call("GET", &target, "", "").0, 200);
        }
    };
    check(&server);
    server.kill();
    let server = site.start(&settings);
    check(&server);
    fs::remove_file(fill).unwrap();
    wait_for(Duration::from_secs(10), || server.order("new").0 == 200);
    assert_eq!(server.fetch(sold[0].as_str().unwrap()), 200);
    server.terminate();
}

struct Unmounted(std::path::PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        // Lazily: a server that a failed test left may still have files there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
