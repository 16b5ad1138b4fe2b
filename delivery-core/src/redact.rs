//! Hides keys and e-mail addresses in text that comes from outside or may quote such text. Examples are a platform's
//! order number and the message of a panic.
//!
//! Keys and addresses may be encoded. They are searched for in the [decoded] text and hidden at their places in the
//! original text. The replies of mail servers do not pass through here: `mail::smtp` repeats only their codes.

mod address;
mod decoded;
mod key;

use std::ops::Range;

use tokio::task::JoinError;

use self::decoded::Glyph;

/// Replaces each key, whatever its prefix, and each e-mail address in `text` by `…`. Control characters become spaces,
/// because not every database stores them.
///
/// Use it for text from outside that is logged, such as the response of a mail provider or the message of a panic:
///
/// ```
/// use delivery_core::redacted;
///
/// assert_eq!(redacted("550 <ada@example.com>: unknown"), "550 <…>: unknown");
/// ```
///
/// Keys and addresses are hidden even in capitals, in quoted-printable or percent-encoding, with HTML entities or with
/// invisible characters. Keys whose end is missing are hidden too. Keys and addresses that were altered in any other
/// way are not hidden, for example a key in base64, in groups of four symbols, or with a blank inside: do not log text
/// that may contain them. Hexadecimal digests are not hidden.
#[must_use]
pub fn redacted(text: &str) -> String {
    let glyphs = decoded::glyphs(text);
    let mut found = key::find(&glyphs);
    found.extend(address::find(&glyphs));
    let mut hidden: Vec<_> = found.into_iter().filter_map(|range| place(&glyphs, range)).collect();
    hidden.sort_unstable_by_key(|place| place.start);
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for place in hidden {
        // Overlapping places become one `…`.
        if place.start >= end {
            shown.push_str(text.get(end..place.start).unwrap_or_default());
            shown.push('…');
        }
        end = end.max(place.end);
    }
    shown.push_str(text.get(end..).unwrap_or_default());
    shown.replace(char::is_control, " ")
}

/// Returns why a task has ended. The text is redacted, because the message of a panic may quote anything.
pub(crate) fn why(ended: &JoinError) -> String {
    redacted(&ended.to_string())
}

/// Returns the byte range of the original text from which the glyphs in `range` were decoded.
fn place(glyphs: &[Glyph], range: Range<usize>) -> Option<Range<usize>> {
    let glyphs = glyphs.get(range)?;
    Some(glyphs.first()?.at.start..glyphs.last()?.at.end)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;

    use super::*;
    use crate::key::{KeyId, Keyring, Prefix};

    #[tokio::test]
    async fn a_panic_tells_nobodys_address() {
        fn panics() {
            // `resume_unwind` does not call the panic hook, which would print the message.
            std::panic::resume_unwind(Box::new("no row of ada@example.com"));
        }
        let said = why(&tokio::spawn(async { panics() }).await.unwrap_err());
        assert!(said.contains("no row of …") && !said.contains("ada"), "{said}");
    }

    #[test]
    fn neither_keys_nor_addresses_are_left() {
        const HEAD: &str = "0123456789abcdefghjkmnpq";
        const TAIL: &str = "rstvwxyz0123456789abcdef";
        let key = format!("{HEAD}{TAIL}");
        for (said, left) in [
            (format!("554 spam: dlv_{key} #dlv_{key}."), "554 spam: … #…."),
            (
                format!("<p>shop7_{key}</p> https://shop.example/?key=dlv_{key}&x"),
                "<p>…</p> https://shop.example/?key=…&x",
            ),
            (format!("on two lines: dlv_{HEAD}=\r\n{TAIL}."), "on two lines: …."),
            (format!("cut off: dlv_{HEAD}{}", &TAIL[..9]), "cut off: …"),
            (format!("{key} txn_{HEAD} evt_1NG8Du2eZvKY"), "… txn_0123456789abcdefghjkmnpq evt_1NG8Du2eZvKY"),
            (format!("DLV_{} =64lv=5f{HEAD}=\r\n{TAIL}", key.to_uppercase()), "… …"),
            ("550 5.1.1 <Buyer@example.com>: o'brien+x@b.example; gone".to_owned(), "550 5.1.1 <…>: …; gone"),
            ("to:用户.名@例え.jp,{{7*7}}@xn--r8jz45g.jp.".to_owned(), "to:…,…"),
            ("https://mx.example/?to=buyer%40example.com refused".to_owned(), "https:… refused"),
            ("ada=40example.com, ada=40163.com, &lt;ada&#64;host&gt; ada&commat;a.b".to_owned(), "…, …, &lt;…&gt; …"),
            ("to=5b@example.com, ada=5B=40b.example".to_owned(), "…, …"),
            ("ada%40163.com%20refused ada=40163.com=20now ada%40163.com&x=1".to_owned(), "… … …"),
            ("meet @ 5 pm, a@ or @b, 40%40".to_owned(), "meet @ 5 pm, a@ or @b, 40%40"),
            ("two\r\nlines\u{85}".to_owned(), "two  lines "),
            (String::new(), ""),
        ] {
            assert_eq!(redacted(&said), left, "{said}");
        }
    }

    #[test]
    fn what_is_neither_can_be_read() {
        for said in [
            "550-5.1.1 https://support.google.com/mail/?p=NoSuchUser 5b1f17b1804b1-4318a5e0d42si25411745e9.28 - gsmtp",
            "421 4.7.28 Gmail has detected an unusual rate of mail at 10:22:33; see https://aka.ms/EXOSmtpErrors",
            "550 8e03978e-40d5-43dd-bc93-6894a57f9324 rejected as spam, 8e03978e-40d5-43dd-bc93-6894a57f9325 kept",
            "552 size=40960 exceeds limit=35882577; 100% full & closed at 5 p.m. [AM6PR07CA0023.eurprd07.prod.outlook.com]",
            "451 4.7.1 Greylisted, try again in 00:05:00 at the earliest (9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d)",
            "panicked at main.rs:228:25: there were seven, the next were the rest",
        ] {
            assert_eq!(redacted(said), said);
        }
    }

    /// Writes each character of `key` with `write`.
    fn each(key: &str, write: impl Fn(&mut String, char)) -> String {
        key.chars().fold(String::new(), |mut text, c| {
            write(&mut text, c);
            text
        })
    }

    /// Returns the key in the forms in which a text may quote it, such as in capitals, without its prefix, or
    /// percent-encoded.
    fn altered(key: &str) -> Vec<String> {
        let mut all = vec![
            key.to_owned(),
            key.to_uppercase(),
            key.replace("dlv_", ""),
            key.replace("dlv_", "").to_uppercase(),
            each(key, |text, c| text.push(if text.len().is_multiple_of(2) { c.to_ascii_uppercase() } else { c })),
            each(key, |text, c| write!(text, "={:02X}", u32::from(c)).unwrap()),
            each(key, |text, c| write!(text, "%{:02x}", u32::from(c)).unwrap()),
            each(key, |text, c| write!(text, "&#{};", u32::from(c)).unwrap()),
            each(key, |text, c| write!(text, "{c}\u{200b}").unwrap()),
            each(key, |text, c| write!(text, "{c}=E2=80=8B").unwrap()),
        ];
        let underscores = ["=5F", "=5f", "%5F", "%255F", "=3D5F", "&#95;", "&#x5f;", "&lowbar;", "&amp;#95;", "_=\r\n"];
        all.extend(underscores.map(|underscore| key.replace('_', underscore)));
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn no_piece_of_an_altered_key_is_left(id: [u8; 16], secret in "[a-z0-9]{20}") {
            let keyring = Keyring::new(Prefix::default(), &[secret.parse().unwrap()]).unwrap();
            let key = keyring.text(KeyId::from_bytes(id), keyring.newest());
            let (_, symbols) = key.expose().split_once('_').unwrap();
            for altered in altered(key.expose()) {
                for said in [format!("554 spam: {altered}"), format!("554 {altered} was rejected"), altered.clone()] {
                    let mut left = redacted(&said).to_lowercase();
                    left.retain(|c| c.is_ascii_alphanumeric());
                    for at in 0..=symbols.len() - 8 {
                        prop_assert!(!left.contains(&symbols[at..at + 8]), "{said}: {left}");
                    }
                }
            }
        }

        #[test]
        fn what_is_left_is_no_longer(text in "(=|%|&#?|[0-9a-zA-Z_@;. \r\n…-]{1,9}){0,60}") {
            prop_assert!(redacted(&text).len() <= text.len());
        }
    }
}
