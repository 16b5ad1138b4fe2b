//! The list of keys, with search and filters.

use std::collections::BTreeSet;

use minijinja::{Value, context};

use super::change::newest_message;
use super::form::Form;
use super::frame::desk;
use super::lists::{Chosen, PAGE, choices, chosen, links, parameter, sources};
use super::shown::{PERIODS, all_names, key};
use super::{ApiError, PageRequest, SignedIn, can_import};
use crate::delivery::{Error, Recent};
use crate::http::Reply;
use crate::http::filters;
use crate::http::parameter::{BEFORE, OF_PRODUCT, SINCE, SOURCE, STATUS, UNTIL};
use crate::key::{KeyId, Status};
use crate::look::grouped;
use crate::order::OrderId;
use crate::store::{KeyQuery, MessageQuery, Page, or_none};

const STATUSES: &[(&str, &str)] =
    &[("valid", "valid"), ("expired", "expired"), ("exhausted", "used up"), ("revoked", "revoked")];

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    match &request.form {
        Some(form) if !form.text("do").is_empty() => several(&request, &seller, form).await,
        Some(form) => sought(&request, form).await,
        None => match parameter::<String>(&request, FOUND)? {
            Some(sealed) => found(&request, &seller, &sealed).await,
            None => listed(&request, &seller).await,
        },
    }
}

/// The period, in days, of the figures that [`counted`] requests. Only the number of keys is used, which does not
/// depend on the period. The overview requests the same period by default, so that both pages share the figures.
const COUNTED_DAYS: u32 = 2 * PERIODS[0].0;
const FILTERS: &[&str] = &[STATUS.name, OF_PRODUCT.name, SOURCE.name, SINCE.name, UNTIL.name, FOUND];

/// Revokes the keys that the seller has chosen, or sends them to their buyers again. If the seller has not confirmed
/// this yet, shows the confirmation page instead.
async fn several(request: &PageRequest<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, ApiError> {
    let ids: Result<BTreeSet<KeyId>, _> = form.all("id").map(str::parse).collect();
    let ids = ids.map_err(|_| ApiError::MALFORMED)?;
    if ids.is_empty() {
        return Ok(request.go_to("/desk/keys?done=none_chosen"));
    }
    let keys = if ids.len() == 1 { "this key".to_owned() } else { format!("these {} keys", ids.len()) };
    let (title, is_revoking) = match form.text("do") {
        "resend" => (format!("Send {keys} again"), false),
        "revoke" => (format!("Revoke {keys}"), true),
        _ => return Err(ApiError::MALFORMED),
    };
    if form.text("sure") != "yes" {
        let mut hidden: Vec<_> = ids.iter().map(|id| ("id", id.to_string())).collect();
        hidden.extend([("do", form.text("do").to_owned()), ("sure", "yes".to_owned())]);
        if !is_revoking {
            hidden.push(("newest", newest_of_all(request, seller).await?.to_string()));
        }
        let mut about = Vec::with_capacity(ids.len());
        for id in &ids {
            about.extend(request.delivery.key(*id).await?.map(|key| ("Buyer", key.email().to_string())));
        }
        let sentence = match (is_revoking, ids.len()) {
            (true, 1) => "The buyer can no longer use it. You can restore it later.",
            (true, _) => "Their buyers can no longer use them. You can restore each of them later.",
            (false, 1) => "A new e-mail is sent, unless the key is revoked.",
            (false, _) => "A new e-mail is sent for each of them that is not revoked.",
        };
        let values = context! {
            button => &title, title, sentence, hidden, about,
            fields => Vec::<Value>::new(), action => "/desk/keys", back => "/desk/keys", is_dangerous => is_revoking,
            ..desk(request, seller, "/desk/keys")
        };
        return request.page("confirm.html", values);
    }
    let seller_desk = request.delivery.desk(&seller.actor);
    let (mut is_any, mut left) = (false, false);
    // Handle only one form that sends e-mails again at a time. If the form is submitted twice, the second submission
    // finds the messages that the first one queued, and sends no further e-mail.
    let _turn = request.delivery.inner.adding.lock().await;
    let shown: Option<i64> = form.given("newest").and_then(|newest| newest.parse().ok());
    for id in ids {
        if let (Some(shown), false) = (shown, is_revoking)
            && newest_message(request, seller, id).await? > shown
        {
            is_any = true;
            continue;
        }
        let done = if is_revoking {
            seller_desk.revoke(id, None).await.map(drop)
        } else {
            seller_desk.resend(id, None).await.map(drop)
        };
        match done {
            Ok(()) => is_any = true,
            Err(Error::Refused { .. } | Error::UnknownKey) => left = true,
            Err(error) => return Err(error.into()),
        }
    }
    let done = match (is_any, is_revoking, left) {
        (false, ..) => "none_done",
        (true, true, _) => "all_revoked",
        (true, false, false) => "all_resent",
        (true, false, true) => "some_resent",
    };
    Ok(request.go_to(&format!("/desk/keys?done={done}")))
}

/// Returns the message number of the newest message in the outbox. Returns 0 if the store has no messages.
async fn newest_of_all(request: &PageRequest<'_>, seller: &SignedIn) -> Result<i64, ApiError> {
    let query = MessageQuery { limit: 1, ..MessageQuery::default() };
    let page = or_none(request.delivery.desk(&seller.actor).messages(&query).await)?;
    Ok(page.and_then(|page| page.items.into_iter().next()).map_or(0, |message| message.message.get()))
}

/// The query parameter with the search text. The text is encrypted, because it may be an e-mail address, and proxies
/// log URLs. The search form redirects to a URL with this parameter, so that the browser can go back to the results.
const FOUND: &str = "found";
/// The purpose for which the search text is encrypted. It can be decrypted only for the same purpose.
const SEARCH: &str = "desk: what a seller searches for";
/// The maximum number of characters of the search text. The rest is cut off. No e-mail address, order number or
/// reference is longer.
const LONGEST: usize = 300;

/// Redirects to the page of the key if the seller typed or pasted a key or its id. For any other text, redirects to the
/// search results.
async fn sought(request: &PageRequest<'_>, form: &Form) -> Result<Reply, ApiError> {
    let Some(typed) = form.given("q") else { return Ok(request.go_to("/desk/keys")) };
    let key = request.delivery.identify(&request.key_in(typed)).await?;
    if let Some(id) = key.or_else(|| typed.parse::<KeyId>().ok()) {
        return Ok(request.go_to(&format!("/desk/key?id={id}")));
    }
    let inner = &request.delivery.inner;
    let typed: String = typed.chars().take(LONGEST).collect();
    let sealed = inner.keyring.seal(SEARCH, &typed, &*inner.entropy);
    Ok(request.go_to(&format!("/desk/keys?{FOUND}={}", data_encoding::BASE64URL_NOPAD.encode(&sealed))))
}

/// Shows the results of a search. `sealed` is the encrypted search text: an e-mail address, an order number, or another
/// reference of a sale. If no key matches the text, shows the keys whose e-mail addresses begin with the text.
async fn found(request: &PageRequest<'_>, seller: &SignedIn, sealed: &str) -> Result<Reply, ApiError> {
    let bytes = data_encoding::BASE64URL_NOPAD.decode(sealed.as_bytes()).map_err(|_| ApiError::MALFORMED)?;
    let keyring = &request.delivery.inner.keyring;
    let typed = keyring.unseal(SEARCH, &bytes).ok_or(ApiError::MALFORMED)?.text;
    let typed = typed.as_str();
    let all = KeyQuery { before: parameter(request, BEFORE.name)?, limit: PAGE, ..KeyQuery::default() };
    let mut page = Page { items: Vec::new(), next: None };
    // Some order numbers look like e-mail addresses. So search for an e-mail address first, and for an order number if
    // no key has this address.
    if let Ok(email) = address(typed).parse() {
        page = request.delivery.keys(&KeyQuery { email: Some(email), ..all.clone() }).await?;
    }
    if let (Ok(order), true) = (typed.trim_start_matches('#').parse::<OrderId>(), page.items.is_empty()) {
        page = request.delivery.keys(&KeyQuery { order: Some(order.clone()), ..all.clone() }).await?;
        if page.items.is_empty() {
            page.items = request.delivery.keys_of_sale(&order).await?;
        }
    }
    let begin = address(typed);
    if page.items.is_empty() && !begin.is_empty() && !begin.contains(char::is_control) {
        page = request.delivery.keys(&KeyQuery { email_prefix: Some(begin.to_owned()), ..all }).await?;
    }
    let mut chosen = chosen(request, FILTERS)?;
    // A search ignores the filters, so the page does not keep their values.
    chosen.iter_mut().filter(|(name, _)| **name != FOUND).for_each(|(_, value)| value.clear());
    let links = links(request, "/desk/keys", &chosen, page.next.map(|next| next.to_string()), &[]);
    list(request, seller, &page, What { q: typed, label: "What was found, newest first".to_owned(), links, chosen })
        .await
}

/// Returns the address in a text such as `Ada <ada@example.com>` or `mailto:ada@example.com`, as mail programs
/// copy it. Returns any other text without the spaces around it.
fn address(typed: &str) -> &str {
    let inside = typed.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
    let address = inside.unwrap_or(typed).trim();
    address.strip_prefix("mailto:").unwrap_or(address)
}

async fn listed(request: &PageRequest<'_>, seller: &SignedIn) -> Result<Reply, ApiError> {
    let chosen = chosen(request, FILTERS)?;
    let filters = filters::keys(request.delivery, request.call)?;
    let query = KeyQuery { before: parameter(request, BEFORE.name)?, limit: PAGE, ..filters };
    let page = request.delivery.keys(&query).await?;
    let count = match (&page.next, query.before) {
        (None, None) => Some(page.items.len() as u64),
        // Ignore a count that is lower than the number of keys that are known to be in the list. Keys may have been
        // issued since the count.
        _ => counted(request, &chosen, &query)
            .await
            .filter(|count| *count >= (page.items.len() + usize::from(page.next.is_some())) as u64),
    };
    let label = match count {
        Some(1) => "1 key".to_owned(),
        Some(count) => format!("{} keys, newest first", grouped(&count.to_string())),
        None => "Keys, newest first".to_owned(),
    };
    let next = page.next.map(|next| next.to_string());
    let tables = [("keys", "Download the keys as CSV"), ("uses", "Download their uses as CSV")];
    let links = links(request, "/desk/keys", &chosen, next, &tables);
    list(request, seller, &page, What { q: "", label, links, chosen }).await
}

/// Returns the number of keys in a list, from figures that are counted at most once a minute. Returns `None` if there
/// are no figures, or if a filter other than the status and the product is used.
async fn counted(request: &PageRequest<'_>, chosen: &Chosen, query: &KeyQuery) -> Option<u64> {
    const COUNTED: [&str; 2] = [STATUS.name, OF_PRODUCT.name];
    if chosen.iter().any(|(name, value)| !value.is_empty() && !COUNTED.contains(name)) {
        return None;
    }
    let Recent::Known(_, figures) = request.delivery.recent_figures(COUNTED_DAYS).await else { return None };
    let is_listed = |product, status| {
        query.product.is_none_or(|of| of == product) && query.status.is_none_or(|(with, _)| with == status)
    };
    let listed = figures.keys.iter().filter(|(product, status, _)| is_listed(*product, *status));
    let replaced = figures.replaced.iter().filter(|(product, _)| is_listed(*product, Status::Revoked));
    Some(listed.map(|(.., keys)| keys).sum::<u64>() + replaced.map(|(_, keys)| keys).sum::<u64>())
}

struct What<'t> {
    q: &'t str,
    label: String,
    /// The links below the list.
    links: Value,
    /// The chosen values of the filters.
    chosen: Chosen,
}

async fn list(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    page: &Page<crate::key::Key, KeyId>,
    what: What<'_>,
) -> Result<Reply, ApiError> {
    let (names, now) = (all_names(request.delivery, &page.items).await?, request.delivery.inner.clock.now());
    let What { q, label, links, chosen } = what;
    request.page_with_script(
        "keys.html",
        context! {
            keys => page.items.iter().map(|it| key(it, now, &names)).collect::<Vec<_>>(),
            q, label,
            sources => sources(request.delivery, &chosen, SOURCE.name),
            filters => Value::from(chosen),
            statuses => STATUSES.to_vec(),
            products => choices(&names),
            links,
            imports => can_import(request.delivery),
            ..desk(request, seller, "/desk/keys")
        },
    )
}
