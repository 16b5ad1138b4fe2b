//! Where keys stand in a text, and what may be a whole e-mail.

use std::collections::VecDeque;
use std::ops::Range;

use super::decoded::Glyph;
use crate::key::SYMBOLS;

/// A key that is cut off before this symbol tells next to nothing of its signature: version and number take 29 symbols.
const CUT_OFF: usize = 32;
/// So many symbols in one piece are a key even without its prefix. What mail servers put into their answers, such as the number of a
/// message, is shorter.
const LONG: usize = 40;
/// The longest prefix of a key, in characters.
const PREFIX: usize = 12;

/// Finds keys. One may be in groups: words of nothing but symbols that have together as many as a key.
pub(super) fn find(text: &[Glyph]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut groups, mut count) = (VecDeque::<Range<usize>>::new(), 0);
    for run in runs(text, is_symbol) {
        let is_prefixed = before(text, run.start) == Some('_');
        if run.len() >= CUT_OFF && is_prefixed || run.len() >= LONG && !is_digest(text, &run) {
            found.push(beginning(text, run.start)..run.end);
        }
        let is_word = [before(text, run.start), at(text, run.end)].iter().flatten().all(|c| !c.is_alphanumeric());
        let follows = groups.back().is_some_and(|last| is_gap(text, &(last.end..run.start)));
        if !is_word || !follows {
            groups.clear();
            count = 0;
        }
        if !is_word {
            continue;
        }
        count += run.len();
        groups.push_back(run.clone());
        while count > SYMBOLS
            && let Some(first) = groups.pop_front()
        {
            count -= first.len();
        }
        if let Some(first) = groups.front()
            && count == SYMBOLS
            && !is_digest(text, &(first.start..run.end))
        {
            found.push(beginning(text, first.start)..run.end);
        }
    }
    found
}

/// Finds long runs of base64. They have letters of both cases, unlike paths and most names.
pub(super) fn find_base64(text: &[Glyph]) -> Vec<Range<usize>> {
    let standard = runs(text, |c| c.is_ascii_alphanumeric() || matches!(c, '+' | '/'));
    let url_safe = runs(text, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let has = |run: &Range<usize>, is: fn(&char) -> bool| pieces(text, run).any(|c| is(&c));
    let is_base64 = |run: &Range<usize>| {
        run.len() >= LONG && has(run, char::is_ascii_uppercase) && has(run, char::is_ascii_lowercase)
    };
    standard.chain(url_safe).filter(is_base64).collect()
}

/// The longest runs of characters that `belongs` takes.
fn runs(text: &[Glyph], belongs: impl Fn(char) -> bool + Copy) -> impl Iterator<Item = Range<usize>> {
    let mut end = 0;
    text.chunk_by(move |one, next| belongs(one.c) == belongs(next.c)).filter_map(move |chunk| {
        let start = end;
        end += chunk.len();
        chunk.first().is_some_and(|first| belongs(first.c)).then_some(start..end)
    })
}

/// A symbol of a key, in either case.
fn is_symbol(c: char) -> bool {
    c.is_ascii_alphanumeric() && !matches!(c.to_ascii_lowercase(), 'i' | 'l' | 'o' | 'u')
}

/// Whether all of it is hexadecimal, as digests and UUIDs are: not one key in 10¹⁴ is.
fn is_digest(text: &[Glyph], range: &Range<usize>) -> bool {
    pieces(text, range).filter(char::is_ascii_alphanumeric).all(|c| c.is_ascii_hexdigit())
}

/// Whether this may stand between groups of symbols: space, a hyphen, the marks of a line that goes on or is quoted.
fn is_gap(text: &[Glyph], range: &Range<usize>) -> bool {
    let separates =
        |c: char| c.is_whitespace() || matches!(c, '-' | '\u{2010}'..='\u{2015}' | '=' | '+' | '_' | '>' | '|');
    pieces(text, range).all(separates)
}

/// Where the key begins whose symbols begin here: at its prefix, if it has one.
fn beginning(text: &[Glyph], symbols: usize) -> usize {
    let back = || text.get(..symbols).unwrap_or_default().iter().rev().map(|glyph| glyph.c);
    let gap = back().take_while(|c| c.is_whitespace() || *c == '=').count();
    if back().nth(gap) != Some('_') {
        return symbols;
    }
    let prefix = back().skip(gap + 1).take_while(char::is_ascii_alphanumeric).take(PREFIX).count();
    symbols - gap - 1 - prefix
}

fn before(text: &[Glyph], index: usize) -> Option<char> {
    at(text, index.checked_sub(1)?)
}

fn at(text: &[Glyph], index: usize) -> Option<char> {
    Some(text.get(index)?.c)
}

fn pieces(text: &[Glyph], range: &Range<usize>) -> impl Iterator<Item = char> {
    text.get(range.clone()).unwrap_or_default().iter().map(|glyph| glyph.c)
}
