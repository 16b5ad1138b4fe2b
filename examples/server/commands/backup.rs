//! A copy of a SQLite store, beside a server that uses it.

use std::path::Path;

use delivery_core::explain;
use delivery_core::store::SqliteStore;

use crate::settings::{Database, Settings};
use crate::start::private::make_folder;
use crate::start::secrets::Found;
use crate::{Refusal, say};

/// The name of the copy: that of a database in a `DATA_DIR`, so that the folder can take the place of one.
const NAME: &str = "delivery.db";

pub(super) async fn run(settings: &Settings, folder: &Path) -> Result<(), Refusal> {
    let Database::Sqlite(file) = &settings.database else {
        return Err("backup copies a SQLite store; for PostgreSQL use pg_dump: see examples/deploy/README.md".into());
    };
    settings.expect_database()?;
    make_folder(folder).map_err(|error| format!("the folder {} cannot be made: {error}", folder.display()))?;
    let copy = folder.join(NAME);
    let made = SqliteStore::back_up(file, &copy).await.map_err(|error| explain(&error))?;
    say(&format!("{}: {} keys, {} bytes, read in whole", copy.display(), made.keys, made.bytes));
    let secrets = settings.data_dir.join("secrets.env");
    say(&if Found::look(settings).is_ok_and(|found| found.signs_by_file()) {
        format!("Keep {} too: without the KEY_SECRET in it every key that was sold is invalid.", secrets.display())
    } else {
        "Keep your KEY_SECRET too: without it every key that was sold is invalid.".to_owned()
    });
    Ok(())
}
