//! The pages for buyers: the form where a key is entered, the state of a key, and the form to request lost keys.

use ::http::StatusCode;
use minijinja::{Value, context};

use super::form::Form;
use super::key_form::{asked, opened, refused};
use super::lists::parameter;
use super::opening::{EnteredKey, entered_key, lead_to, lead_to_state};
use super::shown::end;
use super::{ApiError, PageRequest};
use crate::delivery::{Error, Opened};
use crate::http::Reply;
use crate::http::limits::{admit, client, forged};
use crate::key::{Key, KeyId};
use crate::ledger::RequestId;
use crate::limit::{Identity, Policy};

pub(super) async fn show(request: PageRequest<'_>) -> Result<Reply, ApiError> {
    let Some(form) = &request.form else { return shown_again(&request).await };
    match form.text("do") {
        "open" => open(&request, form).await,
        _ => shown(&request, form).await,
    }
}

/// Redirects to the page that shows the state of a key. If the key cannot be used, renders the form with the reason
/// instead. This does not count a use of the key. The request counts against the same rate limit as `/api/validate`.
async fn shown(request: &PageRequest<'_>, form: &Form) -> Result<Reply, ApiError> {
    let delivery = request.delivery;
    admit(delivery, Policy::Validate, client(delivery, request.call)).await?;
    let Some(typed) = form.given("key") else { return asked(request, "", context! { what => "missing" }) };
    let text = &request.key_in(typed);
    let id = delivery.identify(text).await?;
    let checked = match id {
        Some(id) => delivery.check(id).await,
        None => Err(Error::UnknownKey),
    };
    match checked {
        Ok(key) => Ok(lead_to_state(request, &key)),
        Err(error) => refused(request, (text, id), &error).await,
    }
}

/// Shows the state of the key that was entered in this browser: its product, and how many uses remain. If the URL names
/// no key, shows the form where a key is entered.
async fn shown_again(request: &PageRequest<'_>) -> Result<Reply, ApiError> {
    let Some(name) = parameter::<String>(request, "id")? else { return asked(request, "", Value::from(())) };
    let Some(entered) = entered_key(request, &name) else { return not_kept(request) };
    admit(request.delivery, Policy::Validate, client(request.delivery, request.call)).await?;
    match request.delivery.check(entered.key).await {
        Ok(key) => key_page(request, &name, &entered, &key).await,
        Err(error) => refused(request, ("", Some(entered.key)), &error).await,
    }
}

/// Shows the form where a key is entered, because the browser has no valid cookie for the key that the request names.
fn not_kept(request: &PageRequest<'_>) -> Result<Reply, ApiError> {
    Ok(asked(request, "", context! { what => "not_kept" })?.with_code(StatusCode::GONE))
}

async fn key_page(request: &PageRequest<'_>, name: &str, entered: &EnteredKey, key: &Key) -> Result<Reply, ApiError> {
    let product = request.delivery.product(key.product()).await?;
    let Some(product) = product else { return refused(request, ("", None), &Error::UnknownProduct).await };
    let values = context! {
        name, left => key.remaining(), request => entered.request_id.as_str(),
        product => context! { name => product.name(), description => product.description() },
        expires_at => end(key.expires_at()), opened => opened(request, key.id()),
    };
    request.page_about(Some(&product), "key.html", values)
}

/// Counts a use of the key, and redirects to the page that [shows the product](super::opened). If the same form is
/// submitted again within 24 hours, no further use is counted, up to ten times: see
/// [`Delivery::fetch_once`](crate::Delivery::fetch_once).
async fn open(request: &PageRequest<'_>, form: &Form) -> Result<Reply, ApiError> {
    let delivery = request.delivery;
    let request_id = form.text("request");
    // The form names the key in one of two ways. The form on the page with the state of a key contains a short name of
    // the key, which is valid only with a cookie in this browser. Other forms contain the text of the key.
    let (text, id) = match (form.given("key"), form.given("id")) {
        (Some(typed), _) => {
            let text = request.key_in(typed);
            let Some(id) = delivery.identify(&text).await? else {
                forged(delivery, request.call).await?;
                return refused(request, (&text, None), &Error::UnknownKey).await;
            };
            (text, id)
        }
        (None, Some(name)) => match entered_key(request, name) {
            Some(entered) => (String::new(), entered.key),
            None => return not_kept(request),
        },
        (None, None) => return asked(request, "", context! { what => "missing" }),
    };
    admit(delivery, Policy::Product, Identity::Key(id.as_u128())).await?;
    if !(1..=255).contains(&request_id.len()) {
        return Err(ApiError::MALFORMED);
    }
    match fetch(request, id, request_id).await {
        Ok(opened) => Ok(lead_to(request, &opened)),
        Err(error) => refused(request, (&text, Some(id)), &error).await,
    }
}

async fn fetch(request: &PageRequest<'_>, id: KeyId, request_id: &str) -> Result<Opened, Error> {
    let delivery = request.delivery;
    let key = delivery.inner.ledger.find(id).await?.ok_or(Error::UnknownKey)?;
    delivery.open(id, key.product(), Some(RequestId::of(request_id.as_bytes()))).await
}

pub(super) async fn lost(mut request: PageRequest<'_>) -> Result<Reply, ApiError> {
    let form = request.form.take();
    let page = |typed: &str, fault: Option<Value>, is_sent: bool| {
        request.page("lost.html", context! { typed, fault, is_sent })
    };
    let Some(form) = form else { return page("", None, false) };
    let delivery = request.delivery;
    request.check_origin_if_any()?;
    admit(delivery, Policy::Resend, client(delivery, request.call)).await?;
    let typed = form.text("customer_email").trim();
    let Ok(email) = typed.parse() else {
        return page(typed, Some(context! { what => "address" }), false);
    };
    // Free the memory of the form before the store is queried, which may be slow.
    drop(form);
    delivery.ask_for_keys(&email).await?;
    page("", None, true)
}
