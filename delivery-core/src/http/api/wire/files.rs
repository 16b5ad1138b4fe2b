//! The types of replies about files.

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::Serialize;

use super::encode;
use crate::clock::timestamp;
use crate::delivery::FileLink;
use crate::product::File;

/// A file of a fetched product, and the address to download the file from.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Download {
    name: String,
    /// The size in bytes.
    size: u64,
    /// The SHA-256 of the file, in hexadecimal.
    sha256: String,
    r#type: String,
    /// The address to download the file from. Keep it secret, because anybody who has it can download the file.
    url: String,
    /// When the address expires.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: String,
}

/// A file of a product.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct StoredFile {
    name: String,
    /// The size in bytes.
    size: u64,
    /// The SHA-256 of the file, in hexadecimal.
    sha256: String,
    r#type: String,
    #[cfg_attr(test, schema(format = DateTime))]
    added_at: String,
}

/// The file that was added.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct FileAdded {
    /// Always true.
    success: bool,
    file: StoredFile,
}

/// The files of a product.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Files {
    files: Vec<StoredFile>,
}

impl Download {
    fn of(link: &FileLink) -> Self {
        let file = &link.file;
        Self {
            name: file.name.to_string(),
            size: file.size,
            sha256: HEXLOWER.encode(&file.sha256),
            r#type: file.media_type.as_str().to_owned(),
            url: link.url.clone(),
            expires_at: timestamp(link.expires_at),
        }
    }
}

impl StoredFile {
    fn of(file: &File) -> Self {
        Self {
            name: file.name.to_string(),
            size: file.size,
            sha256: HEXLOWER.encode(&file.sha256),
            r#type: file.media_type.as_str().to_owned(),
            added_at: timestamp(file.added_at),
        }
    }
}

impl FileAdded {
    pub(in crate::http) fn of(file: &File) -> Self {
        Self { success: true, file: StoredFile::of(file) }
    }
}

impl Files {
    pub(in crate::http) fn of(files: &[File]) -> Self {
        Self { files: files.iter().map(StoredFile::of).collect() }
    }
}

/// Returns the end of the encoded reply for a product with these files. The cached reply is
/// [encoded](super::encode) without files; this end replaces its last two bytes, `}}`.
pub(in crate::http) fn end_of_fetched(files: &[FileLink]) -> Bytes {
    let files: Vec<Download> = files.iter().map(Download::of).collect();
    let mut end = b",\"files\":".to_vec();
    end.extend(encode(&files));
    end.extend(b"}}");
    end.into()
}
