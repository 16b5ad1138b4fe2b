//! Limits on the HTML of Markdown content, so that no content takes long to render or to display.

use pulldown_cmark::{CowStr, Event};

/// The maximum nesting depth of elements such as quotes and lists. The text of deeper elements is shown at this depth.
/// There is a maximum, because the time to clean and to display HTML grows with its size times its depth.
const DEEPEST: usize = 24;

/// The maximum number of elements in the content of one product or post. The content after them is shown without
/// formatting. A book of 1 MiB has about twenty thousand elements. A table of that size has half a million elements,
/// and cleaning it would take 130 MB of memory.
const MOST: usize = 50_000;

/// A filter for Markdown events that removes elements beyond the maximum number and depth, but keeps the text in them.
#[derive(Default)]
pub(super) struct Bounds {
    begun: usize,
    /// The number of open elements that were kept. An element is open between its start and its end.
    inside: usize,
    /// The number of open elements that were removed.
    left_out: usize,
}

impl Bounds {
    pub(super) fn admit<'m>(&mut self, event: Event<'m>) -> Option<Event<'m>> {
        let is_full = self.begun >= MOST;
        match event {
            Event::Start(_) if is_full || self.inside == DEEPEST => {
                self.left_out += 1;
                return None;
            }
            Event::Start(_) => {
                self.begun += 1;
                self.inside += 1;
            }
            // This is the end of a removed element. While a removed element is open, all elements that start inside it
            // are removed too, so no kept element can end.
            Event::End(_) if self.left_out > 0 => {
                self.left_out -= 1;
                // A space, so that the last word of this cell or paragraph does not run into the first word of the
                // next.
                return Some(Event::Text(CowStr::Borrowed(" ")));
            }
            Event::End(_) => self.inside = self.inside.saturating_sub(1),
            Event::Code(text) | Event::FootnoteReference(text) if is_full => return Some(Event::Text(text)),
            // A footnote reference becomes two elements: `<sup>`, and a link inside it.
            Event::FootnoteReference(_) => self.begun += 2,
            Event::HardBreak | Event::Rule if is_full => return Some(Event::SoftBreak),
            Event::Code(_) | Event::HardBreak | Event::Rule => self.begun += 1,
            _ => {}
        }
        Some(event)
    }
}

/// The maximum length, in bytes, of a text that no element interrupts. It is also the maximum length of a link's URL
/// and of its title. The time in which html5ever 0.40 parses the HTML is quadratic in this length: minutes for 1 MiB of
/// `&`.
pub(super) const RUN: usize = 8 << 10;

/// A filter for Markdown events that breaks a text into lines if it is longer than [`RUN`].
#[derive(Default)]
pub(super) struct Runs {
    /// The length of the text since the last element, in bytes.
    length: usize,
}

impl Runs {
    pub(super) fn cut<'m>(&mut self, event: Event<'m>) -> Vec<Event<'m>> {
        match event {
            Event::Text(text) => self.lines(text, Event::Text),
            // Inline code is an element of its own, so the length of the text before it does not matter. Code that is
            // too long is also broken into lines, each of which becomes an element.
            Event::Code(text) => {
                self.length = 0;
                Self::default().lines(text, Event::Code)
            }
            event => {
                self.length = 0;
                vec![event]
            }
        }
    }

    fn lines<'m>(&mut self, text: CowStr<'m>, form: fn(CowStr<'m>) -> Event<'m>) -> Vec<Event<'m>> {
        if self.length + text.len() <= RUN {
            self.length += text.len();
            return vec![form(text)];
        }
        let (mut rest, mut events) = (&*text, Vec::new());
        while self.length + rest.len() > RUN {
            let most = rest.floor_char_boundary(RUN - self.length);
            // End the line at a word boundary if there is one.
            let end = rest[..most].rfind([' ', '\n']);
            let (line, next) = match end {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None if self.length > 0 => ("", rest),
                None => rest.split_at(most),
            };
            events.push(form(line.to_owned().into()));
            events.push(Event::InlineHtml("<br>".into()));
            (rest, self.length) = (next, 0);
        }
        self.length = rest.len();
        events.push(form(rest.to_owned().into()));
        events
    }
}

#[cfg(test)]
mod tests {
    use super::super::markdown::{rendered, written};
    use super::*;

    #[test]
    fn what_is_too_deep_stands_less_deep() {
        for markdown in [">".repeat(500) + "deep", "* ".repeat(500) + "deep", "**a *b ".repeat(300) + "deep"] {
            let html = rendered(&markdown);
            assert!(html.contains("deep"), "{html}");
            let depth = html.match_indices('<').fold((0_usize, 0), |(deep, deepest), (at, _)| {
                let deep = if html[at..].starts_with("</") { deep - 1 } else { deep + 1 };
                (deep, deepest.max(deep))
            });
            assert!(depth.0 == 0 && depth.1 <= DEEPEST, "{depth:?} in {html}");
        }
    }

    #[test]
    fn what_is_too_much_loses_its_form_and_not_its_words() {
        // A quarter of the maximum length of the content, because debug builds are slow.
        const LENGTH: usize = 1 << 18;
        let long = |unit: &str| unit.repeat(LENGTH / unit.len() - 1);
        let texts = [
            format!("|a|b|\n|-|-|\n{}", long("|x|y|\n")),
            format!("|{}\n|{}\n{}", "a|".repeat(1_000), "-|".repeat(1_000), "|".repeat(LENGTH)),
            long("- x\n"),
            long("x\n\n"),
            long("`x` "),
            long("*x* "),
            long("x  \n"),
            long("---\n\n"),
            long("[x](y) "),
            format!("[x]: https://e.com/{}\n\n{}", "y".repeat(500), long("[x]")),
            long("&"),
            long("\u{ab}"),
            long("& "),
            format!("`{}`", long("&")),
            format!("```\n{}\n```", long("&&\n")),
            format!("[x](https://e.com/{})", long("&")),
            long("\""),
            long("<"),
            long("![x"),
            long("**x "),
        ];
        for (number, markdown) in texts.iter().enumerate() {
            // Cleaning adds no elements, and takes a second for each text in a debug build. Only the first is cleaned.
            let html = if number == 0 { rendered(markdown) } else { written(markdown) };
            let elements = html.matches('<').count();
            let shown = &markdown[markdown.len().min(40)..markdown.len().min(60)];
            assert!(elements <= 2 * MOST + 2 * DEEPEST + 4_000, "{elements} of {shown:?}");
            let longest = html.split('<').map(str::len).max().unwrap();
            assert!(longest <= 6 * RUN + 200, "{longest} bytes at once of {shown:?}");
            assert!(html.len() <= 12 << 20, "{} bytes of {shown:?}", html.len());
        }
        let html = rendered(&long("**word**\n\n"));
        assert_eq!(html.matches("word").count(), LENGTH / 10 - 1, "no word is lost");
    }

    #[test]
    fn no_text_is_long_wherever_it_stands() {
        // Almost the maximum length of the content. The test does not clean the HTML, because that takes seconds in a
        // debug build.
        let long = "&".repeat((1 << 20) - 100);
        for markdown in [
            format!("`{long}`"),
            format!("```{long}\nx\n```"),
            format!("[x](y \"{long}\")"),
            format!("![{long}](y)"),
            format!("<p title=\"{long}\">"),
        ] {
            let html = written(&markdown);
            let longest = html.split('<').map(str::len).max().unwrap();
            assert!(longest <= 6 * RUN + 200, "{longest} bytes at once of {:?}", &markdown[..20]);
        }
        let code = rendered(&format!("`{}`", "x ".repeat(RUN)));
        assert_eq!(code.matches('x').count(), RUN, "no word is lost");
        assert_eq!(code.matches("<code>").count(), 2, "each line is code");
    }
}
