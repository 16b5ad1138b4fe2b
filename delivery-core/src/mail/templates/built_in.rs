//! The built-in templates: six files for each kind of e-mail, for three parts in two languages.

use crate::ledger::MessageKind;

macro_rules! file {
    ($($name:literal),+) => {
        (concat!($($name),+), include_str!(concat!($($name),+)))
    };
}

macro_rules! files {
    ($name:literal) => {
        Some([
            file!($name, ".subject"),
            file!($name, ".txt"),
            file!($name, ".html"),
            file!($name, ".de.subject"),
            file!($name, ".de.txt"),
            file!($name, ".de.html"),
        ])
    };
}

const FRAGMENTS: [(&str, &str); 5] =
    [file!("_layout.html"), file!("_parts.html"), file!("_key.txt"), file!("_words.txt"), file!("_words.de.txt")];

impl MessageKind {
    /// Returns the names and sources of the kind's built-in templates; `None` if the kind has no templates of its own.
    fn built_in(self) -> Option<[(&'static str, &'static str); 6]> {
        match self {
            Self::Purchase => files!("purchase"),
            Self::Resend => files!("resend"),
            Self::Successor => files!("successor"),
            Self::Expiring => files!("expiring"),
            Self::Revoked => files!("revoked"),
            Self::Lost | Self::KeyIssued | Self::KeyRevoked | Self::KeyRestored | Self::KeyChanged => None,
        }
    }
}

/// Returns the kinds of e-mails that have templates of their own.
pub(crate) fn named() -> impl Iterator<Item = MessageKind> {
    MessageKind::ALL.iter().copied().filter(|kind| kind.built_in().is_some())
}

/// Returns the names and sources of all built-in templates. The fragments, which other templates include, come first.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FRAGMENTS.into_iter().chain(MessageKind::ALL.iter().filter_map(|kind| kind.built_in()).flatten())
}
