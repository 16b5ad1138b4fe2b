//! The origins whose pages may call the API.

use std::str::FromStr;

use http::{HeaderMap, HeaderValue, header};
use url::Url;

use crate::text::Invalid;

/// The origins whose pages may read products and posts, validate keys, and fetch products with a key. Browsers enforce
/// these permissions. Even pages of these origins may not send cookies, and may not call the endpoints for sellers and
/// platforms.
///
/// ```
/// use delivery_core::CrossOrigin;
///
/// assert!("https://shop.example, https://blog.example:8443".parse::<CrossOrigin>().is_ok());
/// assert!("*".parse::<CrossOrigin>().is_ok());
/// assert!("https://shop.example/path".parse::<CrossOrigin>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CrossOrigin(Origins);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Origins {
    #[default]
    None,
    These(Vec<HeaderValue>),
    All,
}

impl FromStr for CrossOrigin {
    type Err = Invalid;

    /// Reads origins, separated by commas, or `*` for all.
    fn from_str(list: &str) -> Result<Self, Invalid> {
        const EXPECTED: Invalid =
            Invalid::expected("must be origins such as https://shop.example, separated by commas, or *");
        if list.trim() == "*" {
            return Ok(Self(Origins::All));
        }
        let origins = list.split(',').map(|origin| {
            let url = Url::parse(origin.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
            let text = url.origin().ascii_serialization();
            // The URL must be an origin, with or without a slash at its end. An origin with a wildcard, such as
            // `https://*.shop.example`, would never equal the origin of a page.
            let is_origin = url.as_str().strip_suffix('/') == Some(text.as_str()) && !text.contains('*');
            is_origin.then_some(text).and_then(|text| HeaderValue::from_str(&text).ok())
        });
        origins.collect::<Option<_>>().map(|origins| Self(Origins::These(origins))).ok_or(EXPECTED)
    }
}

impl CrossOrigin {
    /// Returns the value of `Access-Control-Allow-Origin` for a call. Returns `None` if the call is not from a page of
    /// an allowed origin.
    pub(crate) fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        match &self.0 {
            Origins::None => None,
            Origins::All => headers.get(header::ORIGIN).map(|_| HeaderValue::from_static("*")),
            Origins::These(origins) => {
                let origin = headers.get(header::ORIGIN)?;
                origins.iter().find(|allowed| *allowed == origin).cloned()
            }
        }
    }

    /// Returns whether replies depend on the origin of the page. Such replies need the header `Vary: origin`.
    pub(crate) fn varies(&self) -> bool {
        matches!(self.0, Origins::These(_))
    }
}
