//! Private servers for tests: started from the binaries on PATH on free ports, in temporary folders, and ended with the
//! test process however that ends. Where there is no binary, tests are left out loudly; with `CI` set, they fail.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The folder of a program: on PATH, or where Debian keeps the versions of PostgreSQL.
pub fn binaries(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| folder.join(program).exists());
    let system = || Some(PathBuf::from("/usr/sbin")).filter(|folder| folder.join(program).exists());
    let debian = || {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
        versions.map(|version| version.path().join("bin")).find(|folder| folder.join(program).exists())
    };
    let found = on_path.or_else(system).or_else(debian);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{program} is not on PATH");
        eprintln!("LEFT OUT: every test that needs {program}, which is not on PATH");
    }
    found
}

/// Starts a shell that runs `script` with the folder of programs, the server's own folder and its port. It learns that this
/// process has ended, in whatever way, when its standard input is closed, and then ends the server.
pub fn supervise(mut shell: Command, script: &str, binaries: &Path, folder: &Path, port: u16) -> Child {
    shell.args(["-c", script, "sh"]).arg(binaries).arg(folder).arg(port.to_string());
    // Ctrl-C in a terminal is for the tests, not for what ends with them.
    shell.process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A port that nobody listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Looks again and again until it is so.
pub fn wait_for(deadline: Duration, mut condition: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "another process is waited for in real time")]
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < deadline, "it never came to be");
        // Gives the other process the processor.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
