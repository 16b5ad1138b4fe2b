//! Another clock for a process: the library of faketime, loaded into it.

use std::fs;
use std::path::PathBuf;

use crate::private::binaries;

/// The library, for processes with many threads, if the machine has it.
pub fn library() -> Option<PathBuf> {
    binaries("faketime")?;
    let folders = fs::read_dir("/usr/lib").unwrap().map(|folder| folder.unwrap().path());
    let found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|library| library.exists());
    Some(found.expect("faketime has a library"))
}
