//! The seller's actions on a key, each with a confirmation page.

use std::str::FromStr;

use chrono::{DateTime, NaiveDate, Utc};
use minijinja::{Value, context};

use super::form::{self, Form, FormError, Undone};
use super::frame::desk;
use super::lists::parameter;
use super::shown::{day, status};
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::{Error, Expiry};
use crate::http::{Reply, query};
use crate::key::{Key, KeyId, LimitChange, Refusal};
use crate::store::{MessageQuery, or_none};
use crate::terms::{UseLimit, Uses};

#[derive(Debug, Clone, Copy)]
enum Action {
    Revoke,
    Restore,
    Resend,
    Terms,
    Rotate,
    /// Shows the seller what the buyer sees, without counting a use.
    Open,
}

impl FromStr for Action {
    type Err = ApiError;

    fn from_str(name: &str) -> Result<Self, ApiError> {
        Ok(match name {
            "revoke" => Self::Revoke,
            "restore" => Self::Restore,
            "resend" => Self::Resend,
            "terms" => Self::Terms,
            "rotate" => Self::Rotate,
            "open" => Self::Open,
            _ => return Err(ApiError::NOT_FOUND),
        })
    }
}

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let (id, action): (Option<KeyId>, Action) = if let Some(form) = &request.form {
        (form.text("id").parse().ok(), form.text("do").parse()?)
    } else {
        let action = query::parameter(request.call, "do").map_err(|_| ApiError::MALFORMED)?;
        (parameter(&request, "id")?, action.as_deref().unwrap_or_default().parse()?)
    };
    let id = id.ok_or(ApiError::NOT_FOUND)?;
    let found = request.delivery.key(id).await?.ok_or(ApiError::NOT_FOUND)?;
    match &request.form {
        None => confirm(&request, &seller, (&found, action), None).await,
        Some(form) => match done(&request, &seller, (&found, action), form).await {
            Ok(reply) => Ok(reply),
            Err(Undone::Said(fault)) => confirm(&request, &seller, (&found, action), Some((form, &fault))).await,
            Err(Undone::ApiError(error)) => Err(error),
        },
    }
}

/// Converts an error into a message that tells the seller why the key cannot be changed. Errors without such a message
/// become an error page.
fn refused(error: Error) -> Undone {
    let said = |text: &str| FormError::new("", text).into();
    match error {
        Error::UnknownKey | Error::UnknownProduct => ApiError::NOT_FOUND.into(),
        Error::Refused { refusal: Refusal::NoLimit, .. } => said("This key has no limit to add to."),
        Error::Refused { refusal: Refusal::NoAddress, .. } => said("The buyer was forgotten: say an address."),
        Error::Refused { refusal: Refusal::Replaced { .. }, .. } => said("Another key took the place of this one."),
        Error::Refused { refusal: Refusal::Revoked { .. }, .. } => said("This key is revoked."),
        Error::Refused { refusal: Refusal::Expired { .. }, .. } => said("This key has expired."),
        Error::Refused { refusal: Refusal::Exhausted { .. }, .. } => said("This key is used up."),
        Error::Refused { refusal: Refusal::Denied(denied), .. } => said(denied.sentence()),
        error => error.into(),
    }
}

async fn done(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    (key, action): (&Key, Action),
    form: &Form,
) -> Result<Reply, Undone> {
    let id = key.id();
    let seller_desk = request.delivery.desk(&seller.actor);
    let done = match action {
        Action::Revoke => {
            let reason = form.given("reason").map(str::parse).transpose();
            seller_desk.revoke(id, reason.map_err(FormError::of("reason", "The reason"))?).await.map_err(refused)?;
            "revoked"
        }
        Action::Restore => {
            seller_desk.restore(id).await.map_err(refused)?;
            "restored"
        }
        Action::Resend => {
            let email = form.given("email").map(str::parse).transpose();
            let email = email.map_err(FormError::of("email", "The address"))?;
            // Handle only one form that sends e-mails again at a time. If the form is submitted twice, the second
            // submission finds the e-mail that the first one queued, and sends no e-mail. A form with a new address
            // always sends an e-mail.
            let _turn = request.delivery.inner.adding.lock().await;
            let key = request.delivery.key(id).await?.ok_or(ApiError::NOT_FOUND)?;
            let is_new = email.as_ref().is_some_and(|email| email != key.email());
            let shown = form.given("newest").and_then(|shown| shown.parse().ok());
            if is_new || newest_message(request, seller, id).await? <= shown.unwrap_or(i64::MAX) {
                seller_desk.resend(id, email).await.map_err(refused)?;
            }
            "resent"
        }
        Action::Terms => {
            let (expiry, limit) = terms(form, key)?;
            if expiry.is_none() && limit.is_none() {
                return Err(FormError::new("until", "Say what is to change: all three fields are empty.").into());
            }
            seller_desk.set_terms(id, expiry, limit).await.map_err(refused)?;
            "changed"
        }
        Action::Open => {
            let opened = request.delivery.look(id, key.product()).await.map_err(refused)?;
            return Ok(super::opening::lead_to(request, &opened));
        }
        Action::Rotate => {
            let issued = seller_desk.rotate(id).await.map_err(refused)?;
            let text = issued.text.expose();
            return Ok(super::key::page(request, seller, issued.key.id(), Some(("replaced", text))).await?);
        }
    };
    Ok(request.go_to(&format!("/desk/key?id={id}&done={done}")))
}

/// Reads the new expiry and the new use limit of a key from a form. Returns `None` for a field that was left empty:
/// that value of the key stays as it is.
fn terms(form: &Form, key: &Key) -> Result<(Option<Expiry>, Option<LimitChange>), Undone> {
    let said = |field, text: &str| FormError::new(field, text);
    let expiry = match form.given("until") {
        None => None,
        Some("never") => Some(Expiry::At(crate::terms::NEVER)),
        Some(date) => {
            // The key is valid until the end of the given day, in UTC.
            let day = NaiveDate::from_str(date).ok().and_then(|day| day.and_hms_opt(23, 59, 59));
            let writable = DateTime::UNIX_EPOCH..crate::terms::NEVER;
            let at: Option<DateTime<Utc>> = day.map(|day| day.and_utc()).filter(|at| writable.contains(at));
            Some(Expiry::At(at.ok_or_else(|| said("until", "The day must be such as 2027-01-31, or the word never."))?))
        }
    };
    let limit = match (form.given("max_uses"), form.given("add_uses")) {
        (None, None) => None,
        (Some(_), Some(_)) => {
            return Err(said("add_uses", "Say either how often it can be used in all, or how often more.").into());
        }
        (Some(text), None) => {
            let limit = text.parse().ok().and_then(|count| UseLimit::from_count(count).ok());
            let limit =
                limit.ok_or_else(|| said("max_uses", "The uses must be a number of 1 or more, or -1 for no limit."))?;
            Some(LimitChange::Set(limit))
        }
        (None, Some(text)) => {
            let Some(UseLimit::Uses(more)) = text.parse().ok().and_then(|count| UseLimit::from_count(count).ok())
            else {
                return Err(said("add_uses", "The further uses must be a number of 1 or more.").into());
            };
            Some(further(form, key, more)?)
        }
    };
    Ok((expiry, limit))
}

/// Returns the change that adds `more` uses to the limit of a key. The uses are added to the limit that the form
/// showed, so submitting the form twice adds them only once. It is an error if the limit has changed in another way
/// since the form was shown.
fn further(form: &Form, key: &Key, more: Uses) -> Result<LimitChange, Undone> {
    let said = |text: &str| FormError::new("add_uses", text);
    let (now, shown) = (key.limit(), form.given("limit").and_then(|shown| shown.parse().ok()));
    let shown = shown.map_or(Ok(now), UseLimit::from_count).map_err(|_| ApiError::MALFORMED)?;
    let change = if shown == UseLimit::Unlimited {
        // If the key still has no limit, `set_terms` refuses this change with an error for the seller.
        LimitChange::Add(more)
    } else {
        let sum = UseLimit::from_count(shown.as_count().saturating_add(UseLimit::Uses(more).as_count()));
        LimitChange::Set(sum.map_err(|_| said("These are more uses than a key can have."))?)
    };
    if now == shown || change == LimitChange::Set(now) {
        Ok(change)
    } else {
        Err(said("The limit was changed meanwhile. Look at the key again.").into())
    }
}

/// How many of a key's newest messages are searched for an e-mail that delivers the key.
const NEWEST: usize = 50;

/// Returns the message number of the newest e-mail that delivers a key. Returns 0 if there is no such e-mail.
pub(super) async fn newest_message(request: &PageRequest<'_>, seller: &SignedIn, key: KeyId) -> Result<i64, ApiError> {
    let query = MessageQuery { key: Some(key), limit: NEWEST, ..MessageQuery::default() };
    let page = or_none(request.delivery.desk(&seller.actor).messages(&query).await)?;
    let newest = page.and_then(|page| page.items.into_iter().find(|message| message.kind.brings_key()));
    Ok(newest.map_or(0, |message| message.message.get()))
}

async fn confirm(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    (key, action): (&Key, Action),
    fault: Option<(&Form, &FormError)>,
) -> Result<Reply, ApiError> {
    let field = |name, label, hint, kind| {
        let value = fault.map_or("", |(form, _)| form.text(name));
        context! { name, label, hint, kind, value, required => false }
    };
    let (name, title, sentence, button, fields): (_, _, _, _, Vec<Value>) = match action {
        Action::Revoke => (
            "revoke",
            "Revoke this key",
            "The buyer can no longer use it. You can restore it later.",
            "Revoke the key",
            vec![field("reason", "Reason", "For your own records; the buyer does not see it.", "text")],
        ),
        Action::Restore => {
            ("restore", "Restore this key", "The buyer can use it again at once.", "Restore the key", Vec::new())
        }
        Action::Resend => (
            "resend",
            "Send the key again",
            "A new e-mail is sent. If you type another address, the key belongs to that address from now on.",
            "Send the e-mail",
            vec![field("email", "Another address", "Empty: the one above.", "email")],
        ),
        Action::Terms => (
            "terms",
            "Change the terms",
            "What you leave empty stays as it is.",
            "Change the key",
            vec![
                field("until", "Valid until the end of", "A day in UTC such as 2027-01-31, or never.", "text"),
                field("max_uses", "Uses in all", "1 or more, or -1 for no limit.", "text"),
                field("add_uses", "Or further uses", "Added to the limit that it has.", "text"),
            ],
        ),
        Action::Open => {
            ("open", "Open as a buyer", "You see what the buyer sees. This counts no use.", "Open", Vec::new())
        }
        Action::Rotate => (
            "rotate",
            "Replace this key",
            "It stops working for good. The buyer is sent a new key with the remaining uses and the same end date.",
            "Replace the key",
            Vec::new(),
        ),
    };
    let newest = match action {
        Action::Resend => newest_message(request, seller, key.id()).await?.to_string(),
        _ => String::new(),
    };
    let now = request.delivery.inner.clock.now();
    let about = [
        ("Buyer", key.email().to_string()),
        ("Status", status(key.status(now)).to_owned()),
        (
            "Valid until",
            if key.expires_at() < crate::terms::NEVER { day(key.expires_at()) } else { "no end date".to_owned() },
        ),
        ("Uses", super::shown::uses(key)),
        ("Key", key.id().to_string()),
    ];
    let values = context! {
        title, sentence, button, fields, about,
        action => "/desk/key/change",
        hidden => [
            ("id", key.id().to_string()), ("do", name.to_owned()), ("limit", key.limit().as_count().to_string()),
            ("newest", newest),
        ],
        back => format!("/desk/key?id={}", key.id()),
        is_dangerous => matches!(action, Action::Revoke | Action::Rotate),
        ..form::said(fault.map(|(_, fault)| fault), desk(request, seller, "/desk/keys"))
    };
    request.page("confirm.html", values)
}
