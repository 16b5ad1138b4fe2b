//! Rendering the seller's Markdown as harmless HTML.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use pulldown_cmark::{OffsetIter, Options, Parser, html};

use super::bounds::{Bounds, Runs};
use super::headings::{ID, names};
use super::pictures::{FILE, is_allowed};
use super::tamer::{NOTE, Tamer};

/// The elements that get the attribute `dir="auto"`. Browsers then take the direction of their text from its first
/// letter, such as right to left for Arabic.
const DIRECTED: [&str; 9] = ["p", "li", "td", "th", "h2", "h3", "h4", "h5", "h6"];
/// The elements that the HTML may contain besides those in [`DIRECTED`] and besides `img`, `tr` and `ul`.
const PLAIN: [&str; 15] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "div",
    "em",
    "hr",
    "ol",
    "pre",
    "strong",
    "sup",
    "table",
    "tbody",
    "thead",
];

/// Renders the content of a product or a post as HTML that is safe to show.
///
/// - Raw HTML in the content, such as a script, is shown as text.
/// - An image becomes a [picture](super::pictures) if its URL is a file name, or a `data:` URL with a picture. Other
///   images become links, because pages load nothing from other sites.
/// - Headings start at the second level, below the page's own heading, and skip no level. Links such as `#first-steps`
///   refer to them.
/// - A block of metadata at the beginning (front matter) is left out.
pub(crate) fn rendered(markdown: &str) -> String {
    let tags: HashSet<&str> = DIRECTED.into_iter().chain(PLAIN).chain(["img", "tr", "ul"]).collect();
    let mut attributes: HashMap<&str, HashSet<&str>> = HashMap::from([
        ("a", HashSet::from(["href", "title"])),
        ("ol", HashSet::from(["start"])),
        ("div", HashSet::from(["id"])),
        ("img", HashSet::from(["src", "alt"])),
    ]);
    for heading in ["h2", "h3", "h4", "h5", "h6"] {
        attributes.insert(heading, HashSet::from(["id"]));
    }
    for cell in ["td", "th"] {
        attributes.insert(cell, HashSet::from(["align"]));
    }
    let mut cleaner = ammonia::Builder::new();
    for tag in DIRECTED {
        cleaner.set_tag_attribute_value(tag, "dir", "auto");
    }
    let cleaned = cleaner
        .tags(tags)
        .tag_attributes(attributes)
        .generic_attributes(HashSet::new())
        .url_schemes(HashSet::from(["data", "http", "https", "mailto"]))
        .attribute_filter(|element, attribute, value| is_allowed(element, attribute, value).then_some(value.into()))
        .url_relative(ammonia::UrlRelative::Custom(Box::new(within)))
        .link_rel(Some("noopener noreferrer nofollow"))
        .clean(&written(markdown))
        .to_string();
    // Wrap each table in an element that scrolls sideways, so that a wide table does not make the whole page scroll.
    // Each `<` in a text is escaped, so this replaces only the tags of tables.
    let table = "<div class=\"table\" role=\"region\" aria-label=\"Table\" tabindex=\"0\"><table>";
    cleaned.replace("<table>", table).replace("</table>", "</table></div>")
}

/// Returns a relative URL unchanged if it is the address of a picture, or if it refers to a heading or a footnote of
/// the same content. Returns `None` for any other relative URL, so that the content of a product or a post cannot link
/// to other pages of this site.
fn within(url: &str) -> Option<Cow<'_, str>> {
    let is_within = |id: &str| id.starts_with(ID) || id.starts_with(NOTE);
    (url.starts_with(FILE) || url.strip_prefix('#').is_some_and(is_within)).then_some(Cow::Borrowed(url))
}

/// Renders Markdown as HTML that still has to be cleaned. The HTML is quick to clean, because it has limits: on the
/// nesting depth, on the number of elements, and on the length of each text and attribute.
pub(super) fn written(markdown: &str) -> String {
    let markdown = without_front_matter(markdown);
    let mut written = String::with_capacity(markdown.len() * 3 / 2);
    let (mut bounds, mut tamer, mut runs) = (Bounds::default(), Tamer::of(names(parsed(markdown))), Runs::default());
    let events = parsed(markdown).filter_map(move |(event, at)| Some((bounds.admit(event)?, at.start)));
    let tamed = events.flat_map(move |(event, at)| tamer.tame(event, at));
    html::push_html(&mut written, tamed.flat_map(move |event| runs.cut(event)));
    written
}

/// Removes the block of metadata (front matter) at the beginning of the text, if there is one. The block starts with
/// `---` on the first line, and extends to the next line `---`. If the line after the first `---` is empty, that `---`
/// is a horizontal rule, and nothing is removed.
fn without_front_matter(markdown: &str) -> &str {
    let markdown = markdown.trim_start_matches('\u{feff}');
    let ends_line = |text: &str| text.starts_with('\n') || text.starts_with("\r\n");
    let Some(rest) = markdown.strip_prefix("---").filter(|rest| ends_line(rest)) else { return markdown };
    let rest = rest.trim_start_matches('\r');
    if ends_line(rest[1..].trim_start_matches(' ')) {
        return markdown;
    }
    let end = rest.match_indices("\n---").map(|(at, line)| at + line.len());
    let mut ends = end.filter(|end| rest[*end..].is_empty() || ends_line(&rest[*end..]));
    ends.next().map_or(markdown, |end| &rest[end..])
}

fn parsed(markdown: &str) -> OffsetIter<'_> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES | Options::ENABLE_TASKLISTS;
    Parser::new_ext(markdown, options).into_offset_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_rendered() {
        for (markdown, html) in [
            ("# One\n\ntext", "<h2 id=\"in-one\" dir=\"auto\">One</h2>\n<p dir=\"auto\">text</p>\n"),
            ("*a* **b** ~~c~~ `d`", "<p dir=\"auto\"><em>a</em> <strong>b</strong> <del>c</del> <code>d</code></p>\n"),
            ("1. a\n2. b", "<ol>\n<li dir=\"auto\">a</li>\n<li dir=\"auto\">b</li>\n</ol>\n"),
            ("```rust\nfn f() {}\n```", "<pre><code>fn f() {}\n</code></pre>\n"),
            ("a\nb", "<p dir=\"auto\">a\nb</p>\n"),
        ] {
            assert_eq!(rendered(markdown), html, "{markdown}");
        }
        for (markdown, part) in [
            ("|a|b|\n|:-:|-|\n|c|d|", "<td align=\"center\" dir=\"auto\">c</td><td dir=\"auto\">d</td>"),
            ("|a|\n|-|\n|b|", "<div class=\"table\" role=\"region\" aria-label=\"Table\" tabindex=\"0\"><table>"),
            ("- [x] done\n- [ ] not yet", "<li dir=\"auto\">☑ done</li>"),
            ("a[^1]\n\n[^1]: b", "<sup><a href=\"#note-1\" rel=\"noopener noreferrer nofollow\">1</a></sup>"),
            ("a[^1]\n\n[^1]: b", "<div id=\"note-1\"><sup>1</sup>\n<p dir=\"auto\">b</p>\n</div>"),
            (
                "[x](#a-b)\n# A *B*!\n# A B",
                "<p dir=\"auto\"><a href=\"#in-a-b\" rel=\"noopener noreferrer nofollow\">x</a></p>",
            ),
            ("# A *B*!\n# A B", "<h2 id=\"in-a-b-1\" dir=\"auto\">A B</h2>"),
            ("[x](#Gr%C3%BC%C3%9Fe)\n# Grüße", "<a href=\"#in-gr%C3%BC%C3%9Fe\""),
        ] {
            assert!(rendered(markdown).contains(part), "{markdown}: {}", rendered(markdown));
        }
        for (markdown, same) in [
            ("---\ntitle: x\n---\n\ntext", "text"),
            ("---\r\ntitle: x\r\n---\r\n\r\ntext", "text"),
            ("---\n\n# One\n\n---\n\ntext", "***\n\n# One\n\n***\n\ntext"),
            ("a\n\n---\n# One\n\n---\ntext", "a\n\n***\n# One\n\n***\ntext"),
            ("---\ntitle: x", "***\ntitle: x"),
        ] {
            assert_eq!(rendered(markdown), rendered(same), "{markdown}");
        }
        let code = "`<td style=\"text-align: left\">`";
        assert!(rendered(code).contains("&lt;td style=\"text-align: left\"&gt;"), "{}", rendered(code));
        let twice = rendered("# A\n# A\n# A-1\n# Note 1\n\na[^1][^*][^**]\n\n[^1]: b\n\n[^*]: c\n\n[^**]: d");
        let ids: Vec<&str> = twice.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(ids, ["in-a", "in-a-1", "in-a-1-1", "in-note-1", "note-1", "note-2", "note-3"]);
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
            let bare = ["a", "b", "c", "d"]
                .iter()
                .fold(rendered(markdown), |html, name| html.replace(&format!(" id=\"in-{name}\" dir=\"auto\""), ""));
            assert_eq!(bare, html, "{markdown}");
        }
        let to = "<a href=\"https://e.com/x\" rel=\"noopener noreferrer nofollow\">";
        for (markdown, text) in [
            ("![](https://e.com/x)", "https://e.com/x"),
            ("[](https://e.com/x)", "https://e.com/x"),
            ("[![alt](https://e.com/y.png)](https://e.com/x)", "alt"),
            ("[![](https://e.com/y.png)](https://e.com/x)", "https://e.com/x"),
            ("[`code`](https://e.com/x)", "<code>code</code>"),
        ] {
            assert_eq!(rendered(markdown), format!("<p dir=\"auto\">{to}{text}</a></p>\n"), "{markdown}");
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
            let bare = html.replace("&lt;", "").replace("&quot;", "").replace("id=\"in-", "");
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
