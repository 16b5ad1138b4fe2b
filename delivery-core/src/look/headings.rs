//! The headings in the content of a product or a post: their levels, and the ids to which links in the content refer.

use std::collections::HashMap;

use pulldown_cmark::{CowStr, Event, HeadingLevel, OffsetIter, Tag, TagEnd};

/// The prefix of the ids of headings in the content. With this prefix, no heading can have the same id as an element of
/// the page around the content.
pub(super) const ID: &str = "in-";

/// Returns the name of each heading, by the byte offset at which the heading starts. A name consists of the words of
/// the heading in lower case, joined with hyphens, as on GitHub. If several headings have the same words, `-1`, `-2`
/// and so on are appended to the names of the second and further ones.
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

/// Converts the URL of a link. A URL that refers to a heading by its name, such as `#First-Steps`, is converted to a
/// URL with the heading's id, such as `#in-first-steps`. Other URLs are returned unchanged.
pub(super) fn inside(url: CowStr<'_>) -> CowStr<'_> {
    match url.strip_prefix('#') {
        Some(name) => {
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            format!("#{ID}{}", slug(&name)).into()
        }
        None => url,
    }
}

/// Returns the next lower level of heading. `H6` has no lower level and is returned unchanged.
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
