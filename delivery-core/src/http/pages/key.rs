//! The page of one key: its state, its history, and the actions for it.

use minijinja::{Value, context};

use super::frame::desk;
use super::lists::parameter;
use super::shown::{all_names, entry, key, message, subscription, time};
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::KeyHistory;
use crate::http::Reply;
use crate::key::{Key, KeyId, Status};
use crate::ledger::Action;
use crate::store::{AuditEntry, AuditQuery, KeyQuery, or_none};

/// The maximum number of other keys of the same address that are shown.
const OTHERS: usize = 10;

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let id = parameter(&request, "id")?.ok_or(ApiError::NOT_FOUND)?;
    page(&request, &seller, id, None).await
}

/// Renders the page of a key. `text` is given only right after the key was issued. Its first part is `"replaced"` if
/// the key replaces another one, and `"issued"` otherwise. Its second part is the text of the key, which is shown only
/// this once.
pub(super) async fn page(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    id: KeyId,
    text: Option<(&str, &str)>,
) -> Result<Reply, ApiError> {
    let (delivery, now) = (request.delivery, request.delivery.inner.clock.now());
    let history = delivery.desk(&seller.actor).key_history(id).await?.ok_or(ApiError::NOT_FOUND)?;
    let KeyHistory { key: found, subscribed, total, denied, uses, messages, audit } = history;
    let references = delivery.references_of(&found).await?;
    let references: Vec<_> = references.into_iter().map(|(kind, name)| (kind.as_str(), name)).collect();
    // This entry is the oldest one about the key, so it may not be among the newest ones.
    let issued = AuditQuery { key: Some(id), action: Some(Action::Issued), limit: 1, ..AuditQuery::default() };
    let issued = or_none(delivery.desk(&seller.actor).audit(&issued).await)?;
    let issued = issued.and_then(|page| page.items.into_iter().next()?.detail);
    let predecessor = issued.as_deref().and_then(|detail| detail.strip_prefix("in place of "));
    let reaches_nobody = delivery.inner.outbox.mailer.reaches_nobody();
    let product = delivery.product(found.product()).await?;
    let names = product.iter().map(|product| (product.id(), product.name().to_owned())).collect();
    let same = KeyQuery { email: Some(found.email().clone()), limit: OTHERS + 1, ..KeyQuery::default() };
    let same: Vec<Key> = delivery.keys(&same).await?.items;
    let others = same.iter().filter(|other| other.id() != id).take(OTHERS);
    let others: Vec<Value> = match others.clone().next() {
        Some(_) => {
            let names = all_names(delivery, &same).await?;
            others.map(|other| key(other, now, &names)).collect()
        }
        None => Vec::new(),
    };
    request.page_with_script(
        "the_key.html",
        context! {
            key => key(&found, now, &names),
            denied => denied.map(|denied| denied.to_string()),
            subscription => subscribed.as_ref().map(subscription),
            text => text.map(|(how, text)| context! { how, text }),
            predecessor, others, references, total => total.map(|total| total.to_string()),
            actions => actions(&found, found.status(now), request.look.has_buyer()),
            uses => uses.iter().map(|it| time(it.at)).collect::<Vec<Value>>(),
            messages => messages.iter().map(|it| message(it, reaches_nobody)).collect::<Vec<_>>(),
            audit => changes(&found, &audit),
            ..desk(request, seller, "/desk/keys")
        },
    )
}

/// Returns the template values of the audit entries of a key, newest first. An entry for a change of the e-mail address
/// contains only the old address. The new address is the old address in the next later entry of this kind. If there is
/// no such entry, the new address is the current address of the key.
fn changes(key: &Key, entries: &[AuditEntry]) -> Vec<Value> {
    let mut address = key.email().as_str();
    let mut shown = Vec::with_capacity(entries.len());
    for it in entries {
        shown.push(match it.old_email() {
            Some(old) => {
                let detail = format!("from {old} to {address}");
                address = old;
                context! { detail, ..entry(it) }
            }
            None => entry(it),
        });
    }
    shown
}

/// Returns the actions that are possible for a key with this status: the name and the label of each. `has_page` is
/// whether the buyer's page is served.
fn actions(key: &Key, status: Status, has_page: bool) -> Vec<(&'static str, &'static str)> {
    if key.successor().is_some() {
        return Vec::new();
    }
    let mut actions = Vec::new();
    if status == Status::Revoked {
        actions.push(("restore", "Restore it"));
    } else {
        actions.push(("resend", "Send again, or correct the address"));
        actions.push(("terms", "Change its terms"));
        actions.push(("rotate", "Replace it"));
        if has_page && status == Status::Valid {
            actions.push(("open", "Open as a buyer"));
        }
        actions.push(("revoke", "Revoke it"));
    }
    actions
}
