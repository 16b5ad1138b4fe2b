//! Rendering the seller's Markdown as harmless HTML.

use std::collections::HashSet;

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html};

use super::bounds::{Bounds, RUN, Runs};

/// Renders the content of a product or a post as HTML that is safe to show.
///
/// - Raw HTML in the content, such as a script, is shown as text.
/// - Images become links, because pages load nothing from other sites.
/// - Headings start at the second level, below the page's own heading, and skip no level.
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

/// Renders Markdown as HTML that still has to be cleaned. The HTML is quick to clean, because it has limits: on the
/// nesting depth, on the number of elements, and on the length of each text and attribute.
pub(super) fn written(markdown: &str) -> String {
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

/// A filter that converts the events of the Markdown parser into events that a page may contain.
struct Tamer<'m> {
    /// The level of the last heading. Before the first heading, this is 1, the level of the page's own heading.
    level: HeadingLevel,
    /// The URLs of the links and images that have started and not ended yet. Only the outermost becomes a link in the
    /// HTML. Of an image inside a link, only the text is kept, because links cannot be nested.
    open: Vec<CowStr<'m>>,
    /// Whether the outermost link has any text so far.
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
                    // A link without text would be invisible, so its URL is shown as its text.
                    before = closed.filter(|_| !self.has_text).map(Event::Text);
                    after = Some(Event::End(TagEnd::Link));
                }
            }
            Event::Start(Tag::Heading { level, .. }) => {
                let level = lower(level).min(lower(self.level));
                self.level = level;
                after = Some(Event::Start(Tag::Heading { level, id: None, classes: Vec::new(), attrs: Vec::new() }));
            }
            // Drop the name of the language, which pages do not show and which may be as long as the content.
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
