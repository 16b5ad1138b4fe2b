//! Finds e-mail addresses in a text.

use std::ops::Range;

use super::decoded::Glyph;

/// Returns the places of all addresses, including those whose `@` is encoded.
pub(super) fn find(text: &[Glyph]) -> Vec<Range<usize>> {
    let signs = text.iter().enumerate().filter(|(_, glyph)| glyph.c == '@');
    signs
        .filter_map(|(at, sign)| {
            let (before, after) = (text.get(..at)?, text.get(at + 1..)?);
            let (local, domain) = (length(before.iter().rev()), length(after.iter()));
            let is_address = local > 0 && domain > 0 && (!sign.is_encoded() || is_host(after));
            is_address.then_some(at - local..at + 1 + domain)
        })
        .collect()
}

/// Returns the number of leading characters that may be part of an address. White space, brackets and the like end an
/// address. They do not end it if they are encoded, because a text such as `=5b` may be meant literally. An angle
/// bracket ends an address even if it is encoded.
fn length<'t>(text: impl Iterator<Item = &'t Glyph>) -> usize {
    let belongs = |c: char| !c.is_whitespace() && !c.is_control() && !"<>()[],;:\"\\@".contains(c);
    text.take_while(|glyph| belongs(glyph.c) || glyph.is_encoded() && !matches!(glyph.c, '<' | '>')).count()
}

/// Whether a text begins with a host name, such as `163.com`. This tells an encoded `@` from other text: in
/// `size=40960`, the `=40` is no `@`, because `960` is no host name.
fn is_host(text: &[Glyph]) -> bool {
    let name: String =
        text.iter().map(|glyph| glyph.c).take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '-')).collect();
    let name = name.trim_end_matches(['.', '-']);
    let ends_in_letters = |top: &str| top.chars().count() > 1 && top.chars().all(char::is_alphabetic);
    name.starts_with(char::is_alphabetic) || name.rsplit_once('.').is_some_and(|(_, top)| ends_in_letters(top))
}
