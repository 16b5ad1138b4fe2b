//! A buyer's e-mail address, validated when it is parsed.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use icu_normalizer::ComposingNormalizerBorrowed as Nfc;
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use crate::text::{Invalid, is_invisible};

/// The maximum length of an address, in bytes. SMTP limits a path to 256 octets (RFC 5321, 4.5.3.1.3), and the angle
/// brackets around the address take two of them.
const MAX_BYTES: usize = 254;
/// The maximum length of the local part, which is the part before the `@`, in bytes (RFC 5321, 4.5.3.1.1).
const MAX_LOCAL: usize = 64;

/// The `@` and the domain of the address that replaces an erased buyer's address.
pub(crate) const ERASED: &str = "@erased.invalid";

const EXPECTED: Invalid = Invalid::expected("must be an e-mail address such as buyer@example.com");

/// An e-mail address a key can be sent to.
///
/// An address has at most 254 bytes and one `@`. Display names, quoted local parts, IP addresses, control characters
/// and format characters are refused, so that an address cannot inject a header, a second recipient or an SMTP command.
/// White space, line breaks and zero-width characters around an address are dropped, because copying often adds them.
///
/// The local part, before the `@`, has at most 64 bytes. It may contain letters, marks and digits of any script (RFC
/// 6531), the symbols that RFC 5322 allows in an atom, and dots. It does not begin with a dot. Dots may follow each
/// other or end the local part, as in addresses that Japanese carriers gave out. The local part is normalised to NFC
/// and otherwise kept as written.
///
/// The domain, after the `@`, is a DNS host name with at least one dot. It is kept in lower case and with its labels in
/// ASCII form: `bücher.example` becomes `xn--bcher-kva.example`.
///
/// `Debug` shows only the domain, because logs are often kept longer than personal data should be.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Email(String);

impl Email {
    /// Returns the address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares two addresses, ignoring the case of ASCII letters. Buyers pay no attention to case, and hardly any mail
    /// server distinguishes it (RFC 5321, 2.4).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }

    /// Returns the address that replaces a buyer's address when the buyer's data is erased.
    pub(crate) fn erased(random: &str) -> Result<Self, Invalid> {
        format!("erased-{random}{ERASED}").parse()
    }

    /// Returns whether this is the address that replaced an erased buyer's address. No mail can reach `.invalid` (RFC
    /// 2606).
    #[must_use]
    pub fn is_erased(&self) -> bool {
        self.0.starts_with("erased-") && self.0.ends_with(ERASED)
    }

    /// Returns the part before the `@`.
    #[must_use]
    pub fn local(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(local, _)| local)
    }

    /// Returns the part before the `@` in the form that SMTP commands and e-mail headers need. A part that ends with a
    /// dot, or has two dots in a row, is put in quotation marks (RFC 5321, 4.1.2).
    #[must_use]
    pub fn quoted_local(&self) -> Cow<'_, str> {
        let local = self.local();
        if local.split('.').any(str::is_empty) { format!("\"{local}\"").into() } else { local.into() }
    }

    /// Returns the part after the `@`, in lower-case ASCII.
    #[must_use]
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

impl FromStr for Email {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || is_invisible(c));
        if text.len() > MAX_BYTES {
            return Err(EXPECTED);
        }
        let (local, domain) = text.split_once('@').ok_or(EXPECTED)?;
        let local = Nfc::new_nfc().normalize(local);
        if !is_local_part(&local) {
            return Err(EXPECTED);
        }
        let address = format!("{local}@{}", host_name(domain)?);
        // The ASCII form of a domain can be longer than the form that was parsed, so the length is checked again.
        if address.len() > MAX_BYTES { Err(EXPECTED) } else { Ok(Self(address)) }
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Email(…@{})", self.domain())
    }
}

/// Whether RFC 5322, 3.2.3, lists the character as `atext`.
fn is_atext(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

/// Whether the text is a `dot-atom-text` of RFC 5322, 3.2.3, of at most [`MAX_LOCAL`] bytes.
pub(crate) fn is_dot_atom(local: &str) -> bool {
    local.len() <= MAX_LOCAL && local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext))
}

/// Whether the text is accepted as the part before the `@`. In addition to the characters that [`is_dot_atom`] accepts,
/// letters, marks and digits beyond ASCII are accepted. Dots are accepted anywhere but at the beginning. Symbols and
/// spaces beyond ASCII are refused, although RFC 6531, 3.3, allows them.
fn is_local_part(local: &str) -> bool {
    let word = |c: char| {
        let category = CodePointMapData::<GeneralCategory>::new().get(c);
        GeneralCategoryGroup::Letter
            .union(GeneralCategoryGroup::Mark)
            .union(GeneralCategoryGroup::DecimalNumber)
            // This group contains the Chinese zero, for example.
            .union(GeneralCategoryGroup::LetterNumber)
            .contains(category)
    };
    (1..=MAX_LOCAL).contains(&local.len())
        && !local.starts_with('.')
        && local.chars().all(|c| c == '.' || is_atext(c) || !c.is_ascii() && word(c))
}

/// Returns the ASCII form of a host name. The name must have a dot. Its last label must not be a number, as in an IP
/// address.
pub(crate) fn host_name(domain: &str) -> Result<String, Invalid> {
    let ascii = ascii_domain(domain).ok_or(EXPECTED)?;
    let (_, top) = ascii.rsplit_once('.').ok_or(EXPECTED)?;
    if top.bytes().all(|byte| byte.is_ascii_digit()) { Err(EXPECTED) } else { Ok(ascii) }
}

/// Returns the ASCII form of a domain, which may lack a dot. Returns `None` if the domain is not a valid host name.
pub(crate) fn ascii_domain(domain: &str) -> Option<String> {
    if domain.chars().any(|c| c.is_control() || is_invisible(c)) {
        return None;
    }
    let ascii =
        Uts46::new().to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify);
    ascii.ok().map(std::borrow::Cow::into_owned)
}

crate::text::serde_as_text!(Email);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// An accepted address cannot inject anything into a header or an SMTP command, and parses to itself.
        #[test]
        fn what_is_accepted_is_harmless_and_parses_to_itself(text in "[ -~äß。\u{0}-\u{a0}\u{200b}\u{202e}]{0,30}(@[a-z.äß-]{0,20})?") {
            if let Ok(email) = text.parse::<Email>() {
                let stored = email.as_str();
                prop_assert!(stored.len() <= MAX_BYTES && email.domain().is_ascii());
                prop_assert!(stored.chars().all(|c| c.is_ascii() || c.is_alphanumeric()), "{stored:?}");
                prop_assert!(!stored.contains(|c: char| c.is_ascii_control() || " ,;:<>()[]\"\\".contains(c)), "{stored:?}");
                prop_assert_eq!(stored.matches('@').count(), 1);
                prop_assert!(email.domain().contains('.') && email.domain() == email.domain().to_lowercase());
                prop_assert_eq!(stored.parse::<Email>(), Ok(email.clone()));
            }
        }

        #[test]
        fn ordinary_addresses_are_accepted_as_they_are(text in "[a-z0-9+_-]{1,20}(\\.[a-z0-9+_-]{1,20}){0,2}@([a-z]{1,20}\\.){1,3}[a-z]{2,10}") {
            prop_assert_eq!(text.parse::<Email>().map(|email| email.to_string()), Ok(text));
        }
    }

    #[test]
    fn addresses_that_are_accepted() {
        let local = "l".repeat(64);
        for (text, stored) in [
            ("buyer@example.com", "buyer@example.com"),
            ("Buyer@EXAMPLE.com", "Buyer@example.com"),
            ("o'brien+tag@b.c.example.com", "o'brien+tag@b.c.example.com"),
            ("!#$%&*+-/=?^_`{|}~@example.com", "!#$%&*+-/=?^_`{|}~@example.com"),
            ("{{7*7}}@example.com", "{{7*7}}@example.com"),
            ("user@bücher.example", "user@xn--bcher-kva.example"),
            ("user@xn--bcher-kva.example", "user@xn--bcher-kva.example"),
            (&format!("{local}@example.com"), &format!("{local}@example.com")),
            ("jürgen@example.com", "jürgen@example.com"),
            ("ju\u{308}rgen@example.com", "jürgen@example.com"),
            ("用户.名@例え.jp", "用户.名@xn--r8jz45g.jp"),
            ("मेल१२@example.com", "मेल१२@example.com"),
            ("\u{e3a}ก@example.com", "\u{e3a}ก@example.com"),
            (" ada@example.com ", "ada@example.com"),
            ("\u{a0}ada@example.com\t\u{3000}\u{a0}", "ada@example.com"),
            ("ada@example.com\n", "ada@example.com"),
            ("\r\n ada@example.com\r\n", "ada@example.com"),
            ("\u{feff}ada@example.com", "ada@example.com"),
            ("\u{200b} \u{2060}ada@example.com\u{200c}\u{200d}\n\u{200b}", "ada@example.com"),
            ("\u{202a}ada@example.com\u{202c}", "ada@example.com"),
            ("\u{2067}\u{61c}ada@example.com\u{180e}\u{2069}", "ada@example.com"),
            ("\u{2065}ada@example.com\u{2800}\u{e0001}", "ada@example.com"),
            // Invisible marks and letters inside a name are kept.
            ("葛\u{e0100}城@example.jp", "葛\u{e0100}城@example.jp"),
            ("二〇二四@例子.中国", "二〇二四@xn--fsqu00a.xn--fiqs8s"),
            ("a..b@docomo.ne.jp", "a..b@docomo.ne.jp"),
            ("a.b..@ezweb.ne.jp", "a.b..@ezweb.ne.jp"),
            ("ä..b@example.com", "ä..b@example.com"),
        ] {
            assert_eq!(text.parse::<Email>().map(|email| email.to_string()), Ok(stored.to_owned()));
        }
    }

    #[test]
    fn addresses_that_are_refused() {
        let long_script = format!("{}@example.com", "ä".repeat(33));
        let long_local = format!("{}@example.com", "l".repeat(65));
        let long_domain = format!("a@{}.com", ["b"; 60].map(|b| b.repeat(5)).join("."));
        for text in [
            "",
            " ",
            "a",
            "a\u{2060}da@example.com",
            "a@",
            "@example.com",
            "a@b@example.com",
            "a b@example.com",
            ".a@example.com",
            "..@example.com",
            "a @example.com",
            "a@ example.com",
            "\"a\"@example.com",
            "Eve <eve@example.com>",
            "a@example.com,b@example.com",
            "a@example.com\r\nBcc: x@y.example",
            "a@example.com\nb@example.com",
            "a\n@example.com",
            "a@\r\nexample.com",
            "a\0@example.com",
            "a\u{85}b@example.com",
            "a\u{200b}b@example.com",
            "a\u{202e}b@example.com",
            "a\u{ad}b@example.com",
            "a\u{a0}b@example.com",
            "a\u{3000}b@example.com",
            "a€@example.com",
            "🐦@example.com",
            "\"ä\"@example.com",
            "\"a..b\"@example.com",
            "\u{feff}",
            "a\u{feff}@example.com",
            "用户＠example.com",
            &long_script,
            "a@localhost",
            "a@example.com.",
            "a@.example.com",
            "a@exa..mple.com",
            "a@-example.com",
            "a@example-.com",
            "a@exam ple.com",
            "a@exam_ple.com",
            "a@127.0.0.1",
            "a@[127.0.0.1]",
            "a@[IPv6:::1]",
            "a@1.2.3.4.5",
            "a@exa\u{0}mple.com",
            "a@exa\u{ad}mple.com",
            "a@\u{200b}example.com",
            "a@example\u{2060}.com",
            "https://a@example.com/",
            &long_local,
            &long_domain,
        ] {
            assert_eq!(text.parse::<Email>(), Err(EXPECTED), "{text:?}");
        }
    }

    #[test]
    fn a_local_part_is_quoted_if_its_dots_need_it() {
        for (text, quoted) in
            [("a.b@example.com", "a.b"), ("a..b@example.com", "\"a..b\""), ("a.@example.com", "\"a.\"")]
        {
            assert_eq!(text.parse::<Email>().unwrap().quoted_local(), quoted);
        }
    }

    #[test]
    fn debug_hides_the_person() {
        assert_eq!(format!("{:?}", "buyer@example.com".parse::<Email>().unwrap()), "Email(…@example.com)");
    }
}
