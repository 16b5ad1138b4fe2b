//! Checking a whole dump before any of it is loaded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::{DumpError, FORMAT, Frame, Progress, TABLES, VERSION};
use crate::key::Fingerprint;

/// A dump that was checked and is complete. The reader is positioned at the first row.
pub(in crate::store) struct Checked {
    pub(super) rows: BufReader<File>,
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) sha256: [u8; 32],
    /// The hash of the lines read so far.
    hash: Sha256,
    path: PathBuf,
}

/// The maximum length of the first line, in bytes. A file that is not a dump may have no line ends, and would otherwise
/// be read into memory as a whole.
const FIRST_LINE: u64 = 1 << 20;

/// Checks a dump: reads the whole file and checks that it is complete. If the dump contains fingerprints of signing
/// secrets, also checks that one of `secrets` is among them.
pub(in crate::store) fn check(
    path: &Path,
    secrets: &[Fingerprint],
    mut progress: impl FnMut(Progress),
) -> Result<Checked, DumpError> {
    let unreadable = |source| DumpError::Read { path: path.to_owned(), source };
    let torn = |why| DumpError::Torn { path: path.to_owned(), why };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(std::io::Error::other(
            "it is no file, which is read twice: once to check it, once to load it",
        )));
    }
    let of = metadata.len();
    let mut lines = BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    lines.by_ref().take(FIRST_LINE).read_until(b'\n', &mut line).map_err(unreadable)?;
    let first = first_line(path, &line)?;
    let (mut hash, mut rows, mut done, mut shown) = (Sha256::new(), 0, line.len() as u64, 0);
    let start = done;
    let mut signed_by = Vec::new();
    let read = Sha256::new_with_prefix(&line);
    // Each line is hashed only after the next line was read, because the hash does not cover the last line.
    let mut before = std::mem::take(&mut line);
    while lines.read_until(b'\n', &mut line).map_err(unreadable)? > 0 {
        hash.update(&before);
        done += line.len() as u64;
        rows += 1;
        signed_by.extend(fingerprint(&line));
        if done - shown > 1 << 24 {
            shown = done;
            progress(Progress { what: "bytes checked", done, of });
        }
        std::mem::swap(&mut before, &mut line);
        line.clear();
    }
    let last: Frame = match serde_json::from_slice(&before) {
        Ok(last) if before.ends_with(b"\n") => last,
        _ => return Err(torn("its last line is missing")),
    };
    let sha256: [u8; 32] = hash.finalize().into();
    let counted = first.counts.values().try_fold(1_u64, |sum, count| sum.checked_add(*count));
    if last.sha256 != Some(HEXLOWER.encode(&sha256)) {
        return Err(torn("its SHA-256 is not the one in its last line"));
    }
    if last.counts != first.counts || counted != Some(rows) {
        return Err(torn("its rows are not as many as it says"));
    }
    if !first.counts.keys().all(|row| TABLES.iter().any(|table| table.row == row)) {
        return Err(DumpError::OtherVersion { path: path.to_owned(), version: first.version });
    }
    if !signed_by.is_empty() && !secrets.iter().any(|secret| signed_by.contains(secret)) {
        return Err(DumpError::OtherSecret);
    }
    lines.seek(std::io::SeekFrom::Start(start)).map_err(unreadable)?;
    Ok(Checked { rows: lines, counts: first.counts, sha256, hash: read, path: path.to_owned() })
}

/// Returns the fingerprint of a signing secret if `line` is a row of the keyring; `None` for any other row.
fn fingerprint(line: &[u8]) -> Option<Fingerprint> {
    let digits = line.strip_prefix(b"{\"row\":\"keyring\",\"fingerprint\":\"")?.strip_suffix(b"\"}\n")?;
    HEXLOWER.decode(digits).ok()?.try_into().ok().map(Fingerprint::from_bytes)
}

fn first_line(path: &Path, line: &[u8]) -> Result<Frame, DumpError> {
    #[derive(serde::Deserialize)]
    struct Says {
        format: String,
        version: u32,
    }
    let path = path.to_owned();
    match serde_json::from_slice::<Says>(line) {
        Ok(says) if says.format != FORMAT => Err(DumpError::NotADump { path }),
        Ok(says) if says.version != VERSION => Err(DumpError::OtherVersion { path, version: says.version }),
        Ok(_) => serde_json::from_slice(line).map_err(|_| DumpError::NotADump { path }),
        Err(_) => Err(DumpError::NotADump { path }),
    }
}

impl Checked {
    /// Compares the hash of the lines that were loaded with the hash of the lines that [`check`] read. If the hashes
    /// differ, the file was changed after the check, and this fails. Otherwise returns the SHA-256 of the dump.
    pub(super) fn finish(self) -> Result<[u8; 32], DumpError> {
        if <[u8; 32]>::from(self.hash.finalize()) == self.sha256 {
            Ok(self.sha256)
        } else {
            Err(DumpError::Torn { path: self.path, why: "it was changed while it was loaded" })
        }
    }

    /// Reads the next line. Returns it without its line end.
    pub(super) fn next<'l>(&mut self, line: &'l mut Vec<u8>) -> Result<&'l [u8], DumpError> {
        line.clear();
        let read = self.rows.read_until(b'\n', line);
        read.map_err(|source| DumpError::Read { path: self.path.clone(), source })?;
        self.hash.update(&*line);
        Ok(line.strip_suffix(b"\n").unwrap_or(line))
    }
}
