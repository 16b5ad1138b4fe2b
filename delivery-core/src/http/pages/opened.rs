//! The page that shows a product that a buyer has opened.
//!
//! Opening counts a use, sets a cookie with a [ticket](crate::key::Ticket), and redirects to this page. The ticket is
//! valid for 24 hours, or until the key expires if that is earlier. During this time, the buyer can reload the page, or
//! open it again from the history, without another use being counted.

#[cfg(not(feature = "files"))]
use std::collections::HashMap;
use std::sync::Arc;

use ::http::{HeaderValue, StatusCode};
use bytes::Bytes;
use minijinja::{Value, context};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::key_form::{asked, refused};
use super::lists::parameter;
#[cfg(feature = "files")]
use super::opening::DAY;
use super::opening::short_names;
use super::shown::{CONTENT, SOURCE};
use super::{ApiError, PageRequest};
use crate::delivery::Error;
use crate::http::limits::admit;
use crate::http::{Reply, names, query};
use crate::key::{Key, Ticket, TicketFor};
use crate::limit::{Identity, Policy};
use crate::product::{FileName, Product};

pub(super) async fn show(request: PageRequest<'_>) -> Result<Reply, ApiError> {
    if request.is_form() {
        return Err(ApiError::MALFORMED);
    }
    let name: String = parameter(&request, "id")?.ok_or(ApiError::NOT_FOUND)?;
    let keyring = &request.delivery.inner.keyring;
    let ticket = request.text_of_buyer(&format!("opened-{name}"));
    let ticket = ticket.and_then(|text| Ticket::verify(keyring, TicketFor::Page, text));
    let is_its = |ticket: &Ticket| short_names(&request, ticket.key).any(|short| short == name);
    let Some(ticket) = ticket.filter(is_its) else { return again(&request) };
    // Views of this page count against the rate limit for downloads of files, because both belong to the same use of a
    // key.
    admit(request.delivery, Policy::Files, Identity::Key(ticket.key.as_u128())).await?;
    match request.delivery.holder_of(&ticket).await {
        Ok(key) => shown(&request, &key, &name, &ticket).await,
        // The 24 hours are over, or the key has expired.
        Err(Error::ExpiredTicket) => match request.delivery.check(ticket.key).await {
            Err(error @ Error::Refused { .. }) => refused(&request, ("", Some(ticket.key)), &error).await,
            Err(error @ Error::Store(_)) => Err(error.into()),
            _ => again(&request),
        },
        Err(Error::RevokedKey) => refused(&request, ("", Some(ticket.key)), &Error::RevokedKey).await,
        Err(error) => Err(error.into()),
    }
}

/// Asks for the key, because the product was opened more than a day ago, or the browser has kept no cookie.
fn again(request: &PageRequest<'_>) -> Result<Reply, ApiError> {
    Ok(asked(request, "", context! { what => "again" })?.with_code(StatusCode::GONE))
}

async fn shown(request: &PageRequest<'_>, key: &Key, name: &str, ticket: &Ticket) -> Result<Reply, ApiError> {
    let delivery = request.delivery;
    let Some(product) = delivery.product(key.product()).await? else {
        return refused(request, ("", None), &Error::UnknownProduct).await;
    };
    if query::parameter(request.call, "do").map_err(|_| ApiError::MALFORMED)?.is_some_and(|what| what == "download") {
        return Ok(file(product));
    }
    let shown = delivery.inner.shelf.shown(&product).await.ok_or_else(|| ApiError::from(Reply::panicked()))?;
    #[cfg(feature = "files")]
    let (files, addresses) = super::file_list::downloads(request, &delivery.links(key, &product, ticket.ends_at - DAY));
    #[cfg(not(feature = "files"))]
    let (files, addresses) = (Vec::<Value>::new(), HashMap::<String, String>::new());
    let picture = |name: &str| addresses.get(&FileName::fold(name)).cloned();
    let values = context! {
        name, files,
        until => super::shown::time(ticket.ends_at),
        content => Value::from_safe_string(CONTENT.to_owned()),
        markdown => Value::from_safe_string(SOURCE.to_owned()),
        product => context! { name => product.name() },
    };
    request.page_of_product("opened.html", &product, values, (&shown, picture))
}

/// Returns the content of the product as a file to download.
fn file(product: Arc<Product>) -> Reply {
    let disposition = disposition(product.name());
    Reply::text("text/markdown; charset=utf-8", Bytes::from_owner(Content(product)))
        .text_header(&names::CONTENT_DISPOSITION, &disposition)
        .with_header(&names::CACHE_CONTROL, HeaderValue::from_static("no-store"))
        .with_header(&names::REFERRER_POLICY, HeaderValue::from_static("same-origin"))
        .with_header(&names::CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
}

/// The content of a product as the body of a reply. All downloads share the bytes without copying them.
struct Content(Arc<Product>);

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        self.0.content().as_bytes()
    }
}

/// Returns the `Content-Disposition` (RFC 6266) for a download of a product's content. It contains the file name twice.
/// In `filename*`, the name keeps the letters of all scripts, and a hyphen replaces each character that file systems
/// forbid. In `filename`, which is for programs that do not support `filename*`, a hyphen replaces every character but
/// ASCII letters and digits.
fn disposition(product: &str) -> String {
    let name = |letter: fn(char) -> char| {
        let name: String = product.chars().map(letter).take(60).collect();
        let name = name.trim_matches(['-', '.', ' ']);
        if name.is_empty() { "product".to_owned() } else { name.to_owned() }
    };
    let plain = name(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let whole = name(|c| if "/\\:*?\"<>|".contains(c) { '-' } else { c });
    let whole = utf8_percent_encode(&whole, NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}.md\"; filename*=UTF-8''{whole}.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_its_product() {
        let long = "ä".repeat(200);
        for (product, plain, whole) in [
            ("Field Guide", "field-guide", "Field%20Guide"),
            ("Führer", "f-hrer", "F%C3%BChrer"),
            ("日本語", "product", "%E6%97%A5%E6%9C%AC%E8%AA%9E"),
            ("../etc/\"passwd\"; x=y", "etc--passwd---x-y", "etc%2D%2Dpasswd%2D%3B%20x%3Dy"),
            ("...", "product", "product"),
            (&long, "product", &"%C3%A4".repeat(60)),
        ] {
            let expected = format!("attachment; filename=\"{plain}.md\"; filename*=UTF-8''{whole}.md");
            assert_eq!(disposition(product), expected);
        }
    }
}
