//! Markdown of a seller's as HTML that can do nothing but be read.

use std::collections::HashSet;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html};

/// The content of a product or a post as HTML. Raw HTML and scripts do nothing, images are links, since a page loads nothing from
/// elsewhere, and headings begin at the second level, below the page's own, and skip none.
pub(crate) fn rendered(markdown: &str) -> String {
    let tags: HashSet<&str> = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ]
    .into();
    let attributes = [("a", HashSet::from(["href", "title"])), ("ol", HashSet::from(["start"]))].into();
    ammonia::Builder::new()
        .tags(tags)
        .tag_attributes(attributes)
        .generic_attributes(HashSet::new())
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(ammonia::UrlRelative::Deny)
        .link_rel(Some("noopener noreferrer nofollow"))
        .clean(&written(markdown))
        .to_string()
}

/// HTML that is yet to be cleaned: of bounded depth, with a bounded number of elements, and without a text or an attribute that is
/// long.
fn written(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let mut written = String::with_capacity(markdown.len() * 3 / 2);
    let (mut bounds, mut tamer, mut runs) = (Bounds::default(), Tamer::default(), Runs::default());
    let events = Parser::new_ext(markdown, options).filter_map(move |event| bounds.admit(event));
    html::push_html(
        &mut written,
        events.flat_map(move |event| tamer.tame(event)).flat_map(move |event| runs.cut(event)),
    );
    written
}

/// How deep quotes, lists and the like may be in each other. What is deeper stands at that depth: the time that a page of HTML takes
/// to be cleaned, and to be shown, grows with its size times its depth.
const DEEPEST: usize = 24;

/// How many elements a page may have of one content. What comes after them stands there without its form. A book of a mebibyte has
/// some twenty thousand; a table of that size has half a million, and takes 130 MB to be cleaned.
const MOST: usize = 50_000;

/// Leaves out elements that are too many, or too deep in others, but not the text in them.
#[derive(Default)]
struct Bounds {
    begun: usize,
    /// Of those that are open: how many were let through, and how many were not.
    inside: usize,
    left_out: usize,
}

impl Bounds {
    fn admit<'m>(&mut self, event: Event<'m>) -> Option<Event<'m>> {
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
            // Whatever was left out is inside all that was let through.
            Event::End(_) if self.left_out > 0 => {
                self.left_out -= 1;
                // Words of two cells, or of two paragraphs, stay apart.
                return Some(Event::Text(CowStr::Borrowed(" ")));
            }
            Event::End(_) => self.inside = self.inside.saturating_sub(1),
            Event::Code(text) if is_full => return Some(Event::Text(text)),
            Event::HardBreak | Event::Rule if is_full => return Some(Event::SoftBreak),
            Event::Code(_) | Event::HardBreak | Event::Rule => self.begun += 1,
            _ => {}
        }
        Some(event)
    }
}

/// How long text without an element in it, or the address of a link, may be, in bytes. html5ever 0.40 takes time that grows with the
/// square of it: minutes for a mebibyte of `&`.
const RUN: usize = 8 << 10;

/// Breaks text that is too long into lines.
#[derive(Default)]
struct Runs {
    /// How long the text is that no element has ended yet.
    length: usize,
}

impl Runs {
    fn cut<'m>(&mut self, event: Event<'m>) -> Vec<Event<'m>> {
        match event {
            Event::Text(text) => self.lines(text, Event::Text),
            // An element of its own, and so is each of its lines.
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
            // The line ends where a word does, if one does.
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

/// Makes of each event what a page can show.
struct Tamer<'m> {
    /// The level of the last heading; the page's own is 1.
    level: HeadingLevel,
    /// The addresses of the links and images that are open. An image inside a link is its text alone: links have no links in them.
    open: Vec<CowStr<'m>>,
    /// Whether the outermost link has any text yet.
    has_text: bool,
}

impl Default for Tamer<'_> {
    fn default() -> Self {
        Self { level: HeadingLevel::H1, open: Vec::new(), has_text: false }
    }
}

impl<'m> Tamer<'m> {
    fn tame(&mut self, event: Event<'m>) -> impl Iterator<Item = Event<'m>> + use<'m> {
        let (mut before, mut after) = (None, None);
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => after = Some(self.text(text)),
            Event::SoftBreak => after = Some(Event::Text(CowStr::Borrowed("\n"))),
            Event::Start(Tag::HtmlBlock) => after = Some(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => after = Some(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. }) => {
                if self.open.is_empty() {
                    self.has_text = false;
                    let (link_type, id) = (LinkType::Inline, CowStr::Borrowed(""));
                    let short = |text: &CowStr<'m>| if text.len() > RUN { id.clone() } else { text.clone() };
                    let (dest_url, title) = (short(&dest_url), short(&title));
                    after = Some(Event::Start(Tag::Link { link_type, dest_url, title, id }));
                }
                self.open.push(dest_url);
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                let closed = self.open.pop();
                if self.open.is_empty() {
                    // A link without a text cannot be read: its address stands for it.
                    before = closed.filter(|_| !self.has_text).map(Event::Text);
                    after = Some(Event::End(TagEnd::Link));
                }
            }
            Event::Start(Tag::Heading { level, .. }) => {
                let level = lower(level).min(lower(self.level));
                self.level = level;
                after = Some(Event::Start(Tag::Heading { level, id: None, classes: Vec::new(), attrs: Vec::new() }));
            }
            // The name of its language, which is no part of the page, may be as long as the content.
            Event::Start(Tag::CodeBlock(_)) => after = Some(Event::Start(Tag::CodeBlock(CodeBlockKind::Indented))),
            Event::End(TagEnd::Heading(_)) => after = Some(Event::End(TagEnd::Heading(self.level))),
            event => {
                self.has_text |= matches!(event, Event::Code(_));
                after = Some(event);
            }
        }
        before.into_iter().chain(after)
    }

    fn text(&mut self, text: CowStr<'m>) -> Event<'m> {
        self.has_text |= !text.trim().is_empty();
        Event::Text(text)
    }
}

fn lower(level: HeadingLevel) -> HeadingLevel {
    use HeadingLevel::{H1, H2, H3, H4, H5, H6};
    match level {
        H1 => H2,
        H2 => H3,
        H3 => H4,
        H4 => H5,
        H5 | H6 => H6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_rendered() {
        for (markdown, html) in [
            ("# One\n\ntext", "<h2>One</h2>\n<p>text</p>\n"),
            ("*a* **b** ~~c~~ `d`", "<p><em>a</em> <strong>b</strong> <del>c</del> <code>d</code></p>\n"),
            ("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n"),
            ("```rust\nfn f() {}\n```", "<pre><code>fn f() {}\n</code></pre>\n"),
            ("a\nb", "<p>a\nb</p>\n"),
        ] {
            assert_eq!(rendered(markdown), html, "{markdown}");
        }
        assert!(rendered("|a|\n|-|\n|b|").contains("<td>b</td>"));
        let link = "<a href=\"https://example.com/x\" rel=\"noopener noreferrer nofollow\">x</a>";
        assert!(rendered("[x](https://example.com/x)").contains(link));
        assert!(rendered("![x](https://example.com/x)").contains(link), "an image is a link");
    }

    #[test]
    fn headings_skip_no_level_and_every_link_has_a_text() {
        for (markdown, html) in [
            ("### a\n# b\n### c\n#### d", "<h2>a</h2>\n<h2>b</h2>\n<h3>c</h3>\n<h4>d</h4>\n"),
            ("###### a", "<h2>a</h2>\n"),
        ] {
            assert_eq!(rendered(markdown), html, "{markdown}");
        }
        let to = "<a href=\"https://e.com/x\" rel=\"noopener noreferrer nofollow\">";
        for (markdown, text) in [
            ("![](https://e.com/x)", "https://e.com/x"),
            ("[](https://e.com/x)", "https://e.com/x"),
            ("[![alt](https://e.com/y.png)](https://e.com/x)", "alt"),
            ("[![](https://e.com/y.png)](https://e.com/x)", "https://e.com/x"),
            ("[`code`](https://e.com/x)", "<code>code</code>"),
        ] {
            assert_eq!(rendered(markdown), format!("<p>{to}{text}</a></p>\n"), "{markdown}");
        }
    }

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
        // A quarter of the longest content: the time of a debug build.
        const LENGTH: usize = 1 << 18;
        let long = |unit: &str| unit.repeat(LENGTH / unit.len() - 1);
        for markdown in [
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
        ] {
            let html = rendered(&markdown);
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
        // The longest content; what it is written as is not cleaned, which takes a debug build seconds.
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

    #[test]
    fn nothing_in_it_does_anything() {
        for markdown in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "[x](javascript:alert(1))",
            "[x](JAVASCRIPT&colon;alert(1))",
            "[x](data:text/html;base64,PHNjcmlwdD4=)",
            "<a href=\"javascript:alert(1)\">x</a>",
            "<svg onload=alert(1)>",
            "<iframe src=//example.com></iframe>",
            "<style>*{display:none}</style>",
            "<form action=//example.com><input name=key></form>",
            "![x](https://example.com/x.png)",
            "[x](//example.com)",
            "[x](/desk/sign-out)",
            "<div style=\"position:fixed\">x</div>",
            "# x {#id .class onclick=alert(1)}",
            "<!-- --><b onclick=alert(1)>",
        ] {
            let html = rendered(markdown);
            let bare = html.replace("&lt;", "").replace("&quot;", "");
            for part in
                ["<script", "<img", "<svg", "<iframe", "<style", "<form", "<input", "<div", "<b ", "id=\"", "class="]
            {
                assert!(!bare.contains(part), "{markdown}: {html}");
            }
            assert_eq!(
                html.matches("<a ").count(),
                html.matches("<a href=\"https://").count() + html.matches("<a rel=").count(),
                "{markdown}: {html}"
            );
        }
    }
}
