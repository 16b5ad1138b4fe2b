//! The host's own name for a product or a key.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::text::{Invalid, line};

/// What the host calls a product or a key: the primary key of its own row, such as a UUID, so that it needs no second table.
/// 1 to 200 characters without control characters, compared exactly. It means nothing here, and no buyer sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostRef(Arc<str>);

impl HostRef {
    /// The name as the host wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostRef {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let accepted = line(text, 1, 200);
        accepted
            .then(|| Self(text.into()))
            .ok_or(Invalid::expected("must be 1 to 200 characters without control characters"))
    }
}

impl fmt::Display for HostRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::text::serde_as_text!(HostRef);
