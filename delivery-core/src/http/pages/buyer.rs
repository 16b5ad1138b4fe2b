//! The pages for buyers. They show the state of a key and the product, and a form to request lost keys.

use std::sync::Arc;

use ::http::HeaderValue;
use bytes::Bytes;
use minijinja::{Value, context};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::form::Form;
use super::shown::{CONTENT, SOURCE, day, end};
use super::{Answering, ApiError, PageRequest};
use crate::delivery::{Error, Opened};
use crate::http::limits::{admit, client, forged};
use crate::http::{Reply, names};
use crate::key::{Key, KeyId, Refusal};
use crate::ledger::{MOST_REPEATS, RequestId};
use crate::limit::{Identity, Policy};
use crate::product::Product;

pub(super) fn show(visit: PageRequest<'_>) -> Answering<'_> {
    Box::pin(async move {
        let Some(form) = &visit.form else { return asked(&visit, "", None) };
        match form.text("do") {
            "open" | "download" => opened(&visit, form).await,
            _ => shown(&visit, form).await,
        }
    })
}

/// Renders the form where the buyer enters a key.
fn asked(visit: &PageRequest<'_>, key: &str, fault: Option<&str>) -> Result<Reply, ApiError> {
    let prefix = visit.delivery.inner.keyring.prefix();
    let can_ask = visit.delivery.inner.ledger.office().is_some();
    visit.page_with_script("key_form.html", context! { key, fault, prefix, can_ask })
}

/// Shows the state of a key: for which product it is, and how many uses remain. This does not count a use of the key.
/// The request counts against the same rate limit as `/api/validate`.
async fn shown(visit: &PageRequest<'_>, form: &Form) -> Result<Reply, ApiError> {
    let delivery = visit.delivery;
    admit(delivery, Policy::Validate, client(delivery, visit.call)).await?;
    let Some(text) = form.given("key") else { return asked(visit, "", Some("Paste your key into the field.")) };
    let checked = match delivery.verify(text) {
        Some(id) => delivery.check(id).await,
        None => Err(Error::UnknownKey),
    };
    match checked {
        Ok(key) => key_page(visit, text, &key).await,
        Err(error) => refused(visit, text, &error),
    }
}

async fn key_page(visit: &PageRequest<'_>, text: &str, key: &Key) -> Result<Reply, ApiError> {
    let product = visit.delivery.product(key.product()).await?;
    let Some(product) = product else { return refused(visit, text, &Error::UnknownProduct) };
    let knows_repeats = visit.delivery.inner.ledger.office().is_some();
    let uses = match key.remaining() {
        None => "no limit".to_owned(),
        Some(left) => left.to_string(),
    };
    let counts = match key.remaining() {
        None => "You can open it as often as you like.",
        Some(1) if knows_repeats => {
            "This is the last use of the key. Keep the page that opens: you can reload it and download from it for a day."
        }
        Some(1) => "This is the last use of the key.",
        Some(_) => "Opening it counts as one use.",
    };
    // The form contains a random request id, so that submitting the form twice counts only one use.
    let mut random = [0; 18];
    visit.delivery.inner.entropy.fill(&mut random);
    let request = data_encoding::BASE64URL_NOPAD.encode(&random);
    visit.page(
        "key.html",
        context! {
            key => text, uses, counts, request,
            product => context! { name => product.name(), description => product.description() },
            expires_at => end(key.expires_at()),
            fault => Value::from(()),
        },
    )
}

/// Shows the content of the product, or sends it as a file. This counts a use of the key. If the same form is submitted
/// again, no further use is counted, provided that [`Delivery::fetch_once`](crate::Delivery::fetch_once) recognizes the
/// repetition.
async fn opened(visit: &PageRequest<'_>, form: &Form) -> Result<Reply, ApiError> {
    let delivery = visit.delivery;
    let (text, request) = (form.text("key").trim(), form.text("request"));
    let Some(id) = delivery.verify(text) else {
        forged(delivery, visit.call).await?;
        return refused(visit, text, &Error::UnknownKey);
    };
    admit(delivery, Policy::Product, Identity::Key(id.as_u128())).await?;
    if !(1..=255).contains(&request.len()) {
        return Err(ApiError::MALFORMED);
    }
    match fetch(visit, id, request).await {
        Ok(opened) if form.text("do") == "download" => Ok(file(opened.product)),
        Ok(opened) => {
            let product = &opened.product;
            let shown = delivery.inner.shelf.shown(product).await.ok_or_else(|| ApiError::from(Reply::panicked()))?;
            #[cfg(feature = "files")]
            let files = super::file_list::downloads(visit, &delivery.links(&opened.key, product, opened.at));
            #[cfg(not(feature = "files"))]
            let files = Vec::<Value>::new();
            let values = context! {
                key => text, request, files,
                content => Value::from_safe_string(CONTENT.to_owned()),
                markdown => Value::from_safe_string(SOURCE.to_owned()),
                product => context! { name => product.name() },
                repeats => delivery.inner.ledger.office().map(|_| MOST_REPEATS),
            };
            visit.page_of_product("opened.html", values, &shown)
        }
        Err(error) => refused(visit, text, &error),
    }
}

async fn fetch(visit: &PageRequest<'_>, id: KeyId, request: &str) -> Result<Opened, Error> {
    let delivery = visit.delivery;
    let key = delivery.inner.ledger.find(id).await?.ok_or(Error::UnknownKey)?;
    delivery.open(id, key.product(), Some(RequestId::of(request.as_bytes()))).await
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

/// Returns the `Content-Disposition` of a product's file (RFC 6266), which contains the file name twice. The name in
/// `filename*` has letters of any script, and replacements for characters that file systems forbid. The name in
/// `filename` is for programs that do not support `filename*`.
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

/// Renders the form for a key with a message that tells the buyer why the key cannot be used.
fn refused(visit: &PageRequest<'_>, text: &str, error: &Error) -> Result<Reply, ApiError> {
    let write = match visit.look.support_address() {
        Some(address) => format!("write to {address}"),
        None => "write to the shop".to_owned(),
    };
    let fault = match error {
        // It is safe to reveal that the key exists. Its text is authentic, so the sender did not guess it.
        Error::UnknownKey if visit.delivery.verify(text).is_some() => format!(
            "This key was withdrawn: it was refunded, or a newer key took its place. Look for a newer e-mail, or {write}."
        ),
        Error::UnknownKey => "This key is not valid. Compare it with your e-mail, letter by letter.".to_owned(),
        Error::Refused { refusal: Refusal::Expired { since }, .. } => {
            format!("This key expired on {}. To go on, buy the product again, or {write}.", day(*since))
        }
        Error::Refused { refusal: Refusal::Exhausted { .. }, .. } => {
            format!("This key is used up. To open the product again, buy it again, or {write}.")
        }
        Error::Refused { refusal: Refusal::Denied(denied), .. } => denied.sentence().to_owned(),
        Error::UnknownProduct => format!("What this key opens is not there any more: {write}."),
        error => return Err(error.clone().into()),
    };
    let status = ::http::StatusCode::from_u16(error.code().status()).unwrap_or_default();
    Ok(asked(visit, text, Some(&fault))?.with_code(status))
}

pub(super) fn lost(mut visit: PageRequest<'_>) -> Answering<'_> {
    Box::pin(async move {
        let form = visit.form.take();
        let page = |typed: &str, fault: Option<&str>, said: Option<&str>| {
            visit.page("lost.html", context! { typed, fault, said })
        };
        let Some(form) = form else { return page("", None, None) };
        let delivery = visit.delivery;
        visit.check_origin_if_any()?;
        admit(delivery, Policy::Resend, client(delivery, visit.call)).await?;
        let typed = form.text("customer_email").trim();
        let Ok(email) = typed.parse() else {
            return page(typed, Some("This is not an e-mail address."), None);
        };
        // Free the memory of the form before the store is queried, which may be slow.
        drop(form);
        delivery.ask_for_keys(&email).await?;
        page("", None, Some(crate::http::api::lost::SAME_ANSWER))
    })
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
