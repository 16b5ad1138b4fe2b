//! Setup: the webhook addresses for the platforms, a test e-mail, and erasing a customer.

use minijinja::{Value, context};

use super::form::{Fault, said};
use super::shown::{desk, time};
use super::{Answering, ApiError, PageRequest, SignedIn};
use crate::email::Email;
use crate::http::{PlatformPath, Reply};
use crate::ledger::{EventOutcome, InboxEvent};
use crate::store::{InboxQuery, MessageQuery, MessageState, StoreError};

/// The maximum number of events that are read to find the last event of each platform.
const NEWEST: usize = 1_000;
/// The maximum number of messages in each state that are read to find one that could not be sent.
const RECENT: usize = 50;

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let Some(form) = &visit.form else { return page(&visit, &seller, "", None).await };
        let typed = form.text("email").trim();
        let Ok(email) = typed.parse::<Email>() else {
            let fault = Fault::new("email", "The address must be an e-mail address.");
            return page(&visit, &seller, typed, Some(&fault)).await;
        };
        match visit.delivery.desk(&seller.actor).test_mail(&email).await {
            Ok(()) => {
                let done = if visit.delivery.inner.outbox.mailer.reaches_nobody() { "written" } else { "mailed" };
                Ok(visit.go_to(&format!("/desk/setup?done={done}")))
            }
            Err(error) => {
                let fault = Fault::new("email", format!("The mail server did not take it: {error}."));
                page(&visit, &seller, typed, Some(&fault)).await
            }
        }
    })
}

async fn page(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    email: &str,
    fault: Option<&Fault>,
) -> Result<Reply, ApiError> {
    let (ready, others) = platforms(visit).await?;
    let sender = visit.delivery.inner.outbox.sender.to_string();
    let reaches_nobody = visit.delivery.inner.outbox.mailer.reaches_nobody();
    let trouble = last_trouble(visit, seller).await?;
    let values = context! {
        ready, others, sender, reaches_nobody, trouble, email, ..said(fault, desk(visit, seller, "/desk/setup"))
    };
    visit.page_with_script("setup.html", values)
}

/// Returns why the newest e-mail that could not be sent was not sent, and when it was queued.
async fn last_trouble(visit: &PageRequest<'_>, seller: &SignedIn) -> Result<Option<Value>, ApiError> {
    let (desk, mut newest) = (visit.delivery.desk(&seller.actor), None);
    for state in [MessageState::Queued, MessageState::Failed] {
        let query = MessageQuery { state: Some(state), limit: RECENT, ..MessageQuery::default() };
        let page = match desk.messages(&query).await {
            Ok(page) => page,
            Err(StoreError::Unsupported) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = page.items.into_iter().find_map(|message| Some((message.queued_at, message.reason?)));
        newest = newest.max(found);
    }
    Ok(newest.map(|(at, reason)| context! { at => time(at), reason }))
}

/// Returns the commerce platforms: those whose secret is set, and the others. Each has the webhook address that the seller must configure at the platform, and the
/// time of the last event that came from it.
async fn platforms(visit: &PageRequest<'_>) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let inner = &visit.delivery.inner;
    let newest = async |outcome| -> Result<Vec<InboxEvent>, StoreError> {
        match visit.delivery.events(&InboxQuery { outcome, before: None, limit: NEWEST }).await {
            Ok(page) => Ok(page.items),
            Err(StoreError::Unsupported) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    };
    let (events, faults) = (newest(None).await?, newest(Some(EventOutcome::NeedsAttention)).await?);
    let of = |events: &[InboxEvent], name: &str| events.iter().find(|entry| entry.id.source.as_str() == name).cloned();
    let platform = |path: PlatformPath| {
        let setting = match path.name() {
            "gumroad" => "GUMROAD_TOKEN".to_owned(),
            name => format!("{}_SECRET", name.to_ascii_uppercase()),
        };
        let (query, hint) = match path.name() {
            "gumroad" => ("?token=GUMROAD_TOKEN", "Put the value of GUMROAD_TOKEN in the place of its name."),
            _ => ("", ""),
        };
        let known = EVENTS.iter().find(|(name, ..)| *name == path.name());
        let (shown, told) = known.map_or((path.name(), None), |(_, shown, told)| (*shown, Some(*told)));
        context! {
            name => path.name(),
            address => format!("{}{}{query}", inner.outbox.base_url, path.path()),
            has_secret => inner.platforms.named(path.name()).is_some(),
            setting, hint, told, shown,
            refused => inner.platforms.refused_at(path.name()).map(time),
            last => of(&events, path.name()).map(|entry| time(entry.received_at)),
            fault => of(&faults, path.name()).and_then(|entry| entry.reason),
        }
    };
    let all = PlatformPath::BUILT_IN.into_iter().chain(PlatformPath::of_host(visit.delivery));
    let (ready, others): (Vec<_>, Vec<_>) = all.partition(|path| inner.platforms.named(path.name()).is_some());
    Ok((ready.into_iter().map(platform).collect(), others.into_iter().map(platform).collect()))
}

/// How people call each platform, and the events that the seller has to choose there. Those for subscriptions are after the words "and for
/// subscriptions".
const EVENTS: &[(&str, &str, &str)] = &[
    (
        "stripe",
        "Stripe",
        "checkout.session.completed, checkout.session.async_payment_succeeded, charge.captured, charge.refunded, refund.failed, \
         charge.dispute.created, charge.dispute.funds_withdrawn, charge.dispute.closed, and for subscriptions invoice.paid, \
         invoice_payment.paid, customer.subscription.created, customer.subscription.updated, customer.subscription.deleted",
    ),
    ("shopify", "Shopify", "Order payment, Order cancellation, Refund create"),
    (
        "lemonsqueezy",
        "Lemon Squeezy",
        "order_created, order_refunded, and for subscriptions subscription_created, subscription_updated, subscription_cancelled, \
         subscription_resumed, subscription_expired, subscription_payment_success, subscription_payment_refunded",
    ),
    (
        "paddle",
        "Paddle",
        "transaction.completed, customer.created, customer.updated, adjustment.created, adjustment.updated, and for subscriptions \
         subscription.created, subscription.updated, subscription.canceled",
    ),
    (
        "gumroad",
        "Gumroad",
        "the ping; by Gumroad's API also refund, dispute, dispute_won, and for subscriptions subscription_ended, \
         subscription_restarted",
    ),
    (
        "woocommerce",
        "WooCommerce",
        "Order created, Order updated, Order restored, and for subscriptions Subscription created, Subscription updated, \
         Subscription switched",
    ),
    (
        "polar",
        "Polar",
        "order.paid, order.refunded, and for subscriptions subscription.created, subscription.updated, subscription.canceled, \
         subscription.uncanceled, subscription.revoked",
    ),
    ("standard", "Standard Webhooks", "order.paid, order.refunded, and for subscriptions also subscription.ended"),
];

pub(super) fn erase(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let page = |email: &str, fault: Option<&Fault>| {
            visit.page("erase.html", context! { email, ..said(fault, desk(&visit, &seller, "/desk/setup")) })
        };
        let Some(form) = &visit.form else { return page("", None) };
        let typed = form.text("email").trim();
        let Ok(email) = typed.parse::<Email>() else {
            return page(typed, Some(&Fault::new("email", "The address must be an e-mail address.")));
        };
        if form.text("sure") != "yes" {
            return page(typed, Some(&Fault::new("", "Tick the box once you have checked the address.")));
        }
        let keys = visit.delivery.desk(&seller.actor).erase(&email).await?;
        let done = if keys.is_empty() { "nobody" } else { "erased" };
        Ok(visit.go_to(&format!("/desk/setup?done={done}")))
    })
}
