//! The events that commerce platforms have reported, and applying them again.

use minijinja::{Value, context};

use super::form::{Fault, Form, said as said_of};
use super::shown::{PAGE, choices, desk, names, next, parameter, time};
use super::{Answering, ApiError, PageRequest, SignedIn, base};
use crate::http::Reply;
use crate::ledger::{EventOutcome, InboxEvent};
use crate::product::ProductId;
use crate::store::InboxQuery;

pub(super) fn list(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let outcome: Option<EventOutcome> = parameter(&visit, "outcome")?;
        let query = InboxQuery { outcome, before: parameter(&visit, "before")?, limit: PAGE };
        let page = visit.delivery.events(&query).await?;
        let current = outcome.map_or("", EventOutcome::as_str);
        let outcomes: Vec<(&str, String)> =
            EventOutcome::ALL.iter().map(|it| (it.as_str(), it.as_str().replace('_', " "))).collect();
        let path = format!("{}/desk/events", base(visit.delivery));
        visit.page(
            "events.html",
            context! {
                events => page.items.iter().map(event).collect::<Vec<_>>(),
                outcomes, current,
                next => next(&path, &[("outcome", current)], page.next.map(|next| next.to_string())),
                ..desk(&visit, &seller, "/desk/events")
            },
        )
    })
}

fn event(entry: &InboxEvent) -> Value {
    let outcome = entry.outcome.map_or("waits", EventOutcome::as_str).replace('_', " ");
    context! {
        id => entry.number.to_string(),
        platform => entry.id.source.as_str(),
        name => entry.id.name.as_str(),
        kind => entry.kind.clone(),
        order => entry.order.as_ref().map(crate::order::OrderId::as_str),
        received_at => time(entry.received_at),
        outcome,
        reason => entry.reason.clone(),
        keys => entry.keys.iter().map(ToString::to_string).collect::<Vec<_>>(),
        waits => entry.due_at.is_some(),
    }
}

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let Some(form) = &visit.form else {
            let number = parameter(&visit, "id")?.ok_or(ApiError::NOT_FOUND)?;
            return page(&visit, &seller, number, None, None).await;
        };
        let number: i64 = form.text("id").parse().map_err(|_| ApiError::NOT_FOUND)?;
        let said =
            async |field, fault: &str| page(&visit, &seller, number, Some(form), Some(&Fault::new(field, fault))).await;
        let Ok(email) = form.given("customer_email").map(str::parse).transpose() else {
            return said("customer_email", "The address must be an e-mail address.").await;
        };
        let product = form.given("product_id").map(|id| id.parse().ok().and_then(|id| ProductId::new(id).ok()));
        let product = match product {
            Some(None) => return said("product_id", "There is no such product.").await,
            product => product.flatten(),
        };
        if let Some(id) = product
            && visit.delivery.product(id).await?.is_none_or(|product| product.is_archived())
        {
            return said("product_id", "This product is not sold.").await;
        }
        match visit.delivery.desk(&seller.actor).apply_event(number, email, product).await {
            Ok(true) => Ok(visit.go_to(&format!("/desk/event?id={number}&done=applied"))),
            Ok(false) => Err(ApiError::NOT_FOUND),
            Err(error) => Err(error.into()),
        }
    })
}

async fn page(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    number: i64,
    form: Option<&Form>,
    fault: Option<&Fault>,
) -> Result<Reply, ApiError> {
    let query = InboxQuery { outcome: None, before: number.checked_add(1), limit: 1 };
    let found = visit.delivery.events(&query).await?.items.into_iter().find(|entry| entry.number == number);
    let entry = found.ok_or(ApiError::NOT_FOUND)?;
    let names = names(visit.delivery).await?;
    visit.page(
        "event.html",
        context! {
            event => event(&entry), products => choices(&names),
            email => form.map_or("", |form| form.text("customer_email")),
            product_id => form.map_or("", |form| form.text("product_id")),
            ..said_of(fault, desk(visit, seller, "/desk/events"))
        },
    )
}
