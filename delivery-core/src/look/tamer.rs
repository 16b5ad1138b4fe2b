//! Converts the events of the Markdown parser, so that the page gets only what it may contain: headings of lower levels
//! than the page's own heading, links that are not nested, numbered footnotes, and cells without a style.

use std::collections::HashMap;

use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Tag, TagEnd};

use super::bounds::RUN;
use super::headings::{ID, inside, lower};
use super::pictures::Picture;

/// The prefix of the ids of footnotes. The first footnote has the id `note-1`. Because of the prefix, no footnote can
/// have the same id as an element of the page around the content. [`ID`] does the same for headings.
pub(super) const NOTE: &str = "note-";

/// A filter that converts the events of the Markdown parser into events that a page may contain.
pub(super) struct Tamer<'m> {
    /// The names of the headings that have not been converted yet, by the byte offset at which each heading starts.
    names: HashMap<usize, String>,
    /// The level of the last heading. Before the first heading, this is 1, the level of the page's own heading.
    level: HeadingLevel,
    /// The URLs of the links that have started and not ended yet, including images that become links. Links cannot be
    /// nested, so only the outermost becomes a link in the HTML. Of nested links, only the text is kept.
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
    pub(super) fn of(names: HashMap<usize, String>) -> Self {
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
    pub(super) fn tame(&mut self, event: Event<'m>, at: usize) -> impl Iterator<Item = Event<'m>> + use<'m> {
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

    /// Begins a row of a table. `cell` is the name of the element for the cells in the row: `th` or `td`.
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
