//! Rules for the length and the characters of text from outside.

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};
use thiserror::Error;

/// The error for a refused value. The message states which values are accepted, and never contains the refused value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{expected}")]
pub struct Invalid {
    expected: &'static str,
}

impl Invalid {
    /// Makes an error from a phrase that states which values are accepted. The phrase follows the field's name, as in
    /// `"must be …"`.
    #[must_use]
    pub const fn expected(expected: &'static str) -> Self {
        Self { expected }
    }
}

/// Whether `text` has `min..=max` characters and no control characters.
pub(crate) fn line(text: &str, min: usize, max: usize) -> bool {
    // A character takes at most four bytes, so an overlong text can be refused without counting its characters.
    text.len() <= max * 4 && (min..=max).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

/// Whether a character is invisible and neither a letter nor a mark. For example, such a character allows a line break
/// inside a word, or sets the direction of writing. People often copy such characters with a text without noticing.
pub(crate) fn is_invisible(c: char) -> bool {
    // The Braille pattern without dots is a symbol, but looks like a blank.
    c == '\u{2800}'
        || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
            && matches!(CodePointMapData::new().get(c), GeneralCategory::Format | GeneralCategory::Unassigned)
}

/// The error message for a URL that [is cut short](is_cut_short).
#[cfg(any(feature = "postgres", feature = "redis", feature = "smtp"))]
pub(crate) const UNESCAPED: &str = "has a user name or a password with a character that must be percent-encoded: \
    / is %2F, ? is %3F, # is %23, @ is %40";

/// Whether the user name or the password in a URL seems to contain an unescaped `/`, `?` or `#`, as in
/// `smtp://user:pa/ss@host`. In a URL, each of these characters ends the host. But if an `@` follows the character, it
/// is probably part of the user name or password.
#[cfg(any(feature = "postgres", feature = "redis", feature = "smtp"))]
pub(crate) fn is_cut_short(url: &str) -> bool {
    let cut = url.split_once("://").and_then(|(_, rest)| rest.split_once(['/', '?', '#']));
    cut.is_some_and(|(before, after)| !before.is_empty() && after.contains('@'))
}

/// Whether `text` has no control characters except line breaks and tabs.
pub(crate) fn prose(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
}

/// Defines a type for one line of text: 1 to `$max` characters without control characters, kept as written and compared
/// exactly. An additional rule may follow after `but`. The rule consists of words for the error message, and of a
/// function that returns whether a text is refused.
macro_rules! line_type {
    ($(#[$doc:meta])* $name:ident, $max:literal $(, but $unless:literal, $is_refused:path)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Returns the text as it was written.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::text::Invalid;

            fn from_str(text: &str) -> Result<Self, crate::text::Invalid> {
                const EXPECTED: crate::text::Invalid = crate::text::Invalid::expected(concat!(
                    "must be 1 to ",
                    stringify!($max),
                    " characters without control characters"
                    $(, $unless)?
                ));
                let is_read = crate::text::line(text, 1, $max) $(&& !$is_refused(text))?;
                is_read.then(|| Self(text.into())).ok_or(EXPECTED)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        crate::text::serde_as_text!($name);
    };
}
pub(crate) use line_type;

/// Defines an enum whose variants have names for stores and the API. Also defines `as_str`, `FromStr` and `ALL`.
/// `$expected` is the error message for an unknown name.
macro_rules! names {
    ($(#[$meta:meta])* pub enum $type:ident, $expected:literal, {
        $($(#[$doc:meta])* $variant:ident = $name:literal),+ $(,)?
    }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $variant),+
        }

        impl $type {
            /// Every variant.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name of the variant in the API and in stores.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::text::Invalid;

            fn from_str(name: &str) -> Result<Self, crate::text::Invalid> {
                let named = Self::ALL.iter().copied().find(|known| known.as_str() == name);
                named.ok_or(crate::text::Invalid::expected($expected))
            }
        }
    };
}
pub(crate) use names;

/// Implements `Debug` so that it shows the names of types and never their values.
macro_rules! hidden {
    ($($type:ident),+) => { $(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(concat!(stringify!($type), "(…)"))
            }
        }
    )+ };
}
pub(crate) use hidden;

/// Implements serde for types that are parsed from text with `FromStr` and shown as text with `as_str`.
macro_rules! serde_as_text {
    ($($type:ty),+ $(,)?) => { $(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+ };
}
pub(crate) use serde_as_text;

/// Implements serde for a type that is written as a number. `$read` makes the type from a number, and `$show` converts
/// it back.
macro_rules! serde_as_number {
    ($type:ty, $number:ty, $read:expr, $show:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serde::Serialize::serialize(&$show(*self), serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let number = <$number>::deserialize(deserializer)?;
                $read(number).map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_number;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_characters_and_has_no_control_characters() {
        for (text, min, max, accepted) in [
            ("", 0, 5, true),
            ("", 1, 5, false),
            ("abcde", 1, 5, true),
            ("abcdef", 1, 5, false),
            ("äöüß€", 1, 5, true),
            ("a\nb", 1, 5, false),
            ("a\tb", 1, 5, false),
            ("a\0b", 1, 5, false),
            ("a\u{7f}b", 1, 5, false),
            ("a\u{85}b", 1, 5, false),
            ("a b", 1, 5, true),
            ("\u{202e}ab", 1, 5, true),
        ] {
            assert_eq!(line(text, min, max), accepted, "{text:?}");
        }
    }

    #[test]
    fn prose_allows_line_breaks_and_tabs_alone() {
        for (text, accepted) in [("a\r\n\tb", true), ("a\0", false), ("\u{1b}[31m", false), ("a\u{85}", false)] {
            assert_eq!(prose(text), accepted, "{text:?}");
        }
    }
}
