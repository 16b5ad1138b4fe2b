//! Parses the filters of the seller's lists. The API, the exports and the seller's pages have the same filters. The
//! function for each list returns a query for the first page.

use std::sync::LazyLock;

use super::Call;
use super::fields::Fault;
use super::parameter::{self, Parameter};
use crate::clock::instant;
use crate::delivery::Delivery;
use crate::key::{Actor, Status};
use crate::language::Language;
use crate::ledger::MessageKind;
use crate::mail::named;
use crate::product::ProductId;
use crate::store::{AuditQuery, InboxQuery, KeyQuery, MessageQuery, Period};
use crate::text::Invalid;

pub(super) fn keys(delivery: &Delivery, call: &Call) -> Result<KeyQuery, Fault> {
    let product = parameter::OF_PRODUCT.integer(call, ProductId::new)?;
    let status = parameter::STATUS.parsed::<Status>(call)?;
    let prefix = parameter::EMAIL_PREFIX.text(call)?;
    if prefix.as_ref().is_some_and(|prefix| prefix.chars().count() > parameter::LONGEST_PREFIX) {
        return Err(Fault::malformed(parameter::EMAIL_PREFIX.name, parameter::EXPECTED_PREFIX));
    }
    Ok(KeyQuery {
        email: parameter::EMAIL.parsed(call)?,
        email_prefix: prefix.map(Into::into),
        order: parameter::ORDER_ID.parsed(call)?,
        source: parameter::SOURCE.parsed(call)?,
        product,
        status: status.map(|status| (status, delivery.inner.clock.now())),
        period: period(call)?,
        ..KeyQuery::default()
    })
}

pub(super) fn audit(call: &Call) -> Result<AuditQuery, Fault> {
    let actor = parameter::ACTOR.text(call)?.map(|name| Actor::from_stored(&name)).transpose();
    let actor = actor.map_err(|expected| Fault::malformed(parameter::ACTOR.name, expected));
    Ok(AuditQuery {
        key: parameter::OF_KEY.parsed(call)?,
        actor: actor?,
        action: parameter::ACTION.parsed(call)?,
        period: period(call)?,
        ..AuditQuery::default()
    })
}

pub(super) fn inbox(call: &Call) -> Result<InboxQuery, Fault> {
    Ok(InboxQuery {
        outcome: parameter::OUTCOME.parsed(call)?,
        source: parameter::PLATFORM.parsed(call)?,
        period: period(call)?,
        ..InboxQuery::default()
    })
}

pub(super) fn messages(call: &Call) -> Result<MessageQuery, Fault> {
    Ok(MessageQuery {
        state: parameter::STATE.parsed(call)?,
        key: parameter::OF_KEY.parsed(call)?,
        period: period(call)?,
        ..MessageQuery::default()
    })
}

/// Returns the kind and the language of an e-mail to preview. The default of the kind is `purchase`.
pub(super) fn email(call: &Call) -> Result<(MessageKind, Option<Language>), Fault> {
    static EXPECTED: LazyLock<String> = LazyLock::new(|| {
        let names: Vec<&str> = named().map(MessageKind::as_str).collect();
        let (others, last) = names.split_at(names.len().saturating_sub(1));
        format!("must be {} or {}", others.join(", "), last.concat())
    });
    let kind = parameter::EMAIL_KIND.text(call)?;
    let kind = kind.as_deref().unwrap_or(MessageKind::Purchase.as_str());
    let kind = named().find(|known| known.as_str() == kind);
    let unknown = || Fault::malformed(parameter::EMAIL_KIND.name, Invalid::expected(&EXPECTED));
    Ok((kind.ok_or_else(unknown)?, parameter::LANGUAGE.parsed(call)?))
}

/// Returns the period in the parameters `since` and `until`. If `until` is a date, the period includes the whole day.
fn period(call: &Call) -> Result<Period, Fault> {
    let instant = |parameter: Parameter, days| {
        let Some(text) = parameter.text(call)? else { return Ok(None) };
        instant(&text, days).map(Some).map_err(|expected| Fault::malformed(parameter.name, expected))
    };
    Ok(Period { since: instant(parameter::SINCE, 0)?, until: instant(parameter::UNTIL, 1)? })
}
