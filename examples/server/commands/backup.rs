//! Copies a SQLite store, also while a server uses it.

use std::fs;
use std::io;
use std::path::Path;

use delivery_core::explain;
use delivery_core::store::SqliteStore;

use crate::settings::{Database, Settings};
use crate::start::secrets::Found;
use crate::{Refusal, say};

/// The name of the copy. A `DATA_DIR` uses the same name, so that the folder can be used as a `DATA_DIR`.
const NAME: &str = "delivery.db";

pub(super) async fn run(settings: &Settings, folder: &Path) -> Result<(), Refusal> {
    let Database::Sqlite(file) = &settings.database else {
        return Err("backup copies a SQLite store; for PostgreSQL use pg_dump: see examples/deploy/README.md".into());
    };
    settings.expect_database()?;
    fs::create_dir_all(folder).map_err(|error| format!("the folder {} cannot be made: {error}", folder.display()))?;
    let copy = folder.join(NAME);
    let made = SqliteStore::back_up(file, &copy).await.map_err(|error| explain(&error))?;
    say(&format!("{}: {} keys, {} bytes, read in whole", copy.display(), made.keys, made.bytes));
    if let Some(files) = settings.objects.folder() {
        let copied = copy_new(files, &folder.join("files"))
            .map_err(|error| format!("the files in {} cannot be copied: {error}", files.display()))?;
        say(&format!("{}: {copied} new files", folder.join("files").display()));
    }
    let secrets = settings.data_dir.join("secrets.env");
    say(&if Found::look(settings).is_ok_and(|found| found.signs_by_file()) {
        format!("Keep {} too: without the KEY_SECRET in it every key that was sold is invalid.", secrets.display())
    } else {
        "Keep your KEY_SECRET too: without it every key that was sold is invalid.".to_owned()
    });
    Ok(())
}

/// Copies the files that the copy does not have yet. Files never change, so existing ones need not be compared. Returns
/// how many were copied.
fn copy_new(from: &Path, to: &Path) -> io::Result<usize> {
    if !from.exists() || fs::read_dir(from)?.next().is_none() {
        return Ok(0);
    }
    fs::create_dir_all(to)?;
    let mut copied = 0;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copied += copy_new(&entry.path(), &copy)?;
        } else if !copy.exists() && !is_under_way(&entry.path()) {
            // Only a complete copy gets the final name.
            let part = copy.with_extension("part");
            match fs::copy(entry.path(), &part) {
                // The file was deleted meanwhile, because no product in the database has used it for days.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                done => done?,
            };
            fs::File::open(&part)?.sync_all()?;
            fs::rename(&part, &copy)?;
            copied += 1;
        }
    }
    fs::File::open(to)?.sync_all()?;
    Ok(copied)
}

/// Whether a file is an upload that has not ended.
fn is_under_way(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.contains('#'))
}
