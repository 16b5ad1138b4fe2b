//! Where e-mail addresses stand in a text.

use std::ops::Range;

use super::decoded::Glyph;

/// Finds addresses, also those whose `@` is encoded.
pub(super) fn find(text: &[Glyph]) -> Vec<Range<usize>> {
    let signs = text.iter().enumerate().filter(|(_, glyph)| glyph.c == '@');
    signs
        .filter_map(|(at, sign)| {
            let (before, after) = (text.get(..at)?, text.get(at + 1..)?);
            let (local, domain) = (length(before.iter().rev()), length(after.iter()));
            let is_address = local > 0 && domain > 0 && (!sign.is_encoded() || is_host(after, domain));
            is_address.then_some(at - local..at + 1 + domain)
        })
        .collect()
}

/// How many characters in a row may be part of an address. What ends one does not if it is encoded, but for angle brackets.
fn length<'t>(text: impl Iterator<Item = &'t Glyph>) -> usize {
    let belongs = |c: char| !c.is_whitespace() && !c.is_control() && !"<>()[],;:\"\\@".contains(c);
    text.take_while(|glyph| belongs(glyph.c) || glyph.is_encoded() && !matches!(glyph.c, '<' | '>')).count()
}

/// Whether the first characters are a host's name, and not what follows `=40` in `size=40960`.
fn is_host(text: &[Glyph], length: usize) -> bool {
    text.first().is_some_and(|first| first.c.is_alphabetic()) || has_top_level(text, length)
}

/// Whether the first characters are a host's name that ends in letters, as `example.com` does and `10.5` does not.
fn has_top_level(text: &[Glyph], length: usize) -> bool {
    let name: String = text.iter().take(length).map(|glyph| glyph.c).collect();
    let name = name.trim_end_matches(|c: char| !c.is_alphanumeric());
    name.starts_with(char::is_alphanumeric)
        && name.rsplit_once('.').is_some_and(|(_, top)| top.chars().count() > 1 && top.chars().all(char::is_alphabetic))
}
