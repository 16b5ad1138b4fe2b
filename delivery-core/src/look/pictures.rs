//! Pictures in the content of a product or a post: files of the product, and `data:` URLs in the content itself. All
//! other images become links, because pages load nothing from other sites.

use std::borrow::Cow;

use bytes::Bytes;
use minijinja::HtmlEscape;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use pulldown_cmark::{Event, Tag, TagEnd};
use url::Url;

/// In cached HTML, a placeholder stands for the address of each file. The placeholder consists of this prefix and the
/// percent-encoded name of the file.
pub(super) const FILE: &str = "#picture-";
/// The beginning of an `<img>` element that shows a file, in cleaned HTML. Each `<` in a text is escaped, so no text
/// contains this.
const ELEMENT: &str = "<img src=\"#picture-";
/// The address of a picture whose file cannot be shown. There is no image at this address, so browsers show the
/// description instead.
const NONE: &str = "data:,";
/// No further text is added to a description that has at least this length, in bytes.
const DESCRIBED: usize = 1000;
/// The types of pictures that a `data:` URL may have. A browser runs no script in any of them.
const TYPES: [&str; 6] = ["png", "jpeg", "gif", "webp", "avif", "svg+xml"];

/// A picture whose description is being read.
pub(super) struct Picture {
    address: String,
    description: String,
    /// The number of links and images that have started and not ended yet: the picture, and those in its description.
    inside: usize,
}

impl Picture {
    /// Returns the picture that starts with `event`. Returns `None` if `event` does not start an image, or if the page
    /// shows a link in place of the image, because of its URL.
    pub(super) fn begun_by(event: &Event<'_>) -> Option<Self> {
        let Event::Start(Tag::Image { dest_url, .. }) = event else { return None };
        let address = address(dest_url)?.into_owned();
        Some(Self { address, description: String::new(), inside: 0 })
    }

    /// Reads the next event of the picture. The first one must be the event with which the picture starts. Returns
    /// whether the picture ends with this event.
    pub(super) fn read(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text)
                if self.description.len() < DESCRIBED =>
            {
                self.description.extend(text.chars().take(DESCRIBED));
            }
            Event::SoftBreak | Event::HardBreak if self.description.len() < DESCRIBED => self.description.push(' '),
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => self.inside += 1,
            Event::End(TagEnd::Link | TagEnd::Image) => self.inside = self.inside.saturating_sub(1),
            _ => {}
        }
        self.inside == 0
    }

    /// Returns the HTML element of the picture. A file without a description is described by its name.
    pub(super) fn element(&self) -> String {
        let name = percent_decode_str(self.address.strip_prefix(FILE).unwrap_or_default()).decode_utf8_lossy();
        let description = if self.is_described() { &*self.description } else { &*name };
        format!("<img src=\"{}\" alt=\"{}\">", HtmlEscape(&self.address), HtmlEscape(description))
    }

    pub(super) fn is_described(&self) -> bool {
        !self.description.trim().is_empty()
    }
}

/// Converts the URL of an image in the Markdown to the address of the picture in the HTML. Returns `None` if the URL is
/// neither a file name nor a `data:` URL with a picture. The page then shows a link in place of the image.
fn address(url: &str) -> Option<Cow<'_, str>> {
    if is_data(url) {
        return Some(Cow::Borrowed(url));
    }
    let url = url.strip_prefix("./").unwrap_or(url);
    let name = percent_decode_str(url).decode_utf8().ok()?;
    let is_name = !name.is_empty() && !url.contains(['#', '?', ':']) && !name.contains(['/', '\\']);
    is_name.then(|| Cow::Owned(format!("{FILE}{}", utf8_percent_encode(&name, NON_ALPHANUMERIC))))
}

/// Returns whether `url` is a `data:` URL that contains a picture of one of the [`TYPES`] in base64.
fn is_data(url: &str) -> bool {
    let Some((kind, data)) = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,")) else {
        return false;
    };
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    TYPES.contains(&kind) && data.bytes().all(is_base64)
}

/// Returns whether an attribute may have this value. The source of an image must be the placeholder of a file, or a
/// `data:` URL with a picture. The URL of a link must not be a `data:` URL.
pub(super) fn is_allowed(element: &str, attribute: &str, value: &str) -> bool {
    match (element, attribute) {
        ("img", "src") => value.starts_with(FILE) || is_data(value),
        (_, "href") => Url::parse(value).map_or(true, |url| url.scheme() != "data"),
        _ => true,
    }
}

/// HTML that does not contain the addresses of the product's files yet.
pub(crate) struct Illustrated {
    /// Pieces of HTML. Each piece except the last has the name of the file whose address must follow it.
    pieces: Vec<(Bytes, Option<String>)>,
}

impl Illustrated {
    pub(super) fn new(html: String) -> Self {
        let html = Bytes::from(html);
        let text = std::str::from_utf8(&html).unwrap_or_default();
        let (mut pieces, mut from) = (Vec::new(), 0);
        for (at, found) in text.match_indices(ELEMENT) {
            let name = text.get(at + found.len()..).and_then(|rest| rest.split('"').next()).unwrap_or_default();
            let decoded = percent_decode_str(name).decode_utf8_lossy().into_owned();
            pieces.push((html.slice(from..at + found.len() - FILE.len()), Some(decoded)));
            from = at + found.len() + name.len();
        }
        pieces.push((html.slice(from..), None));
        Self { pieces }
    }

    /// Returns the pieces of the HTML with the addresses of the files. `address` returns the address of the file that
    /// has the given name, or `None` if the page cannot show this file.
    pub(crate) fn filled(&self, address: impl Fn(&str) -> Option<String>) -> Vec<Bytes> {
        let of_file = |name: &String| {
            let address = address(name).unwrap_or_else(|| NONE.to_owned());
            HtmlEscape(&address).to_string().into()
        };
        let both = |(html, name): &(Bytes, Option<String>)| [Some(html.clone()), name.as_ref().map(of_file)];
        self.pieces.iter().flat_map(both).flatten().collect()
    }

    pub(super) fn memory(&self) -> usize {
        let piece = |(html, name): &(Bytes, Option<String>)| html.len() + name.as_ref().map_or(0, String::len);
        self.pieces.iter().map(piece).sum::<usize>() + std::mem::size_of_val(&*self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rendered;
    use super::*;

    /// The HTML of a product that has the file `bird.png`.
    fn shown(markdown: &str) -> String {
        let address = |name: &str| (name == "bird.png").then(|| "/api/file/a&b/bird.png".to_owned());
        let pieces = Illustrated::new(rendered(markdown)).filled(address);
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[test]
    fn files_and_data_are_pictures_and_the_rest_are_links() {
        const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
        let file = "<img src=\"&#x2f;api&#x2f;file&#x2f;a&amp;b&#x2f;bird.png\" alt=\"a &quot;b&quot; c\">";
        for (markdown, html) in [
            ("![a \"b\" *c*](bird.png)", file.to_owned()),
            ("![a \"b\" `c`](./bird%2Epng \"title\")", file.to_owned()),
            ("![x](missing.png)", "<img src=\"data:,\" alt=\"x\">".to_owned()),
            (&format!("![x]({PNG})"), format!("<img src=\"{PNG}\" alt=\"x\">")),
            ("[![a \"b\" c](bird.png)](https://e.com)", format!("{LINK}{file}</a>")),
            ("![x ![y](bird.png) z](https://e.com)", format!("{LINK}x ")),
            ("![](bird.png)", file.replace("a &quot;b&quot; c", "bird.png")),
            ("![x](Step%20%231%3F.png)", "<img src=\"data:,\" alt=\"x\">".to_owned()),
            (&format!("[![]({PNG})](https://e.com)"), format!("{LINK}<img src=\"{PNG}\" alt=\"\">https://e.com</a>")),
            ("![](https://e.com)", format!("{LINK}https://e.com</a>")),
            ("![x](https://e.com)", format!("{LINK}x</a>")),
            ("`<img src=\"#picture-bird.png\">`", "&lt;img src=\"#picture-bird.png\"&gt;".to_owned()),
        ] {
            assert!(shown(markdown).contains(&html), "{markdown}: {}", shown(markdown));
        }
    }
    const LINK: &str = "<a href=\"https://e.com\" rel=\"noopener noreferrer nofollow\">";

    #[test]
    fn no_picture_does_anything() {
        for markdown in [
            "![x](data:text/html;base64,PHNjcmlwdD4=)",
            "![x](data:image/png;base64,\" onerror=alert(1) x=\")",
            "![x](data:image/svg+xml,<svg onload=alert(1)>)",
            "![x](javascript:alert(1))",
            "![x](../desk/sign-out)",
            "![x](/desk/sign-out)",
            "![x](//e.com/x.png)",
            "![x](x.png?do=1)",
            "[x](data:image/png;base64,iVBORw0KGgo=)",
            "[x](DA&Tab;TA:text/html,x)",
        ] {
            let html = shown(markdown);
            let does_nothing = ["<img", "=\"data:", "href=\"/"].iter().all(|part| !html.contains(part));
            assert!(does_nothing, "{html}");
        }
        let described = shown("![\" onerror=alert(1) <b>](bird.png)");
        assert!(described.contains("alt=\"&quot; onerror=alert(1) &lt;b&gt;\""), "{described}");
    }

    #[test]
    fn a_large_picture_is_shown() {
        let data = format!("data:image/webp;base64,{}", "A".repeat(900 << 10));
        assert!(shown(&format!("![x]({data})")).contains(&data));
    }
}
