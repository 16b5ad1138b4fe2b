//! Writes a whole store to one text file, and fills a new store from such a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};

use delivery_core::store::dump::{Dumped, Progress};
use delivery_core::store::{PostgresStore, SqliteStore};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::settings::{Database, Settings};
use crate::start::secrets::Found;
use crate::{Refusal, say};

/// Writes a dump to `to`, or to standard output if that is `-`. A file gets its final name once it
/// is complete.
pub(super) async fn dump(settings: &Settings, to: &Path) -> Result<(), Refusal> {
    settings.expect_database()?;
    if to.as_os_str() == "-" {
        return write(settings, stdout()).await.map(drop);
    }
    // If `to` is a symbolic link, its target is replaced, and the link stays.
    let to = &to.canonicalize().unwrap_or_else(|_| to.to_owned());
    if let Database::Sqlite(file) = &settings.database
        && is_of(file, to)
    {
        return Err(format!("{} belongs to the store itself: dump it into another file", to.display()).into());
    }
    if to.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        // A pipe or a device cannot be replaced: it is written to directly, like standard output.
        let there = fs::OpenOptions::new().write(true).open(to).map_err(|error| unwritten(to, &error))?;
        return write(settings, there).await.map(drop);
    }
    let new = new_path(to);
    let made = async {
        // Somebody else may have made a file with this name, and could read the dump in it.
        let _ = fs::remove_file(&new);
        let file = OpenOptions::new().create_new(true).write(true).open(&new).map_err(|error| unwritten(to, &error))?;
        let dumped = write(settings, &file).await?;
        let put = file.sync_all().and_then(|()| fs::rename(&new, to)).and_then(|()| File::open(folder(to))?.sync_all());
        put.map_err(|error| unwritten(to, &error))?;
        Ok::<_, Refusal>(dumped)
    };
    let dumped = made.await.inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })?;
    say(&report(&format!("Dumped to {}", to.display()), &dumped));
    say("The secrets that keys are signed with are not in it: keep your KEY_SECRET, or DATA_DIR/secrets.env, too.");
    Ok(())
}

/// Whether `file` is the database file, or one of the files that SQLite keeps beside it.
fn is_of(database: &Path, file: &Path) -> bool {
    ["", "-wal", "-shm", "-journal"].into_iter().any(|end| {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        Path::new(&name).canonicalize().is_ok_and(|path| path == file)
    })
}

async fn write(settings: &Settings, to: impl Write + Send) -> Result<Dumped, Refusal> {
    let mut bar = Bar::default();
    let progress = |progress| bar.show(progress);
    let dumped = match &settings.database {
        Database::Sqlite(file) => SqliteStore::dump(file, to, progress).await,
        Database::Postgres(url) => PostgresStore::options().dump(url, to, progress).await,
    };
    bar.end();
    Ok(dumped?)
}

/// Fills the new store that the settings name from the dump in the file `from`.
pub(super) async fn load(settings: &Settings, from: &Path) -> Result<(), Refusal> {
    let keyring = Found::look(settings)?.fingerprints().ok_or(
        "load needs the secret that signed the keys: set KEY_SECRET (--key-secret), or copy secrets.env into DATA_DIR",
    )?;
    let mut bar = Bar::default();
    let progress = |progress| bar.show(progress);
    let loaded = match &settings.database {
        Database::Sqlite(file) => {
            let made = fs::create_dir_all(folder(file));
            made.map_err(|error| format!("the folder {} cannot be made: {error}", folder(file).display()))?;
            SqliteStore::load(from, file, &keyring, progress).await
        }
        Database::Postgres(url) => PostgresStore::options().load(from, url, &keyring, progress).await,
    };
    bar.end();
    say(&report(&format!("Loaded from {}", from.display()), &loaded?));
    Ok(())
}

fn report(what: &str, dumped: &Dumped) -> String {
    let rows = dumped.rows.iter().filter(|(_, rows)| *rows > 0);
    let rows = rows.map(|(what, rows)| format!("  {what:<23}{:>12}", HumanCount(*rows).to_string()));
    let rows = rows.collect::<Vec<_>>().join("\n");
    format!("{what}, sha256 {}:\n\n{rows}\n", data_encoding::HEXLOWER.encode(&dumped.sha256))
}

fn unwritten(path: &Path, error: &io::Error) -> Refusal {
    format!("{} cannot be written: {error}", path.display()).into()
}

fn new_path(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(format!(".new.{}", std::process::id()));
    name.into()
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A progress bar for each table, shown only if standard error is a terminal.
#[derive(Default)]
struct Bar(Option<ProgressBar>);

impl Bar {
    fn show(&mut self, Progress { what, done, of }: Progress) {
        if !stderr().is_terminal() {
            return;
        }
        match &self.0 {
            Some(bar) if bar.message() == what => bar.set_position(done),
            _ => {
                self.end();
                let bar = ProgressBar::new(of).with_style(style()).with_message(what).with_position(done);
                bar.tick();
                self.0 = Some(bar);
            }
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    let template = "{msg:23} {bar:36} {human_pos} of {human_len}, {eta} left";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
