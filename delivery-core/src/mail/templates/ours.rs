//! The built-in templates. Each kind of e-mail has one row in [`KINDS`] and six files.

use crate::ledger::MessageKind;

macro_rules! file {
    ($($name:literal),+) => {
        (concat!($($name),+), include_str!(concat!($($name),+)))
    };
}

macro_rules! kind {
    ($kind:ident, $name:literal) => {
        (
            MessageKind::$kind,
            [
                file!($name, ".subject"),
                file!($name, ".txt"),
                file!($name, ".html"),
                file!($name, ".de.subject"),
                file!($name, ".de.txt"),
                file!($name, ".de.html"),
            ],
        )
    };
}

const FRAGMENTS: [(&str, &str); 5] =
    [file!("_layout.html"), file!("_parts.html"), file!("_key.txt"), file!("_words.txt"), file!("_words.de.txt")];

/// The kinds of e-mails that have templates of their own, with the names and sources of their templates.
pub(super) const KINDS: &[(MessageKind, [(&str, &str); 6])] = &[
    kind!(Purchase, "purchase"),
    kind!(Resend, "resend"),
    kind!(Successor, "successor"),
    kind!(Expiring, "expiring"),
    kind!(Revoked, "revoked"),
];

/// Returns the kinds of e-mails that have templates of their own.
pub(crate) fn named() -> impl Iterator<Item = MessageKind> {
    KINDS.iter().map(|(kind, _)| *kind)
}

/// Returns the names and sources of all built-in templates, fragments first.
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FRAGMENTS.into_iter().chain(KINDS.iter().flat_map(|(_, templates)| *templates))
}
