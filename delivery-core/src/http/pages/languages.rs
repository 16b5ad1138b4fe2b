//! The language of a page for buyers.

use ::http::header::ACCEPT_LANGUAGE;

use super::PageRequest;
use crate::language::Language;
use crate::product::Product;

/// The maximum number of languages in `Accept-Language` that are read.
const MOST: usize = 20;

impl PageRequest<'_> {
    /// Returns whether the page belongs to the seller's desk. All pages of the desk are in English.
    pub(super) fn is_desk(&self) -> bool {
        self.path.starts_with("/desk")
    }

    /// Returns the language of a page. Pages of the desk are in English. Other pages are in the first of these
    /// languages for which there is a translation: the language of the product, the languages of the browser, the
    /// language of e-mails, English.
    pub(super) fn language(&self, product: Option<&Product>) -> Language {
        if self.is_desk() {
            return Language::default();
        }
        let of_product = product.and_then(Product::language).cloned();
        let headers = self.call.headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok());
        let of_browser = accepted(&headers.collect::<Vec<_>>().join(","));
        let of_shop = self.delivery.inner.outbox.language.clone();
        self.look.spoken(of_product.into_iter().chain(of_browser).chain([of_shop]))
    }
}

/// Returns the languages in a header field `Accept-Language` (RFC 9110, 12.5.4), those with the greatest weights first.
/// Malformed entries are left out, and so are entries whose weight is 0.
fn accepted(header: &str) -> Vec<Language> {
    let one = |range: &str| {
        let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
        let weight: f32 = weight.trim().strip_prefix(['q', 'Q'])?.strip_prefix('=')?.parse().ok()?;
        // Cut the tag off before the first part that has only one character, such as `x` in `de-x-private`. This part
        // and the following ones do not identify a language.
        let parts: Vec<&str> = tag.trim().split('-').take_while(|part| part.len() > 1).collect();
        (weight > 0.0 && weight <= 1.0).then_some((parts.join("-").parse().ok()?, weight))
    };
    let mut languages: Vec<(Language, f32)> = header.split(',').take(MOST).filter_map(one).collect();
    languages.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    languages.into_iter().map(|(language, _)| language).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_says_its_languages_by_weight() {
        for (header, expected) in [
            ("de", "de"),
            ("de-AT, de;q=0.9, en;q=0.8", "de-at de en"),
            ("en;q=0.2,*;q=0.1 , fr ; q=0.7", "fr en"),
            ("de;q=0, en", "en"),
            ("de-CH-u-co-phonebk;Q=0.9, fr-x-a;q=2, en-x-a;q=0.1", "de-ch en"),
            ("de;q=x, en;level=1, ;;, fr", "fr"),
            ("", ""),
        ] {
            let read: Vec<String> = accepted(header).iter().map(ToString::to_string).collect();
            assert_eq!(read.join(" "), expected, "{header}");
        }
    }
}
