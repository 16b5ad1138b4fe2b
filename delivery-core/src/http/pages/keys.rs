//! The list of keys, with search and filters.

use minijinja::{Value, context};

use super::form::Form;
use super::shown::{PAGE, all_names, choices, desk, key, links, parameter, product_id};
use super::{Answering, ApiError, PageRequest, SignedIn};
use crate::delivery::Error;
use crate::http::{Reply, query};
use crate::key::{KeyId, Status};
use crate::order::{OrderId, Source};
use crate::store::{KeyQuery, Page};

const STATUSES: &[(&str, &str)] =
    &[("valid", "valid"), ("expired", "expired"), ("exhausted", "used up"), ("revoked", "revoked")];

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        match &visit.form {
            Some(form) if !form.text("do").is_empty() => several(&visit, &seller, form).await,
            Some(form) => found(&visit, &seller, form).await,
            None => listed(&visit, &seller).await,
        }
    })
}

/// Sends or revokes the keys that the seller has chosen, after a confirmation.
async fn several(visit: &PageRequest<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, ApiError> {
    let ids: Result<Vec<KeyId>, _> = form.all("id").map(str::parse).collect();
    let ids = ids.map_err(|_| ApiError::MALFORMED)?;
    if ids.is_empty() {
        return Ok(visit.go_to("/desk/keys?done=none_chosen"));
    }
    let (does, is_revoking) = match form.text("do") {
        "resend" => ("Send again", false),
        "revoke" => ("Revoke", true),
        _ => return Err(ApiError::MALFORMED),
    };
    let count = if ids.len() == 1 { "this key".to_owned() } else { format!("these {} keys", ids.len()) };
    if form.text("sure") != "yes" {
        let mut hidden: Vec<_> = ids.iter().map(|id| ("id", id.to_string())).collect();
        hidden.extend([("do", form.text("do").to_owned()), ("sure", "yes".to_owned())]);
        let mut about = Vec::with_capacity(ids.len());
        for id in &ids {
            about.extend(visit.delivery.key(*id).await?.map(|key| ("Buyer", key.email().to_string())));
        }
        let sentence = if is_revoking {
            "Their buyers can no longer use them. You can restore each of them later."
        } else {
            "A new e-mail is sent for each of them that is not revoked."
        };
        let values = context! {
            title => format!("{does} {count}"), button => format!("{does} {count}"), sentence, hidden, about,
            fields => Vec::<Value>::new(), action => "/desk/keys", back => "/desk/keys", is_dangerous => is_revoking,
            ..desk(visit, seller, "/desk/keys")
        };
        return visit.page("confirm.html", values);
    }
    let seller_desk = visit.delivery.desk(&seller.actor);
    let mut left = false;
    for id in ids {
        let done = if is_revoking {
            seller_desk.revoke(id, None).await.map(drop)
        } else {
            seller_desk.resend(id, None).await.map(drop)
        };
        match done {
            Ok(()) => {}
            Err(Error::Refused { .. } | Error::UnknownKey) => left = true,
            Err(error) => return Err(error.into()),
        }
    }
    let done = match (is_revoking, left) {
        (true, _) => "all_revoked",
        (false, false) => "all_resent",
        (false, true) => "some_resent",
    };
    Ok(visit.go_to(&format!("/desk/keys?done={done}")))
}

/// Searches for what the seller typed. If it is the text or the id of a key, or has a key in it as a link does, the reply redirects
/// to the page of the key. If it is an e-mail address, an order number, or another reference of a sale, the reply is a list of keys.
async fn found(visit: &PageRequest<'_>, seller: &SignedIn, form: &Form) -> Result<Reply, ApiError> {
    let Some(typed) = form.given("q") else { return Ok(visit.go_to("/desk/keys")) };
    if let Some(id) = visit.delivery.verify(&visit.key_in(typed)).or_else(|| typed.parse::<KeyId>().ok()) {
        return Ok(visit.go_to(&format!("/desk/key?id={id}")));
    }
    let before = form.given("before").map(str::parse).transpose().map_err(|_| ApiError::MALFORMED)?;
    let all = KeyQuery { before, limit: PAGE, ..KeyQuery::default() };
    let mut page = Page { items: Vec::new(), next: None };
    // Some order numbers look like e-mail addresses. So search for an e-mail address first, and for an order number if
    // no key has this address.
    if let Ok(email) = address(typed).parse() {
        page = visit.delivery.keys(&KeyQuery { email: Some(email), ..all.clone() }).await?;
    }
    if let (Ok(order), true) = (typed.trim_start_matches('#').parse::<OrderId>(), page.items.is_empty()) {
        page = visit.delivery.keys(&KeyQuery { order: Some(order.clone()), ..all }).await?;
        if page.items.is_empty() {
            page.items = visit.delivery.keys_of_sale(&order).await?;
        }
    }
    let more = page.next.map(|next| next.to_string());
    let what = What {
        q: typed,
        label: "What was found, newest first",
        more,
        links: Value::from(()),
        filters: Filters::default(),
    };
    list(visit, seller, &page, what).await
}

/// Returns the address in `Ada <ada@example.com>`, as mail programs copy it.
fn address(typed: &str) -> &str {
    let inside = typed.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
    let address = inside.unwrap_or(typed).trim();
    address.strip_prefix("mailto:").unwrap_or(address)
}

async fn listed(visit: &PageRequest<'_>, seller: &SignedIn) -> Result<Reply, ApiError> {
    let text = |name| query::parameter(visit.call, name).map_err(|_| ApiError::MALFORMED);
    let filters = Filters {
        status: text("status")?.unwrap_or_default().into_owned(),
        product_id: product_id(visit, "product_id")?.map(|id| id.to_string()).unwrap_or_default(),
        source: text("source")?.unwrap_or_default().trim().to_owned(),
    };
    let status = Some(filters.status.as_str()).filter(|status| !status.is_empty()).map(str::parse::<Status>);
    let source = Some(filters.source.as_str()).filter(|source| !source.is_empty()).map(str::parse);
    let query = KeyQuery {
        product: product_id(visit, "product_id")?,
        source: source.transpose().map_err(|_| ApiError::MALFORMED)?,
        status: status
            .transpose()
            .map_err(|_| ApiError::MALFORMED)?
            .map(|status| (status, visit.delivery.inner.clock.now())),
        before: parameter(visit, "before")?,
        limit: PAGE,
        ..KeyQuery::default()
    };
    let page = visit.delivery.keys(&query).await?;
    let pairs = [
        ("status", filters.status.as_str()),
        ("product_id", filters.product_id.as_str()),
        ("source", filters.source.as_str()),
    ];
    let next = page.next.map(|next| next.to_string());
    let tables = [("keys", "Download the keys as CSV"), ("uses", "Download their uses as CSV")];
    let links = links(visit, "/desk/keys", &pairs, next, &tables);
    list(visit, seller, &page, What { q: "", label: "Keys, newest first", more: None, links, filters }).await
}

#[derive(Default)]
struct Filters {
    status: String,
    product_id: String,
    source: String,
}

struct What<'t> {
    q: &'t str,
    label: &'static str,
    /// The value of `before` for the next page of a search. The button for that page submits it in a form.
    more: Option<String>,
    /// The links below the list, if it is not the result of a search.
    links: Value,
    filters: Filters,
}

async fn list(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    page: &Page<crate::key::Key, KeyId>,
    what: What<'_>,
) -> Result<Reply, ApiError> {
    let (names, now) = (all_names(visit.delivery).await?, visit.delivery.inner.clock.now());
    let What { q, label, more, links, filters } = what;
    let mut sources: Vec<String> = visit.delivery.inner.platforms.names().map(ToString::to_string).collect();
    sources.push(Source::webhook().to_string());
    if !filters.source.is_empty() && !sources.contains(&filters.source) {
        sources.push(filters.source.clone());
    }
    visit.page(
        "keys.html",
        context! {
            keys => page.items.iter().map(|it| key(it, now, &names)).collect::<Vec<_>>(),
            q, label, more,
            filters => context! { status => filters.status, product_id => filters.product_id, source => filters.source },
            statuses => STATUSES.to_vec(),
            products => choices(&names), sources,
            links,
            ..desk(visit, seller, "/desk/keys")
        },
    )
}
