//! The form where a buyer enters a key, and what it says about a key that cannot be used.

use minijinja::{Value, context};

use super::opening::open_until;
use super::shown::{day, time};
use super::{ApiError, PageRequest};
use crate::delivery::Error;
use crate::http::Reply;
use crate::key::{KeyId, Refusal};

/// Renders the form where the buyer enters a key.
pub(super) fn asked(visit: &PageRequest<'_>, key: &str, fault: Option<&str>) -> Result<Reply, ApiError> {
    let opened = visit.delivery.verify(key).and_then(|id| opened(visit, id));
    let prefix = visit.delivery.inner.keyring.prefix();
    let can_ask = visit.delivery.inner.ledger.office().is_some();
    visit.page_with_script("key_form.html", context! { key, fault, prefix, can_ask, opened })
}

/// Returns the template values of what this browser has opened with a key, if it still shows it.
pub(super) fn opened(visit: &PageRequest<'_>, key: KeyId) -> Option<Value> {
    let (page, until) = open_until(visit, key)?;
    Some(context! { page, until => time(until) })
}

/// Renders the form for a key with a message that tells the buyer why the key cannot be used.
pub(super) fn refused(visit: &PageRequest<'_>, text: &str, error: &Error) -> Result<Reply, ApiError> {
    let write = match visit.look.support_address() {
        Some(address) => format!("write to {address}"),
        None => "write to the shop".to_owned(),
    };
    let fault = match error {
        Error::RevokedKey => withdrawn(&write),
        // It is safe to reveal that the key exists. Its text is authentic, so the sender did not guess it.
        Error::UnknownKey if visit.delivery.verify(text).is_some() => withdrawn(&write),
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

fn withdrawn(write: &str) -> String {
    format!(
        "This key was withdrawn: it was refunded, or a newer key took its place. Look for a newer e-mail, or {write}."
    )
}
