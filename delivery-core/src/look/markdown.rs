//! Rendering the seller's Markdown as harmless HTML.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, OffsetIter, Options, Parser, Tag, TagEnd, html,
};

use super::bounds::{Bounds, RUN, Runs};
use super::headings::{ID, inside, lower, names};
use super::pictures::{FILE, Picture, is_allowed};

/// The prefix of the ids of footnotes, as [`ID`] is for headings.
const NOTE: &str = "note-";
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
    // The wrapper lets a wide table scroll sideways without the rest of the page. Each `<` in a text is escaped, so
    // this replaces only the tags of tables.
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

/// A filter that converts the events of the Markdown parser into events that a page may contain.
struct Tamer<'m> {
    /// The names of the headings that have not been converted yet, by the byte offset at which each heading starts.
    names: HashMap<usize, String>,
    /// The level of the last heading. Before the first heading, this is 1, the level of the page's own heading.
    level: HeadingLevel,
    /// The URLs of the links that have started and not ended yet, including images that become links. Links cannot be
    /// nested, so only the outermost becomes a link in the HTML. Of the others, only the text is kept.
    open: Vec<CowStr<'m>>,
    /// Whether the outermost link has any text so far.
    has_text: bool,
    /// The picture that has started and not ended yet.
    picture: Option<Picture>,
    /// The numbers of the footnotes, by their names.
    footnotes: HashMap<CowStr<'m>, usize>,
    /// The state of the current table: the alignment of each column, the index of the column of the next cell, and the
    /// element of the cells in the current row.
    alignments: Vec<Alignment>,
    column: usize,
    cell: &'static str,
}

impl<'m> Tamer<'m> {
    fn of(names: HashMap<usize, String>) -> Self {
        Self {
            level: HeadingLevel::H1,
            names,
            open: Vec::new(),
            has_text: false,
            picture: None,
            footnotes: HashMap::new(),
            alignments: Vec::new(),
            column: 0,
            cell: "td",
        }
    }

    /// Converts an event of the parser. `at` is the byte offset in the Markdown at which the event starts.
    fn tame(&mut self, event: Event<'m>, at: usize) -> impl Iterator<Item = Event<'m>> + use<'m> {
        let (mut before, mut after) = (None, None);
        self.picture = self.picture.take().or_else(|| Picture::begun_by(&event));
        if let Some(picture) = &mut self.picture {
            if picture.read(&event) {
                after = Some(Event::InlineHtml(picture.element().into()));
                self.has_text |= picture.is_described();
                self.picture = None;
            }
            return before.into_iter().chain(after);
        }
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => after = Some(self.text(text)),
            Event::TaskListMarker(is_done) => after = Some(Event::Text(if is_done { "☑ " } else { "☐ " }.into())),
            Event::FootnoteReference(name) => after = Some(Event::FootnoteReference(self.footnote(name))),
            Event::Start(Tag::FootnoteDefinition(name)) => {
                after = Some(Event::Start(Tag::FootnoteDefinition(self.footnote(name))));
            }
            Event::Start(Tag::Table(alignments)) => {
                self.alignments.clone_from(&alignments);
                after = Some(Event::Start(Tag::Table(alignments)));
            }
            Event::Start(Tag::TableHead) => after = Some(self.row("th", Tag::TableHead)),
            Event::Start(Tag::TableRow) => after = Some(self.row("td", Tag::TableRow)),
            // pulldown-cmark would write an aligned cell with a `style` attribute, which the content security policy of
            // the page blocks.
            Event::Start(Tag::TableCell) => {
                let side = match self.alignments.get(self.column) {
                    Some(Alignment::Left) => " align=\"left\"",
                    Some(Alignment::Center) => " align=\"center\"",
                    Some(Alignment::Right) => " align=\"right\"",
                    Some(Alignment::None) | None => "",
                };
                self.column += 1;
                after = Some(Event::InlineHtml(format!("<{}{side}>", self.cell).into()));
            }
            Event::End(TagEnd::TableCell) => after = Some(Event::InlineHtml(format!("</{}>", self.cell).into())),
            Event::SoftBreak => after = Some(Event::Text(CowStr::Borrowed("\n"))),
            Event::Start(Tag::HtmlBlock) => after = Some(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => after = Some(Event::End(TagEnd::Paragraph)),
            Event::Start(Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. }) => {
                if self.open.is_empty() {
                    self.has_text = false;
                    let (link_type, id) = (LinkType::Inline, CowStr::Borrowed(""));
                    let short = |text: &CowStr<'m>| if text.len() > RUN { id.clone() } else { text.clone() };
                    let (dest_url, title) = (inside(short(&dest_url)), short(&title));
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
                let id = self.names.remove(&at).map(|name| format!("{ID}{name}").into());
                after = Some(Event::Start(Tag::Heading { level, id, classes: Vec::new(), attrs: Vec::new() }));
            }
            // Drop the programming language of the code block. Pages do not show it, and its name may be as long as the
            // content.
            Event::Start(Tag::CodeBlock(_)) => after = Some(Event::Start(Tag::CodeBlock(CodeBlockKind::Indented))),
            Event::End(TagEnd::Heading(_)) => after = Some(Event::End(TagEnd::Heading(self.level))),
            event => {
                self.has_text |= matches!(event, Event::Code(_));
                after = Some(event);
            }
        }
        before.into_iter().chain(after)
    }

    /// Begins a row of a table.
    fn row(&mut self, cell: &'static str, tag: Tag<'m>) -> Event<'m> {
        (self.column, self.cell) = (0, cell);
        Event::Start(tag)
    }

    /// Returns the id of a footnote.
    fn footnote(&mut self, name: CowStr<'m>) -> CowStr<'m> {
        let next = self.footnotes.len() + 1;
        format!("{NOTE}{}", self.footnotes.entry(name).or_insert(next)).into()
    }

    fn text(&mut self, text: CowStr<'m>) -> Event<'m> {
        self.has_text |= !text.trim().is_empty();
        Event::Text(text)
    }
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
