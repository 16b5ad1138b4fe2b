//! What tests need of the machine: programs, and a few rights. A test that needs one says so:
//!
//! ```ignore
//! #[cfg_attr(without = "nginx", ignore = "needs nginx")]
//! #[cfg_attr(any(without = "nginx", without = "postgres"), ignore = "needs nginx and postgres")]
//! ```
//!
//! The build script sets `without` for what is missing, so that such a test is ignored and counted. With `CI` set it sets
//! nothing: the test runs and fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Each name that `without` knows.
pub const NEEDS: [&str; 13] = [
    "caddy",
    "chromedriver",
    "chromium",
    "curl",
    "faketime",
    // A file of the system to which nothing can be written.
    "full",
    // The right to mount a file system.
    "mount",
    "nginx",
    "npm",
    "pgbouncer",
    "postgres",
    "redis-server",
    "strace",
];

/// Whether the machine has what the name stands for.
pub fn is_there(need: &str) -> bool {
    match need {
        // The tests also use a program that some systems install separately.
        "postgres" => find("postgres").is_some() && find("pgrep").is_some(),
        "redis-server" => find("redis-server").is_some() && find("redis-cli").is_some(),
        "full" => Path::new("/dev/full").exists(),
        "mount" => runs("unshare", &["--mount", "true"]),
        // Containers may have the program without the right to trace.
        "strace" => runs("strace", &["-o", "/dev/null", "true"]),
        program => find(program).is_some(),
    }
}

/// The first of these that is missing, for tests that are made while they run. With `CI` set nothing is.
pub fn missing(needs: &[&'static str]) -> Option<&'static str> {
    let must_run = std::env::var_os("CI").is_some();
    needs.iter().copied().find(|need| !must_run && !is_there(need))
}

/// The folder of a program.
///
/// # Panics
///
/// Panics if the machine does not have the program.
#[must_use]
pub fn folder(program: &str) -> PathBuf {
    find(program).unwrap_or_else(|| panic!("{program} is not installed"))
}

/// The folders in which programs are looked for: those on PATH, and where Debian keeps PostgreSQL and servers.
pub fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let debian = versions.map(|version| version.path().join("bin"));
    std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).chain(debian).collect()
}

fn find(program: &str) -> Option<PathBuf> {
    folders().into_iter().find(|folder| folder.join(program).exists())
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
