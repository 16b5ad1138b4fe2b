//! Finds keys in a text.

use std::ops::Range;

use super::decoded::Glyph;

/// The minimum number of symbols in a row that count as a key if they follow a prefix. A whole key has 48 symbols of 5
/// bits each, but a key whose end was cut off must be found too. The first 144 bits of a key are its version and id,
/// the other 96 are its signature. A run of 31 symbols reveals only 11 bits of the signature.
const CUT_OFF: usize = 32;
/// The minimum number of symbols in a row that count as a key even without a prefix.
const LONG: usize = 40;
/// The maximum number of characters of a key's prefix that are hidden.
const PREFIX: usize = 16;

/// Returns the places of all keys, including those that lack their prefix or their end.
pub(super) fn find(text: &[Glyph]) -> Vec<Range<usize>> {
    let is_key = |run: &Range<usize>| {
        let is_prefixed =
            run.start.checked_sub(1).and_then(|before| text.get(before)).is_some_and(|glyph| glyph.c == '_');
        run.len() >= CUT_OFF && is_prefixed || run.len() >= LONG && !is_digest(text, run)
    };
    runs(text).filter(is_key).map(|run| beginning(text, run.start)..run.end).collect()
}

/// Returns the places of all runs of symbols, each as long as possible.
fn runs(text: &[Glyph]) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    text.chunk_by(|one, next| is_symbol(one.c) == is_symbol(next.c)).filter_map(move |chunk| {
        let start = end;
        end += chunk.len();
        chunk.first().is_some_and(|first| is_symbol(first.c)).then_some(start..end)
    })
}

/// Whether the character is a symbol of a key, in upper or lower case.
fn is_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() && !matches!(c.to_ascii_lowercase(), 'i' | 'l' | 'o' | 'u')
}

/// Whether all symbols of the run are hexadecimal digits, as in a digest. No key that the service makes looks like
/// that: its id is a UUID, and because of the UUID's version and variant bits, two symbols of the key are letters after
/// `f`.
fn is_digest(text: &[Glyph], run: &Range<usize>) -> bool {
    text.get(run.clone()).unwrap_or_default().iter().all(|glyph| glyph.c.is_ascii_hexdigit())
}

/// Returns where a key begins, given where its symbols begin. If there is a prefix before the symbols, the key begins
/// with the prefix.
fn beginning(text: &[Glyph], symbols: usize) -> usize {
    let back = || text.get(..symbols).unwrap_or_default().iter().rev().map(|glyph| glyph.c);
    if back().next() != Some('_') {
        return symbols;
    }
    symbols - 1 - back().skip(1).take_while(char::is_ascii_alphanumeric).take(PREFIX).count()
}
