//! The built-in templates.

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!($name))),*]
    };
}

/// The names and sources of the built-in templates, fragments first.
pub(super) const ALL: &[(&str, &str)] = built_in![
    "_layout.html",
    "_parts.html",
    "_key.txt",
    "_words.txt",
    "_words.de.txt",
    "purchase.subject",
    "purchase.txt",
    "purchase.html",
    "purchase.de.subject",
    "purchase.de.txt",
    "purchase.de.html",
    "resend.subject",
    "resend.txt",
    "resend.html",
    "resend.de.subject",
    "resend.de.txt",
    "resend.de.html",
    "successor.subject",
    "successor.txt",
    "successor.html",
    "successor.de.subject",
    "successor.de.txt",
    "successor.de.html",
    "expiring.subject",
    "expiring.txt",
    "expiring.html",
    "expiring.de.subject",
    "expiring.de.txt",
    "expiring.de.html",
    "revoked.subject",
    "revoked.txt",
    "revoked.html",
    "revoked.de.subject",
    "revoked.de.txt",
    "revoked.de.html",
];
