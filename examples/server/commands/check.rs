//! Checks everything that a server needs, before it is started or while it runs, and changes nothing.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use delivery_core::explain;
use delivery_core::files::path;
use delivery_core::key::{Acceptance, Fingerprint};
use delivery_core::limit::RedisLimiter;
use delivery_core::product::ObjectName;
use delivery_core::store::inspection::{Inspection, Schema};
use delivery_core::store::{PostgresStore, SqliteStore};
use futures_util::TryStreamExt;
#[cfg(unix)]
use rustix::fs::{Access, access};

use crate::settings::refusal::read;
use crate::settings::{Database, Settings};
use crate::start::secrets::Found;
use crate::{Refusal, say};

pub(super) async fn run(settings: &Settings) -> Result<(), Refusal> {
    let mut problems = 0;
    let mut tell = |what: &str, found: Result<String, Refusal>| match found {
        Ok(found) => say(&format!("{what:<10} {found}")),
        Err(problem) => {
            problems += 1;
            say(&format!("{what:<10} PROBLEM: {}", explain(problem.as_ref())));
        }
    };
    tell("settings", Ok("make sense".to_owned()));
    tell("data", usable(&settings.data_dir));
    let secrets = Found::look(settings);
    let fingerprints = secrets.as_ref().ok().and_then(Found::fingerprints).unwrap_or_default();
    tell("secrets", secrets.map(|found| found.to_string()));
    let inspected = inspect(settings, &fingerprints).await;
    let objects = inspected.as_ref().map(|found| found.objects.clone()).unwrap_or_default();
    tell("database", inspected.and_then(|found| database(settings, found, fingerprints.is_empty())));
    tell("files", files(settings, objects).await);
    tell("limits", limits(settings).await);
    tell("e-mails", mail(settings).await);
    match problems {
        0 => Ok(()),
        1 => Err("there is a problem".into()),
        problems => Err(format!("there are {problems} problems").into()),
    }
}

/// Whether a folder can be written to, or be made.
fn usable(folder: &Path) -> Result<String, Refusal> {
    let failed = |path: &Path, error: io::Error| format!("{} cannot be used by this user: {error}", path.display());
    let is_there = folder.try_exists().map_err(|error| failed(folder, error))?;
    // A relative path of one component has an empty parent: the working folder.
    let mut nearest = folder;
    while !nearest.try_exists().map_err(|error| failed(nearest, error))? {
        nearest = nearest.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    }
    if !nearest.is_dir() {
        return Err(format!("{} is no folder", nearest.display()).into());
    }
    #[cfg(unix)]
    access(nearest, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| failed(nearest, error.into()))?;
    let state = if is_there { "is there" } else { "is not there yet: the first start makes it" };
    Ok(format!("{} {state}", folder.display()))
}

pub(super) async fn inspect(settings: &Settings, secrets: &[Fingerprint]) -> Result<Inspection, Refusal> {
    match &settings.database {
        Database::Sqlite(path) => {
            if path.exists() {
                OpenOptions::new()
                    .append(true)
                    .open(path)
                    .map_err(|error| format!("{} cannot be written to by this user: {error}", path.display()))?;
            }
            Ok(SqliteStore::inspect(path, secrets).await?)
        }
        Database::Postgres(url) => Ok(PostgresStore::options().inspect(url, secrets).await?),
    }
}

pub(super) fn database(settings: &Settings, found: Inspection, has_no_secrets: bool) -> Result<String, Refusal> {
    let place = match &settings.database {
        Database::Sqlite(path) => path.display().to_string(),
        Database::Postgres(_) => "at DATABASE_URL".to_owned(),
    };
    let Inspection { engine, schema, acceptance, .. } = found;
    let fits = match acceptance {
        None => "",
        // Nothing was signed yet: the next start makes a secret.
        Some(Acceptance::Accepted) if has_no_secrets => "",
        Some(Acceptance::Accepted) => "; KEY_SECRET fits",
        Some(_) if has_no_secrets => {
            return Err("it was made with a KEY_SECRET (--key-secret), which is missing".into());
        }
        Some(Acceptance::Retired) => {
            return Err("keys were signed most recently with a secret that is not in KEY_SECRET (--key-secret)".into());
        }
        Some(Acceptance::Foreign) => {
            return Err("it was made with none of the secrets in KEY_SECRET (--key-secret), or with another KEY_PREFIX (--key-prefix)".into());
        }
    };
    let state = match schema {
        Schema::Missing => "no store yet: the first start makes it",
        Schema::Older => "a store of an older version, which the next start brings up to date",
        _ => "a store",
    };
    Ok(format!("{engine}, {place}: {state}{fits}"))
}

/// Whether every file of a product is there. If the files are in a folder, also whether it can be written to.
async fn files(settings: &Settings, objects: Vec<ObjectName>) -> Result<String, Refusal> {
    let place = settings.objects.folder().map_or("FILES_URL".to_owned(), |folder| folder.display().to_string());
    if let Some(folder) = settings.objects.folder() {
        let state = usable(folder)?;
        match objects.len() {
            _ if folder.exists() => {}
            0 => return Ok(state),
            count => return Err(format!("{place} is not there, and {count} files should be in it").into()),
        }
    }
    let (store, _) = settings.objects.open()?;
    let stored: HashSet<String> = store.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await?;
    let is_missing = |object: &&ObjectName| !stored.contains(path(**object).as_ref());
    let missing: Vec<String> = objects.iter().filter(is_missing).map(ToString::to_string).collect();
    if missing.is_empty() {
        return Ok(format!("{} files in {place}, all there", objects.len()));
    }
    let some = missing.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(format!("{} of {} files are missing in {place}, such as {some}", missing.len(), objects.len()).into())
}

async fn limits(settings: &Settings) -> Result<String, Refusal> {
    let Some(url) = &settings.redis_url else {
        return Ok("each server counts for itself: REDIS_URL is not set".to_owned());
    };
    read("REDIS_URL", url, |url| RedisLimiter::new(url, [0; 32]))?.ping().await?;
    Ok("Redis answers".to_owned())
}

async fn mail(settings: &Settings) -> Result<String, Refusal> {
    let Some(mailer) = &settings.smtp else {
        return Ok("become files, and reach no buyer: SMTP_URL is not set".to_owned());
    };
    let sender = &settings.options.sender;
    mailer.check(sender).await?;
    Ok(format!("from {}: the mail server answers", sender.address()))
}
