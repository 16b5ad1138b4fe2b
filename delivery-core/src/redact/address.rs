//! Where e-mail addresses stand in a text.

use std::ops::Range;

use super::decoded::Glyph;

/// Finds addresses, those too whose `@` is encoded or written as a word.
pub(super) fn find(text: &[Glyph]) -> Vec<Range<usize>> {
    let split = |at: usize, length: usize| Some((text.get(..at)?, text.get(at + length..)?));
    let signs = text.iter().enumerate().filter(|(_, glyph)| glyph.c == '@').filter_map(|(at, glyph)| {
        let (before, after) = split(at, 1)?;
        let (local, domain) = (length(before.iter().rev(), of_address), length(after.iter(), of_address));
        let is_encoded = glyph.at.len() > 1;
        let is_address = local > 0 && domain > 0 && (!is_encoded || is_host(after, domain));
        is_address.then_some(at - local..at + 1 + domain)
    });
    let words = text.windows(2).enumerate().filter(|(_, word)| is_at(word)).filter_map(|(at, word)| {
        let (before, after) = split(at, word.len())?;
        let (gap, next_gap) = (length(before.iter().rev(), of_gap), length(after.iter(), of_gap));
        if gap == 0 || next_gap == 0 {
            return None;
        }
        let local = length(before.iter().rev().skip(gap), of_address);
        let host = after.get(next_gap..)?;
        let domain = length(host.iter(), of_host);
        let is_address = local > 0 && has_top_level(host, domain);
        is_address.then_some(at - gap - local..at + word.len() + next_gap + domain)
    });
    signs.chain(words).collect()
}

/// How many characters `belongs` takes in a row.
fn length<'t>(text: impl Iterator<Item = &'t Glyph>, belongs: fn(char) -> bool) -> usize {
    text.take_while(|glyph| belongs(glyph.c)).count()
}

fn of_address(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"<>()[],;:\"\\@".contains(c)
}

fn of_host(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-')
}

fn of_gap(c: char) -> bool {
    c.is_whitespace() || "()[]".contains(c)
}

/// Whether these two characters are the word `at`.
fn is_at(word: &[Glyph]) -> bool {
    word.iter().map(|glyph| glyph.c.to_ascii_lowercase()).eq("at".chars())
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
