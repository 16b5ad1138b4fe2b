//! The events that commerce platforms have reported, and applying them again.

use minijinja::{Value, context};

use super::form::{Form, FormError, Undone, said as said_of};
use super::frame::desk;
use super::lists::{PAGE, choices, chosen, links, options, parameter, sources};
use super::shown::{names, short, time};
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::Said;
use crate::http::Reply;
use crate::http::filters;
use crate::http::parameter::{BEFORE, OUTCOME, PLATFORM, SINCE, UNTIL};
use crate::ledger::{EventOutcome, InboxEvent};
use crate::order::{OrderRef, Source};
use crate::product::{ProductId, RefName, Refs};
use crate::store::{InboxQuery, StoreError, or_none};

pub(super) async fn list(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let chosen = chosen(&request, &[OUTCOME.name, PLATFORM.name, SINCE.name, UNTIL.name])?;
    let (before, query) = (parameter(&request, BEFORE.name)?, filters::inbox(request.call)?);
    // The newest event about an unknown product may be after the end of the period. It would then hide those within.
    let is_grouped = query.period.until.is_none();
    let query = InboxQuery { before, is_grouped, limit: PAGE, ..query };
    let page = request.delivery.events(&query).await?;
    let next = page.next.map(|next| next.to_string());
    request.page_with_script(
        "events.html",
        context! {
            events => page.items.iter().map(event_values).collect::<Vec<_>>(),
            outcomes => options(EventOutcome::ALL.iter().map(|outcome| outcome.as_str())),
            platforms => sources(request.delivery, &chosen, PLATFORM.name),
            links => links(&request, "/desk/events", &chosen, next, &[("inbox", "Download as CSV")]),
            filters => Value::from(chosen),
            ..desk(&request, &seller, "/desk/events")
        },
    )
}

/// Returns the newest event of a platform, or the newest one with this outcome. Returns `None` if there is no such
/// event, or if the store keeps no events.
pub(super) async fn newest_event(
    request: &PageRequest<'_>,
    source: &Source,
    outcome: Option<EventOutcome>,
) -> Result<Option<InboxEvent>, ApiError> {
    let query = InboxQuery { source: Some(source.clone()), outcome, limit: 1, ..InboxQuery::default() };
    let page = or_none(request.delivery.events(&query).await)?;
    Ok(page.and_then(|page| page.items.into_iter().next()))
}

fn event_values(event: &InboxEvent) -> Value {
    let outcome = event.outcome.map_or("waits", EventOutcome::as_str).replace('_', " ");
    context! {
        id => event.number.to_string(),
        platform => event.id.source.as_str(),
        name => event.id.name.as_str(),
        kind => event.kind.clone(),
        order => event.order.as_ref().map(crate::order::OrderId::as_str),
        short_order => event.order.as_ref().map(|order| short(order.as_str())),
        received_at => time(event.received_at),
        outcome,
        reason => event.reason.clone(),
        keys => event.keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
        waits => event.due_at.is_some(),
        can_be_applied => event.can_be_applied(),
        is_test => event.is_test(),
    }
}

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let Some(form) = &request.form else {
        let number = parameter(&request, "id")?.ok_or(ApiError::NOT_FOUND)?;
        return page(&request, &seller, number, None).await;
    };
    let number: i64 = form.text("id").parse().map_err(|_| ApiError::NOT_FOUND)?;
    match decided(&request, &seller, number, form).await {
        Ok(done) => Ok(request.go_to(&format!("/desk/event?id={number}&done={done}"))),
        Err(Undone::Said(fault)) => page(&request, &seller, number, Some((form, &fault))).await,
        Err(Undone::ApiError(error)) => Err(error),
    }
}

/// Carries out the seller's decision to apply an event, to dismiss it, to dismiss all events of a product, or to link a
/// product. Linking adds the platform's name for the product to a product of the shop, and then applies the event.
/// Returns the value of the parameter `done`, which selects the message about the result.
async fn decided(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    number: i64,
    form: &Form,
) -> Result<&'static str, Undone> {
    let seller_desk = request.delivery.desk(&seller.actor);
    let event = found(request, number).await?;
    let name = || form.text("name").parse::<RefName>().map_err(|_| ApiError::MALFORMED);
    match form.text("do") {
        "dismiss" | "dismiss_product" if event.due_at.is_none() && !event.is_dismissed() => return Ok("done_before"),
        "dismiss" => {
            seller_desk.dismiss_event(number).await?;
            return Ok("dismissed");
        }
        "dismiss_product" => {
            let name = name()?;
            // Accept only names that are in the event, because any other name may belong to a product that is sold
            // here. The names are unknown once the content of the event is deleted, and any name is accepted then.
            if event.body.is_some() && !Said::by(&event).names.contains(&name) {
                return Err(ApiError::MALFORMED.into());
            }
            seller_desk.dismiss_product(&event.id.source, &name).await?;
            seller_desk.dismiss_event(number).await?;
            return Ok("dismissed");
        }
        "" | "apply" | "link" => {}
        _ => return Err(ApiError::MALFORMED.into()),
    }
    let email = form.given("customer_email").map(str::parse).transpose();
    let email = email.map_err(|_| said("customer_email", "The address must be an e-mail address."))?;
    let product = form.given("product_id").map(|id| id.parse().ok().and_then(|id| ProductId::new(id).ok()));
    let product = product.map(|id| id.ok_or_else(|| said("product_id", "There is no such product."))).transpose()?;
    if let Some(id) = product
        && request.delivery.product(id).await?.is_none_or(|product| product.is_archived())
    {
        return Err(said("product_id", "This product is not sold."));
    }
    let is_link = form.text("do") == "link";
    if is_link {
        let product = product.ok_or_else(|| said("product_id", "Choose the product that is sold there."))?;
        link(request, seller, product, (event.id.source.clone(), name()?)).await?;
    }
    seller_desk.apply_event(number, email, product.filter(|_| !is_link)).await?;
    if !event.can_be_applied() {
        return Ok("done_before");
    }
    let after = found(request, number).await?;
    Ok(match (after.due_at.is_some(), is_link) {
        (false, _) if after.outcome == Some(EventOutcome::Ignored) => "ignored",
        (false, false) => "applied",
        (false, true) => "linked",
        (true, false) => "unapplied",
        (true, true) => "linked_waits",
    })
}

fn said(field: &'static str, sentence: &str) -> Undone {
    FormError::new(field, sentence).into()
}

/// Adds a reference to a product: a platform, and the platform's name for the product. A sale that the platform reports
/// under this name then issues a key for the product.
async fn link(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    product: ProductId,
    name: (Source, RefName),
) -> Result<(), Undone> {
    let desk = request.delivery.desk(&seller.actor);
    let revised = desk.revise_product(product, |product| {
        let names = product.refs().iter().map(|(source, name)| (source.clone(), name.clone()));
        Refs::new(names.chain([name.clone()])).map(|refs| product.facts().clone().refs(refs))
    });
    match revised.await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(expected)) => Err(FormError::of("product_id", "The references")(expected).into()),
        Err(StoreError::Refused { .. }) => Err(said("product_id", "Another product has this reference.")),
        Err(error) => Err(error.into()),
    }
}

async fn found(request: &PageRequest<'_>, number: i64) -> Result<InboxEvent, ApiError> {
    let query = InboxQuery { before: number.checked_add(1), limit: 1, ..InboxQuery::default() };
    let found = request.delivery.events(&query).await?.items.into_iter().find(|event| event.number == number);
    found.ok_or(ApiError::NOT_FOUND)
}

async fn page(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    number: i64,
    sent: Option<(&Form, &FormError)>,
) -> Result<Reply, ApiError> {
    let (event, names) = (found(request, number).await?, names(request.delivery).await?);
    let Said { names: asked_for, buyer, total: total_said } = Said::by(&event);
    // Ignore errors of the product catalog: the event can be applied even if the page cannot list which products of the
    // event are unknown or archived.
    let (unlinked, off_sale) = request.delivery.unsold(&event).await.unwrap_or_default();
    let unlinked: Vec<String> = unlinked.iter().map(ToString::to_string).collect();
    let asked_for: Vec<String> = asked_for.iter().map(ToString::to_string).collect();
    // Look up the keys that the event issued or changed. Once the content of the event is deleted, the buyer's address
    // is known only from these keys.
    let (mut keys, mut owner) = (Vec::new(), None);
    for id in &event.keys {
        let Some(key) = request.delivery.key(*id).await? else { continue };
        let product = request.delivery.product(key.product()).await?;
        keys.push((id.to_string(), product.map(|product| product.name().to_owned())));
        owner = owner.or_else(|| Some(key.email().to_string()));
    }
    let mut archived = Vec::new();
    for (id, names) in off_sale {
        let Some(product) = request.delivery.product(id).await? else { continue };
        // Choose a name that belongs to the archived product. Other names in the same lines of the order may belong to
        // products that are sold.
        let is_its = |name: &RefName| product.refs().iter().any(|(of, its)| *of == event.id.source && its == name);
        let its = names.iter().find(|name| is_its(name)).map(ToString::to_string);
        archived.push((id.get(), product.name().to_owned(), its));
    }
    let text = |name| sent.map_or("", |(form, _)| form.text(name));
    let order = event.order.clone().map(|id| OrderRef { source: event.id.source.clone(), id });
    let total = match &order {
        Some(order) => request.delivery.paid_for(order).await?,
        None => None,
    };
    request.page(
        "event.html",
        context! {
            event => event_values(&event), products => choices(&names), buyer => buyer.or(owner), keys,
            total => total.or(total_said).map(|total| total.to_string()),
            asked_for, unlinked, archived,
            email => text("customer_email"), product_id => text("product_id"),
            ..said_of(sent.map(|(_, fault)| fault), desk(request, seller, "/desk/events"))
        },
    )
}
