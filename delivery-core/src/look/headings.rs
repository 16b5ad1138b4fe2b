//! The headings of a content: their levels, and the ids by which links within the content find them.

use std::collections::HashMap;

use pulldown_cmark::{CowStr, Event, HeadingLevel, OffsetIter, Tag, TagEnd};

/// The characters with which the id of each heading of a content begins. So the content cannot take an id of the page.
pub(super) const ID: &str = "in-";

/// Returns the name of each heading by the place where it starts: its words in lower case with hyphens, as on GitHub. The
/// second heading of a name has `-1` after it.
pub(super) fn names(events: OffsetIter<'_>) -> HashMap<usize, String> {
    let (mut all, mut taken, mut open) = (HashMap::new(), HashMap::<String, u32>::new(), None::<(usize, String)>);
    for (event, at) in events {
        match event {
            Event::Start(Tag::Heading { .. }) => open = Some((at.start, String::new())),
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, name)) = &mut open {
                    name.extend(text.chars().take(200));
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let Some((start, text)) = open.take() else { continue };
                let first = slug(&text);
                let mut name = first.clone();
                while let Some(count) = taken.get_mut(&name) {
                    *count += 1;
                    name = format!("{first}-{count}");
                }
                taken.insert(name.clone(), 0);
                all.insert(start, name);
            }
            _ => {}
        }
    }
    all
}

fn slug(text: &str) -> String {
    let letters = text.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ => c.is_alphanumeric().then_some(c),
    });
    letters.flat_map(char::to_lowercase).take(200).collect()
}

/// Returns the address of a link. A link to a heading gets the id that the heading has.
pub(super) fn inside(url: CowStr<'_>) -> CowStr<'_> {
    match url.strip_prefix('#') {
        Some(name) => {
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            format!("#{ID}{}", slug(&name)).into()
        }
        None => url,
    }
}

/// Returns the level below this one.
pub(super) fn lower(level: HeadingLevel) -> HeadingLevel {
    use HeadingLevel::{H1, H2, H3, H4, H5, H6};
    match level {
        H1 => H2,
        H2 => H3,
        H3 => H4,
        H4 => H5,
        H5 | H6 => H6,
    }
}
