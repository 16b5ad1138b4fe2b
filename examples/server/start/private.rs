//! Restricts files to their owner, in case they were made before the server set its umask, or by another program.

use std::fs;
use std::path::Path;

/// Restricts the database files to their owner, in case they were made with a wider umask: they contain buyers'
/// addresses and the products. SQLite gives the `-wal` and `-shm` files the same mode.
pub(crate) fn make_database_private(data_dir: &Path) {
    for entry in fs::read_dir(data_dir).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("delivery.db")) {
            make_private(&entry.path());
        }
    }
}

/// Restricts a file to its owner.
pub(crate) fn make_private(file: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let is_open = |metadata: fs::Metadata| metadata.is_file() && metadata.permissions().mode() & 0o077 != 0;
        if fs::metadata(file).is_ok_and(is_open)
            && let Err(error) = fs::set_permissions(file, fs::Permissions::from_mode(0o600))
        {
            tracing::warn!("{} can be read by others, and that cannot be changed: {error}", file.display());
        }
    }
}
