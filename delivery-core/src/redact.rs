//! Words from outside, such as a mail server's reply, without what they may quote: keys and e-mail addresses.

use tokio::task::JoinError;

use crate::key::SYMBOLS;

/// A key that is cut off before this symbol tells next to nothing of its signature: version and number take 29 symbols.
const CUT_OFF: usize = 32;

/// `text` with `…` in the place of each key, whatever its prefix, and of each e-mail address. Control characters become spaces,
/// since not every database keeps them.
///
/// For what comes from outside, such as a mail server's reply or a panic's message, on its way to a log:
///
/// ```
/// use delivery_core::redacted;
///
/// assert_eq!(redacted("550 <ada@example.com>: unknown"), "550 <…>: unknown");
/// ```
#[must_use]
pub fn redacted(text: &str) -> String {
    let text = hide(text, key);
    let text = hide(&text, |text| address(text, "@"));
    // An address in a link.
    hide(&text, |text| address(text, "%40")).replace(char::is_control, " ")
}

/// Why a task has ended. A panic's message may quote anything.
pub(crate) fn why(ended: &JoinError) -> String {
    redacted(&ended.to_string())
}

/// Replaces what lies between the two parts that `find` returns, again and again.
fn hide(text: &str, find: impl Fn(&str) -> Option<(&str, &str)>) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = find(rest) {
        shown.push_str(before);
        shown.push('…');
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// What stands before and after the first key.
fn key(text: &str) -> Option<(&str, &str)> {
    text.match_indices('_').find_map(|(at, underscore)| {
        let (head, rest) = text.split_at_checked(at)?;
        let after = after_key(rest.strip_prefix(underscore)?)?;
        Some((head.trim_end_matches(is_symbol), after))
    })
}

/// What follows the symbols of a key. A quoted e-mail may have them on two lines.
fn after_key(symbols: &str) -> Option<&str> {
    let rest = symbols.trim_start_matches(is_symbol);
    let count = symbols.len() - rest.len();
    let next_line = rest.trim_start_matches(['=', ' ', '\t', '\r', '\n']);
    let after = next_line.trim_start_matches(is_symbol);
    if count < SYMBOLS && count + next_line.len() - after.len() == SYMBOLS {
        return Some(after);
    }
    (count >= CUT_OFF).then_some(rest)
}

fn is_symbol(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// What stands before and after the first e-mail address, whose `@` is written like this.
fn address<'t>(text: &'t str, at_sign: &str) -> Option<(&'t str, &'t str)> {
    let of_address = |c: char| !c.is_whitespace() && !c.is_control() && !"<>()[],;:\"\\@".contains(c);
    text.match_indices(at_sign).find_map(|(at, _)| {
        let (local, rest) = text.split_at_checked(at)?;
        let domain = rest.strip_prefix(at_sign)?;
        let (before, after) = (local.trim_end_matches(of_address), domain.trim_start_matches(of_address));
        (before.len() < local.len() && after.len() < domain.len()).then_some((before, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_tells_nobodys_address() {
        fn panics() {
            // Without the hook, which would print it.
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
            (
                format!("on two lines: dlv_{HEAD}=\r\n{TAIL} or dlv_ {key} or dlv_{HEAD} {TAIL}."),
                "on two lines: … or … or ….",
            ),
            (format!("cut off: dlv_{HEAD}{}", &TAIL[..9]), "cut off: …"),
            (
                format!("{key} txn_{HEAD} evt_1NG8Du2eZvKY"),
                "0123456789abcdefghjkmnpqrstvwxyz0123456789abcdef txn_0123456789abcdefghjkmnpq evt_1NG8Du2eZvKY",
            ),
            ("550 5.1.1 <Buyer@example.com>: o'brien+x@b.example; gone".to_owned(), "550 5.1.1 <…>: …; gone"),
            ("to:用户.名@例え.jp,{{7*7}}@xn--r8jz45g.jp.".to_owned(), "to:…,…"),
            ("https://mx.example/?to=buyer%40example.com refused".to_owned(), "https:… refused"),
            ("meet @ 5 pm, a@ or @b, 40%40".to_owned(), "meet @ 5 pm, a@ or @b, 40%40"),
            ("two\r\nlines\u{85}".to_owned(), "two  lines "),
            (String::new(), ""),
        ] {
            assert_eq!(redacted(&said), left, "{said}");
        }
    }
}
