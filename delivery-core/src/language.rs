//! The language of e-mails to buyers, and of pages for them.

use std::fmt;
use std::str::FromStr;

use crate::text::Invalid;

/// A language of e-mails and pages, such as `en` or `pt-br`. It is a [BCP 47](https://www.rfc-editor.org/info/bcp47)
/// tag of at most 35 characters, kept in lower case because case has no meaning in tags.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(String);

impl Language {
    /// Returns the tag in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the tag and its fallbacks, the closest first: for example `zh-hant-tw`, `zh-hant`, `zh`. This is the
    /// lookup of [RFC 4647](https://www.rfc-editor.org/rfc/rfc4647#section-3.4).
    pub fn lookup(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.as_str()), |tag| tag.rsplit_once('-').map(|(shorter, _)| shorter))
    }
}

impl Default for Language {
    /// English.
    fn default() -> Self {
        Self("en".to_owned())
    }
}

impl FromStr for Language {
    type Err = Invalid;

    fn from_str(tag: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid = Invalid::expected("must be a language such as en or pt-BR");
        let mut parts = tag.split('-');
        let primary = parts.next().unwrap_or_default();
        let is_primary = (2..=3).contains(&primary.len()) && primary.bytes().all(|byte| byte.is_ascii_alphabetic());
        let is_rest =
            |part: &str| (2..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_tag = tag.len() <= 35 && is_primary && parts.all(is_rest);
        is_tag.then(|| Self(tag.to_ascii_lowercase())).ok_or(EXPECTED)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

crate::text::serde_as_text!(Language);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_in_any_case() {
        for (text, read) in [
            ("en", Some("en")),
            ("DE", Some("de")),
            ("pt-BR", Some("pt-br")),
            ("zh-Hant-TW", Some("zh-hant-tw")),
            ("yue", Some("yue")),
            ("", None),
            ("e", None),
            ("english", None),
            ("d3", None),
            ("de-", None),
            ("de_AT", None),
            ("../de", None),
            ("de-x", None),
            ("dé", None),
            ("de-1234567-1234567-1234567-1234567-1", None),
        ] {
            assert_eq!(text.parse::<Language>().ok().as_ref().map(Language::as_str), read, "{text:?}");
        }
        let taiwan: Language = "zh-Hant-TW".parse().unwrap();
        assert_eq!(taiwan.lookup().collect::<Vec<_>>(), ["zh-hant-tw", "zh-hant", "zh"]);
        assert_eq!(Language::default().lookup().collect::<Vec<_>>(), ["en"]);
    }
}
