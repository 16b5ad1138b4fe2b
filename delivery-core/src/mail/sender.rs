//! The sender of e-mails.

use std::fmt;
use std::str::FromStr;

use crate::email::{ascii_domain, is_dot_atom};
use crate::text::{Invalid, line};

const MAX_DOMAIN: usize = 200;

const EXPECTED: Invalid =
    Invalid::expected("must be an address such as shop@example.com or Shop Name <shop@example.com>");

/// The sender of e-mails: an address, optionally preceded by a name. Unlike in a buyer's address, the domain needs no
/// dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    name: Option<String>,
    address: String,
}

impl Sender {
    /// Sets the name to `name` if this sender has no name or is the default sender. Otherwise, or if `name` is `None`,
    /// returns the sender unchanged. Characters that a name cannot contain are removed.
    pub(crate) fn or_named(mut self, name: Option<&str>) -> Self {
        let has_own = self.name.is_some() && self != Self::default();
        if let (false, Some(name)) = (has_own, name) {
            let name: String = name.chars().filter(|c| !['<', '>', '"'].contains(c)).collect();
            self.name = Some(name.trim().to_owned()).filter(|name| line(name, 1, 100));
        }
        self
    }

    /// Returns the sender's name, if the sender has a name. It is one line without quotes or angle brackets.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the part of the address after the `@`.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.address.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

impl Default for Sender {
    /// `Digital Delivery <delivery@localhost>`
    fn default() -> Self {
        Self { name: Some("Digital Delivery".to_owned()), address: "delivery@localhost".to_owned() }
    }
}

impl FromStr for Sender {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (name, address) = match text.trim().strip_suffix('>') {
            Some(front) => front.split_once('<').ok_or(EXPECTED)?,
            None => ("", text.trim()),
        };
        let name = name.trim().trim_matches('"');
        let (local, domain) = address.split_once('@').ok_or(EXPECTED)?;
        // The domain has a maximum length, because each `Message-ID` ends with the domain and has at most 250
        // characters.
        let domain = ascii_domain(domain).filter(|domain| domain.len() <= MAX_DOMAIN).ok_or(EXPECTED)?;
        if line(name, 0, 100) && !name.contains(['<', '>', '"']) && is_dot_atom(local) {
            Ok(Self { name: (!name.is_empty()).then(|| name.to_owned()), address: format!("{local}@{domain}") })
        } else {
            Err(EXPECTED)
        }
    }
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} <{}>", self.address),
            None => f.write_str(&self.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders() {
        for (text, shown) in [
            ("shop@example.com", Some("shop@example.com")),
            ("Shop <shop@example.com>", Some("Shop <shop@example.com>")),
            ("\"Müller & Söhne\" <shop@localhost>", Some("Müller & Söhne <shop@localhost>")),
            ("<shop@example.com>", Some("shop@example.com")),
            ("Shop", None),
            ("Shop <shop>", None),
            ("Shop <a@b> <c@d>", None),
            ("Shop\r\nBcc: x@y.example <shop@example.com>", None),
            ("a@b@c", None),
            ("a..b@example.com", None),
            ("a@-example.com", None),
            ("a@b..example", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<Sender>().ok().map(|sender| sender.to_string()).as_deref(), shown, "{text:?}");
        }
        assert_eq!(Sender::default().to_string().parse(), Ok(Sender::default()));
    }
}
