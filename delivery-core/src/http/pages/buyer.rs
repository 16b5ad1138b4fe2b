//! The pages for buyers. They show the state of a key and the product, and a form to request lost keys.

use minijinja::{Value, context};

use super::form::Form;
use super::key_form::{asked, opened, refused};
use super::lists::parameter;
use super::opening::{asked_about, lead_to, lead_to_state};
use super::shown::end;
use super::{Answering, ApiError, PageRequest};
use crate::delivery::{Error, Opened};
use crate::http::Reply;
use crate::http::limits::{admit, client, forged};
use crate::key::{Key, KeyId};
use crate::ledger::RequestId;
use crate::limit::{Identity, Policy};

pub(super) fn show(visit: PageRequest<'_>) -> Answering<'_> {
    Box::pin(async move {
        let Some(form) = &visit.form else { return shown_again(&visit).await };
        match form.text("do") {
            "open" => open(&visit, form).await,
            _ => shown(&visit, form).await,
        }
    })
}

/// Leads to the page with the state of a key, or says why the key cannot be used. This does not count a use of the key.
/// The request counts against the same rate limit as `/api/validate`.
async fn shown(visit: &PageRequest<'_>, form: &Form) -> Result<Reply, ApiError> {
    let delivery = visit.delivery;
    admit(delivery, Policy::Validate, client(delivery, visit.call)).await?;
    let Some(typed) = form.given("key") else { return asked(visit, "", context! { what => "missing" }) };
    let text = &visit.key_in(typed);
    let id = delivery.verify(text);
    let checked = match id {
        Some(id) => delivery.check(id).await,
        None => Err(Error::UnknownKey),
    };
    match checked {
        Ok(key) => Ok(lead_to_state(visit, &key)),
        Err(error) => refused(visit, (text, id), &error).await,
    }
}

/// Shows the state of the key about which the browser has asked: for which product it is, and how many uses remain. Without
/// such a key, shows the form that asks for one.
async fn shown_again(visit: &PageRequest<'_>) -> Result<Reply, ApiError> {
    let name: Option<String> = parameter(visit, "id")?;
    let Some(id) = name.and_then(|name| asked_about(visit, &name)) else { return asked(visit, "", Value::from(())) };
    admit(visit.delivery, Policy::Files, Identity::Key(id.as_u128())).await?;
    match visit.delivery.check(id).await {
        Ok(key) => {
            let text = visit.delivery.inner.keyring.text(id, key.granted().secret);
            key_page(visit, text.expose(), &key).await
        }
        Err(error) => refused(visit, ("", Some(id)), &error).await,
    }
}

async fn key_page(visit: &PageRequest<'_>, text: &str, key: &Key) -> Result<Reply, ApiError> {
    let product = visit.delivery.product(key.product()).await?;
    let Some(product) = product else { return refused(visit, (text, None), &Error::UnknownProduct).await };
    // The form contains a random request id, so that submitting the form twice counts only one use.
    let mut random = [0; 18];
    visit.delivery.inner.entropy.fill(&mut random);
    let request = data_encoding::BASE64URL_NOPAD.encode(&random);
    let values = context! {
        key => text, left => key.remaining(), request,
        product => context! { name => product.name(), description => product.description() },
        expires_at => end(key.expires_at()), opened => opened(visit, key.id()),
    };
    visit.page_about(Some(&product), "key.html", values)
}

/// Counts a use of the key, and leads to the page that [shows the product](super::opened). If the same form is submitted
/// again, no further use is counted, provided that [`Delivery::fetch_once`](crate::Delivery::fetch_once) recognizes the
/// repetition.
async fn open(visit: &PageRequest<'_>, form: &Form) -> Result<Reply, ApiError> {
    let delivery = visit.delivery;
    let Some(typed) = form.given("key") else { return asked(visit, "", context! { what => "missing" }) };
    let (text, request) = (visit.key_in(typed), form.text("request"));
    let Some(id) = delivery.verify(&text) else {
        forged(delivery, visit.call).await?;
        return refused(visit, (&text, None), &Error::UnknownKey).await;
    };
    admit(delivery, Policy::Product, Identity::Key(id.as_u128())).await?;
    if !(1..=255).contains(&request.len()) {
        return Err(ApiError::MALFORMED);
    }
    match fetch(visit, id, request).await {
        Ok(opened) => Ok(lead_to(visit, &opened)),
        Err(error) => refused(visit, (&text, Some(id)), &error).await,
    }
}

async fn fetch(visit: &PageRequest<'_>, id: KeyId, request: &str) -> Result<Opened, Error> {
    let delivery = visit.delivery;
    let key = delivery.inner.ledger.find(id).await?.ok_or(Error::UnknownKey)?;
    delivery.open(id, key.product(), Some(RequestId::of(request.as_bytes()))).await
}

pub(super) fn lost(mut visit: PageRequest<'_>) -> Answering<'_> {
    Box::pin(async move {
        let form = visit.form.take();
        let page = |typed: &str, fault: Option<Value>, is_sent: bool| {
            visit.page("lost.html", context! { typed, fault, is_sent })
        };
        let Some(form) = form else { return page("", None, false) };
        let delivery = visit.delivery;
        visit.check_origin_if_any()?;
        admit(delivery, Policy::Resend, client(delivery, visit.call)).await?;
        let typed = form.text("customer_email").trim();
        let Ok(email) = typed.parse() else {
            return page(typed, Some(context! { what => "address" }), false);
        };
        // Free the memory of the form before the store is queried, which may be slow.
        drop(form);
        delivery.ask_for_keys(&email).await?;
        page("", None, true)
    })
}
