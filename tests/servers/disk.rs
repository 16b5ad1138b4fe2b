//! Disks that hang and disks that are full.

use std::fs;
use std::process::Command;
use std::time::Duration;

use support::process::{PLENTY, Server, Site};
use support::wait_for;

/// In real time: `strace` lets no write of the server go on for half a minute, as a frozen disk does. Neither that nor the longest
/// delay keeps the server from ending in time.
pub fn a_disk_that_hangs_keeps_nobody_waiting(site: &Site) {
    let mut server = site.shop(&[&PLENTY[..], &[("STOP_DELAY", "20")]].concat());
    assert_eq!(server.order("A").0, 200);
    let calls = "fdatasync,fsync,pwrite64";
    let mut strace = Command::new("strace");
    strace.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={calls}:delay_enter=45000000")]);
    let mut frozen = server.trace(&mut strace);
    // A request that is not answered at all would take the thirty seconds that a client waits here.
    #[expect(clippy::disallowed_methods, reason = "a disk hangs in real time")]
    let started = std::time::Instant::now();
    assert_eq!(server.order("B").0, 503);
    assert_eq!(server.call("GET", "/readyz", "", "").0, 503);
    assert_eq!(server.order("C").0, 503);
    assert_eq!(server.call("GET", "/healthz", "", "").0, 200);
    assert!(started.elapsed() < Duration::from_secs(20));
    #[expect(clippy::disallowed_methods, reason = "a service manager waits in real time")]
    let asked = std::time::Instant::now();
    // After this long it kills what has not ended.
    let left = || Duration::from_secs(30).saturating_sub(asked.elapsed());
    server.ask_to_stop();
    let status = format!("/proc/{}/status", server.id());
    assert!(server.logged_within("did not end in time", left()), "it gives up");
    // A thread that the disk holds keeps what has ended from being gone. The server exits right after that line: how
    // long the system takes for it depends on what else the machine does.
    let has_ended = || fs::read_to_string(&status).is_ok_and(|status| status.contains("State:\tZ"));
    wait_for(Duration::from_secs(15), has_ended);
    frozen.kill().unwrap();
    frozen.wait().unwrap();
}

pub fn a_server_starts_on_a_full_disk(site: &Site) {
    fs::create_dir(site.data()).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(site.data()).output();
    assert!(mounted.is_ok_and(|mounted| mounted.status.success()), "a small disk cannot be mounted");
    let _unmounted = Unmounted(site.data());
    let server = site.shop(&PLENTY);
    let sold: Vec<String> = (0..3).map(|order| server.sell(&order.to_string())).collect();
    // An error: the disk is full.
    let fill = site.data().join("fill");
    assert!(fs::write(&fill, vec![0; 8 << 20]).is_err());
    let check = |server: &Server| {
        assert_eq!(server.order("new").0, 503);
        for (order, key) in sold.iter().enumerate() {
            assert_eq!(server.sell(&order.to_string()), *key, "a replay is answered");
            assert_eq!(server.validate(key).0, 200);
        }
    };
    check(&server);
    server.kill();
    let server = site.start_with(&PLENTY);
    check(&server);
    fs::remove_file(fill).unwrap();
    wait_for(Duration::from_secs(10), || server.order("new").0 == 200);
    assert_eq!(server.fetch(&sold[0]), 200);
    server.terminate();
}

struct Unmounted(std::path::PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        // Lazily: a server that a failed test left may still have files there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
