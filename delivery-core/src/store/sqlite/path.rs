//! Paths next to a database file.

use std::path::{Path, PathBuf};

/// Returns the path of the file whose name is that of `path` with `end` appended.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Returns the folder that contains the file at `path`.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
