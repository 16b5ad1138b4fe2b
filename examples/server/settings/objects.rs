//! Where the files of products are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use delivery_core::files::Links;
use delivery_core::object_store::ObjectStore;
use delivery_core::object_store::local::LocalFileSystem;

use super::cloud::{self, Bucket};
use crate::Refusal;

/// How old a leftover of an upload must be before it is deleted. No upload takes more than 24 hours.
const ABANDONED: Duration = Duration::from_hours(48);

/// The settings of files.
#[derive(Default)]
pub(crate) struct Objects {
    /// Where the files are if there is no bucket.
    pub(super) folder: PathBuf,
    bucket: Option<Bucket>,
    /// Whether files in a bucket pass through this server.
    pub(super) streams: bool,
    /// In bytes.
    pub max_size: u64,
}

/// The object store, and the signer of links to its files; `None` if files pass through this server.
pub(crate) type Opened = (Arc<dyn ObjectStore>, Option<Arc<dyn Links>>);

impl Objects {
    /// Keeps the files at `url`: a folder or a bucket.
    pub(super) fn keep_at(&mut self, url: &str) -> Result<(), Refusal> {
        match url.strip_prefix("file://") {
            Some("") => return Err("must name a folder after file://".into()),
            Some(path) => self.folder = path.into(),
            None => self.bucket = Some(cloud::read(url)?),
        }
        Ok(())
    }

    /// The folder with the files; `None` if they are in a bucket.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.bucket.is_none().then_some(self.folder.as_path())
    }

    /// Makes the folder, and deletes leftovers of interrupted uploads in it.
    pub(crate) fn prepare(&self) -> Result<(), Refusal> {
        let Some(folder) = self.folder() else { return Ok(()) };
        fs::create_dir_all(folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        delete_abandoned(folder);
        Ok(())
    }

    /// Deletes leftovers of interrupted uploads in `folder` once an hour.
    pub(crate) async fn tidy(folder: PathBuf) {
        loop {
            tokio::time::sleep(Duration::from_hours(1)).await;
            let folder = folder.clone();
            // Fails only if the runtime ends.
            let _ = tokio::task::spawn_blocking(move || delete_abandoned(&folder)).await;
        }
    }

    /// Opens the object store. If it is a folder, the folder must exist.
    pub(crate) fn open(&self) -> Result<Opened, Refusal> {
        if let Some((objects, links)) = self.bucket.clone() {
            return Ok((objects, (!self.streams).then_some(links)));
        }
        let objects = LocalFileSystem::new_with_prefix(&self.folder)
            .map_err(|error| format!("{} cannot be used: {error}", self.folder.display()))?;
        Ok((Arc::new(objects.with_fsync(true)), None))
    }
}

/// Reads a size in bytes: a number, or a number of KiB, MiB or GiB.
pub(super) fn size(text: &str) -> Result<u64, &'static str> {
    const EXPECTED: &str = "must be a number of bytes, or of KiB, MiB or GiB, such as 500 MiB; at most 48 GiB";
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit.trim() {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(EXPECTED),
    };
    let size = digits.parse().ok().and_then(|size: u64| size.checked_mul(1 << shift));
    size.filter(|size| (1..=48 << 30).contains(size)).ok_or(EXPECTED)
}

/// Deletes leftovers of uploads that a crash interrupted. The object store does not list these files. Their names end
/// with `#` and a number.
fn delete_abandoned(folder: &Path) {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let files = entries(folder).flat_map(|entry| entries(&entry.path()));
    for file in files.filter(|file| file.file_name().to_str().is_some_and(|name| name.contains('#'))) {
        let age = file.metadata().and_then(|metadata| metadata.modified()).ok();
        #[expect(clippy::disallowed_methods, reason = "files have the time of the system")]
        let age = age.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if age.is_some_and(|age| age > ABANDONED) {
            // A failure is retried an hour later, and at the next start.
            let _ = fs::remove_file(file.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("1", Some(1)),
            ("1048576", Some(1 << 20)),
            ("500 MiB", Some(500 << 20)),
            ("5GiB", Some(5 << 30)),
            ("48 GiB", Some(48 << 30)),
            ("49 GiB", None),
            ("0", None),
            ("", None),
            ("-1", None),
            ("5 GB", None),
            ("99999999999999999999", None),
            ("18446744073709551615 GiB", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }
}
