//! The files of a product.
//!
//! A file's bytes are an object in an object store. An object is written once and never changes. If a file is replaced
//! or deleted, its object stays for at least two days, so that downloads that have begun can finish.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use icu_normalizer::ComposingNormalizerBorrowed as Nfc;
#[cfg(feature = "files")]
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

#[cfg(feature = "files")]
use crate::text::is_invisible;
use crate::text::{Invalid, line};

/// The ASCII characters that are percent-encoded in `filename*`: all except `attr-char` of RFC 8187.
#[cfg(feature = "files")]
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The maximum number of files that one product may have.
pub const MOST_FILES: usize = 100;

crate::text::line_type! {
    /// A file's name: 1 to 200 characters without control characters, `/` or `\`, and neither `.` nor `..`. Two files
    /// of a product may not have names that differ only in the case of letters.
    FileName, 200, but ", / or \\, and not . or .. alone", is_path
}

/// Returns whether a name could refer to another folder.
fn is_path(name: &str) -> bool {
    name.contains(['/', '\\']) || name == "." || name == ".."
}

impl FileName {
    /// Returns the name in lower case and in Unicode's normalization form C. The names of a product's files must differ
    /// in this form.
    #[must_use]
    pub fn folded(&self) -> String {
        Self::fold(self.as_str())
    }

    /// Returns a name in the form of [`folded`](Self::folded).
    pub(crate) fn fold(name: &str) -> String {
        Nfc::new_nfc().normalize(&name.to_lowercase()).into_owned()
    }

    /// Returns the value of `Content-Disposition`, as RFC 6266 defines it: the name in ASCII for old clients, and the
    /// whole name for all others. Invisible characters, such as those that set the direction of writing, become `_`,
    /// because they could make a program look like a document.
    #[cfg(feature = "files")]
    pub(crate) fn disposition(&self) -> String {
        let visible: String = self.as_str().chars().map(|c| if is_invisible(c) { '_' } else { c }).collect();
        let plain: String =
            visible.chars().map(|c| if matches!(c, ' '..='~') && !matches!(c, '"' | '%') { c } else { '_' }).collect();
        let encoded = utf8_percent_encode(&visible, ATTRIBUTE);
        format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
    }
}

/// A file's media type, as in `Content-Type`: 1 to 255 visible ASCII characters and spaces, with no space at either
/// end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaType(Arc<str>);

impl MediaType {
    /// Returns the text as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for MediaType {
    /// Returns `application/octet-stream`, the type of bytes about which nothing is known.
    fn default() -> Self {
        Self("application/octet-stream".into())
    }
}

impl FromStr for MediaType {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_read = line(text, 1, 255) && text.is_ascii() && text == text.trim();
        is_read.then(|| Self(text.into())).ok_or(Invalid::expected("must be 1 to 255 visible ASCII characters"))
    }
}

crate::text::serde_as_text!(MediaType);

/// The name of an object in the object store: 16 random bytes, written as 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName(u128);

impl ObjectName {
    /// Makes a name from random bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Returns the bytes from which the name was made.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for ObjectName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be 32 hexadecimal digits");
        let is_written = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_written { u128::from_str_radix(text, 16).map(Self).map_err(|_| EXPECTED) } else { Err(EXPECTED) }
    }
}

/// A file of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct File {
    /// The object with the file's bytes.
    pub object: ObjectName,
    /// The file's name.
    pub name: FileName,
    /// The number of bytes.
    pub size: u64,
    /// The SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// The media type.
    pub media_type: MediaType,
    /// When the file was added, to the millisecond.
    pub added_at: DateTime<Utc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        let long = "é".repeat(200);
        for (name, is_accepted) in [
            ("guide.pdf", true),
            ("Guide (2nd ed.).pdf", true),
            ("...", true),
            ("CON", true),
            (&long, true),
            (&*"😀".repeat(200), true),
            (&*"😀".repeat(201), false),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("..\\b", false),
            ("a\0b", false),
            ("a\r\nb", false),
            ("a\u{85}b", false),
        ] {
            assert_eq!(name.parse::<FileName>().is_ok(), is_accepted, "{name:?}");
        }
    }

    #[test]
    fn names_are_compared_without_regard_to_case() {
        for (one, other, is_same) in [
            ("Guide.PDF", "guide.pdf", true),
            ("ÜBER", "über", true),
            ("u\u{308}ber", "über", true),
            ("guide.pdf", "guide.pd", false),
        ] {
            let [one, other] = [one, other].map(|name| name.parse::<FileName>().unwrap().folded());
            assert_eq!(one == other, is_same, "{one:?} {other:?}");
        }
    }

    #[test]
    #[cfg(feature = "files")]
    fn names_in_content_disposition() {
        for (name, expected) in [
            ("guide.pdf", "attachment; filename=\"guide.pdf\"; filename*=UTF-8''guide.pdf"),
            ("My book.pdf", "attachment; filename=\"My book.pdf\"; filename*=UTF-8''My%20book.pdf"),
            ("a\"b%2f.zip", "attachment; filename=\"a_b_2f.zip\"; filename*=UTF-8''a%22b%252f.zip"),
            ("Äpfel 😀.pdf", "attachment; filename=\"_pfel _.pdf\"; filename*=UTF-8''%C3%84pfel%20%F0%9F%98%80.pdf"),
            ("a\u{202e}fdp.exe", "attachment; filename=\"a_fdp.exe\"; filename*=UTF-8''a_fdp.exe"),
        ] {
            assert_eq!(name.parse::<FileName>().unwrap().disposition(), expected);
        }
    }

    #[test]
    fn objects_have_one_text() {
        let name = ObjectName::from_bytes([0xab; 16]);
        assert_eq!(name.to_string(), "ab".repeat(16));
        assert_eq!(name.to_string().parse(), Ok(name));
        for text in ["", "ab", &"AB".repeat(16), &"g".repeat(32), &format!("+{}", "a".repeat(31))] {
            assert!(text.parse::<ObjectName>().is_err(), "{text}");
        }
    }
}
