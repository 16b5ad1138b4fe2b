//! Another clock for a process: the library of faketime, loaded into it.

use std::fs;
use std::path::PathBuf;

/// The library, for processes with many threads.
pub fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().map(|folder| folder.unwrap().path());
    let found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists());
    found.expect("the library of faketime is installed")
}
