//! Decodes quoted-printable, percent-encoding and HTML entities in a text, and drops invisible characters.

use std::ops::Range;

use crate::text::is_invisible;

/// How often a text is decoded. Twice, because some text is encoded twice, for example a link in a quoted e-mail.
const TIMES: usize = 2;
/// The maximum length of the name of an HTML entity, in characters. An entity with a longer name is not decoded.
const LONGEST: usize = 16;
/// The HTML entities that are decoded. Their characters occur in keys and addresses, enclose them, or are invisible.
const ENTITIES: [(&str, char); 13] = [
    ("amp", '&'),
    ("commat", '@'),
    ("equals", '='),
    ("gt", '>'),
    ("lowbar", '_'),
    ("lt", '<'),
    ("percnt", '%'),
    ("period", '.'),
    ("shy", '\u{ad}'),
    ("underbar", '_'),
    ("zerowidthspace", '\u{200b}'),
    ("zwj", '\u{200d}'),
    ("zwnj", '\u{200c}'),
];

/// A decoded character, and the byte range of the original text from which it was decoded.
#[derive(Debug, Clone)]
pub(super) struct Glyph {
    pub(super) c: char,
    pub(super) at: Range<usize>,
}

impl Glyph {
    /// Whether the character was encoded, that is, whether it takes more bytes in the original text than in UTF-8.
    pub(super) fn is_encoded(&self) -> bool {
        self.at.len() > self.c.len_utf8()
    }
}

/// Decodes `text` into its characters, each with its place in `text`.
pub(super) fn glyphs(text: &str) -> Vec<Glyph> {
    let glyphs = text.char_indices().map(|(at, c)| Glyph { c, at: at..at + c.len_utf8() }).collect();
    (0..TIMES).fold(glyphs, |glyphs: Vec<Glyph>, _| decode(&glyphs))
}

fn decode(encoded: &[Glyph]) -> Vec<Glyph> {
    let (mut glyphs, mut rest) = (Vec::with_capacity(encoded.len()), encoded);
    while let Some((first, others)) = rest.split_first() {
        let (c, more) = read(first.c, others).unwrap_or((Some(first.c), 0));
        let (used, left) = others.split_at_checked(more).unwrap_or((others, &[]));
        if let Some(c) = c.filter(|c| !is_invisible(*c)) {
            let end = used.last().unwrap_or(first).at.end;
            glyphs.push(Glyph { c, at: first.at.start..end });
        }
        rest = left;
    }
    glyphs
}

/// Decodes one character whose encoding begins with `first`. Returns the character, and the number of glyphs of `rest`
/// that belong to its encoding. The character is `None` for a soft line break and for a byte beyond ASCII, which are
/// dropped. Returns `None` if no encoding begins here.
fn read(first: char, rest: &[Glyph]) -> Option<(Option<char>, usize)> {
    match first {
        '=' => byte(rest).or_else(|| Some((None, line_break(rest)?))),
        '%' => byte(rest),
        '&' => entity(rest),
        _ => None,
    }
}

/// Decodes two hexadecimal digits. A byte beyond ASCII is dropped: it belongs to a character that no key contains.
fn byte(rest: &[Glyph]) -> Option<(Option<char>, usize)> {
    let [high, low, ..] = rest else { return None };
    let byte = u8::try_from(high.c.to_digit(16)? * 16 + low.c.to_digit(16)?).ok()?;
    Some((byte.is_ascii().then_some(char::from(byte)), 2))
}

/// Returns how many characters of `rest` belong to a soft line break of quoted-printable. `rest` begins after the `=`
/// of the line break. Returns `None` if there is no soft line break.
fn line_break(rest: &[Glyph]) -> Option<usize> {
    let blanks = rest.iter().take_while(|glyph| matches!(glyph.c, ' ' | '\t' | '\r')).count();
    (rest.get(blanks)?.c == '\n').then_some(blanks + 1)
}

/// Decodes an HTML entity. `rest` begins after the `&` of the entity.
fn entity(rest: &[Glyph]) -> Option<(Option<char>, usize)> {
    let of_entity = |c: &char| c.is_ascii_alphanumeric() || *c == '#';
    let name: String = rest.iter().map(|glyph| glyph.c).take_while(of_entity).take(LONGEST).collect();
    let name = name.to_ascii_lowercase();
    if rest.get(name.len())?.c != ';' {
        return None;
    }
    let c = match name.strip_prefix('#') {
        Some(number) => {
            let code =
                number.strip_prefix('x').map_or_else(|| number.parse::<u32>(), |hex| u32::from_str_radix(hex, 16));
            char::from_u32(code.ok()?)?
        }
        None => ENTITIES.iter().find(|(entity, _)| *entity == name)?.1,
    };
    Some((Some(c), name.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_would_read() {
        for (text, read) in [
            ("dlv=5F0, dlv%5f0, dlv&#95;0, dlv&#x5F;0, dlv&lowbar;0", "dlv_0, dlv_0, dlv_0, dlv_0, dlv_0"),
            ("a=\r\nb= \t\nc=", "abc="),
            ("a=C3=A4b\u{200b}c&shy;d=E2=80=8Be", "abcde"),
            ("%2540 =3D40 &amp;#64;", "@ @ @"),
            ("100% & more; a=b &unknown; &#xfffffff; &", "100% & more; a=b &unknown; &#xfffffff; &"),
        ] {
            assert_eq!(glyphs(text).iter().map(|glyph| glyph.c).collect::<String>(), read, "{text}");
        }
    }

    #[test]
    fn each_character_knows_its_bytes() {
        let places: Vec<_> = glyphs("ä=\r\n%2540").into_iter().map(|glyph| (glyph.c, glyph.at)).collect();
        assert_eq!(places, [('ä', 0..2), ('@', 5..10)]);
    }
}
