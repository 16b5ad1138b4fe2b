//! Markdown of a seller's as HTML that can do nothing but be read.

use std::collections::HashSet;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// The content of a product or a post as HTML. Raw HTML and scripts do nothing, images are links, since a page loads nothing from
/// elsewhere, and headings begin at the second level, below the page's own.
pub(crate) fn rendered(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
    let mut parsed = String::with_capacity(markdown.len() * 3 / 2);
    html::push_html(&mut parsed, Parser::new_ext(markdown, options).map(tame));
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
        "sup",
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
        .clean(&parsed)
        .to_string()
}

fn tame(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            Event::Start(Tag::Link { link_type, dest_url, title, id })
        }
        Event::End(TagEnd::Image) => Event::End(TagEnd::Link),
        Event::Start(Tag::Heading { level, .. }) => {
            Event::Start(Tag::Heading { level: lower(level), id: None, classes: Vec::new(), attrs: Vec::new() })
        }
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lower(level))),
        Event::SoftBreak => Event::Text(CowStr::Borrowed("\n")),
        event => event,
    }
}

fn lower(level: pulldown_cmark::HeadingLevel) -> pulldown_cmark::HeadingLevel {
    use pulldown_cmark::HeadingLevel::{H1, H2, H3, H4, H5, H6};
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
