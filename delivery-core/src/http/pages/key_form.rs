//! The form where a buyer enters a key, and its messages about keys that cannot be used.

use std::sync::Arc;

use minijinja::{Value, context};

use super::opening::open_until;
use super::shown::time;
use super::{ApiError, PageRequest};
use crate::delivery::Error;
use crate::http::Reply;
use crate::key::{KeyId, Refusal};
use crate::product::Product;

/// Renders the form where the buyer enters a key. `fault` tells the template why the previous input was refused. It is
/// `none` in the template if no input was refused.
pub(super) fn asked(request: &PageRequest<'_>, key: &str, fault: Value) -> Result<Reply, ApiError> {
    form(request, None, key, fault, None)
}

/// Renders the form in the language of `product`, if it is given. The argument `opened` is the result of the function
/// [`opened`].
fn form(
    request: &PageRequest<'_>,
    product: Option<&Product>,
    key: &str,
    fault: Value,
    opened: Option<Value>,
) -> Result<Reply, ApiError> {
    let prefix = request.delivery.inner.keyring.prefix();
    let can_ask = request.delivery.inner.ledger.office().is_some();
    request.page_about(product, "key_form.html", context! { key, fault, prefix, can_ask, opened })
}

/// Returns the template values of a link to the page that shows the product opened with a key: the address of the page,
/// and when it stops showing the product. Returns `None` if this browser has no valid cookie for such a page.
pub(super) fn opened(request: &PageRequest<'_>, key: KeyId) -> Option<Value> {
    let (page, until) = open_until(request, key)?;
    Some(context! { page, until => time(until) })
}

/// Renders the form for a key with a message that tells the buyer why the key cannot be used.
pub(super) async fn refused(
    request: &PageRequest<'_>,
    (text, id): (&str, Option<KeyId>),
    error: &Error,
) -> Result<Reply, ApiError> {
    let what = match error {
        Error::RevokedKey => "withdrawn",
        // Using a revoked key also fails with `UnknownKey`. The page may reveal that the key exists: its text is
        // authentic, so the sender did not guess it.
        Error::UnknownKey if id.is_some() => "withdrawn",
        Error::UnknownKey => "unknown",
        Error::Refused { refusal: Refusal::Expired { .. }, .. } => "expired",
        Error::Refused { refusal: Refusal::Exhausted { .. }, .. } => "exhausted",
        Error::Refused { refusal: Refusal::Denied(_), .. } => "denied",
        Error::UnknownProduct => "gone",
        error => return Err(error.clone().into()),
    };
    let (at, sentence) = match error {
        Error::Refused { refusal: Refusal::Expired { since }, .. } => (Some(time(*since)), ""),
        Error::Refused { refusal: Refusal::Denied(denied), .. } => (None, denied.sentence()),
        _ => (None, ""),
    };
    let status = ::http::StatusCode::from_u16(error.code().status()).unwrap_or_default();
    let product = match id {
        Some(id) => product_of(request, id).await?,
        None => None,
    };
    // A product that was opened can be viewed until its ticket expires, even if the key is used up or a rule of the
    // host application refuses another use.
    let opened = id.filter(|_| matches!(what, "exhausted" | "denied")).and_then(|id| opened(request, id));
    Ok(form(request, product.as_deref(), text, context! { what, at, sentence }, opened)?.with_code(status))
}

async fn product_of(request: &PageRequest<'_>, id: KeyId) -> Result<Option<Arc<Product>>, ApiError> {
    let Some(key) = request.delivery.key(id).await? else { return Ok(None) };
    Ok(request.delivery.product(key.product()).await?)
}
