//! Setup: the webhook addresses for the platforms, a test e-mail, and erasing a customer.

use minijinja::{Value, context};

use super::form::{Fault, Form, said};
use super::frame::desk;
use super::shown::time;
use super::{Answering, ApiError, PageRequest, SignedIn};
use crate::delivery::{Delivery, SecretError};
use crate::email::Email;
use crate::http::export::person;
use crate::http::{PlatformPath, Reply};
use crate::ledger::{EventOutcome, InboxEvent, Recipient};
use crate::order::Source;
use crate::store::{InboxQuery, MessageQuery, MessageState, StoreError};

/// The number of messages that one query reads in the search for an error.
const RECENT: usize = 100;
/// The maximum number of such queries for queued messages, and also for failed ones.
const PAGES: usize = 10;

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let Some(form) = &visit.form else { return page(&visit, &seller, ("", ""), None).await };
        match form.text("do") {
            "" => {}
            what @ ("set_secret" | "remove_secret") => {
                return set_secret(&visit, &seller, form, what == "set_secret").await;
            }
            _ => return Err(ApiError::MALFORMED),
        }
        let typed = form.text("email").trim();
        let Ok(email) = typed.parse::<Email>() else {
            let fault = Fault::new("email", "The address must be an e-mail address.");
            return page(&visit, &seller, (typed, ""), Some(&fault)).await;
        };
        match visit.delivery.desk(&seller.actor).test_mail(&email).await {
            Ok(()) => {
                let done = if visit.delivery.inner.outbox.mailer.reaches_nobody() { "written" } else { "mailed" };
                Ok(visit.go_to(&format!("/desk/setup?done={done}")))
            }
            Err(error) => {
                let fault = Fault::new("email", format!("The mail server did not take it: {error}."));
                page(&visit, &seller, (typed, ""), Some(&fault)).await
            }
        }
    })
}

/// Sets the secret of a platform, or removes it after a confirmation.
async fn set_secret(visit: &PageRequest<'_>, seller: &SignedIn, form: &Form, is_set: bool) -> Result<Reply, ApiError> {
    let source: Source = form.text("platform").parse().map_err(|_| ApiError::MALFORMED)?;
    if !is_set && form.text("sure") != "yes" {
        let hidden = [("platform", source.to_string()), ("do", "remove_secret".to_owned()), ("sure", "yes".to_owned())];
        let values = context! {
            title => format!("Remove the secret of {source}"), button => "Remove it",
            sentence => "Sales that the platform reports are refused a few seconds later, unless the settings of the server have a secret.",
            hidden, about => Vec::<Value>::new(), fields => Vec::<Value>::new(), action => "/desk/setup",
            back => "/desk/setup", is_dangerous => true, ..desk(visit, seller, "/desk/setup")
        };
        return visit.page("confirm.html", values);
    }
    let secret = is_set.then(|| form.text("secret").trim());
    let fault = match visit.delivery.desk(&seller.actor).set_platform_secret(&source, secret).await {
        Ok(()) => {
            let done = if is_set { "secret_set" } else { "secret_removed" };
            return Ok(visit.go_to(&format!("/desk/setup?done={done}")));
        }
        Err(SecretError::Store(error)) => return Err(error.into()),
        Err(SecretError::Invalid(_)) if secret == Some("") => "Enter the secret.".to_owned(),
        Err(SecretError::Invalid(expected)) => format!("The secret {expected}."),
        Err(SecretError::UnknownPlatform) => "There is no such platform.".to_owned(),
        Err(SecretError::InSettings) => "The settings of the server have the secret of this platform.".to_owned(),
    };
    page(visit, seller, ("", source.as_str()), Some(&Fault::new("secret", fault))).await
}

async fn page(
    visit: &PageRequest<'_>,
    seller: &SignedIn,
    (email, platform): (&str, &str),
    fault: Option<&Fault>,
) -> Result<Reply, ApiError> {
    match visit.delivery.read_secrets_at_once().await {
        Ok(()) | Err(StoreError::Unsupported) => {}
        Err(error) => return Err(error.into()),
    }
    let (ready, others) = platforms(visit).await?;
    let sender = visit.delivery.inner.outbox.sender.to_string();
    let reaches_nobody = visit.delivery.inner.outbox.mailer.reaches_nobody();
    let trouble = last_trouble(visit, seller).await?;
    let values = context! {
        ready, others, sender, reaches_nobody, trouble, email, faulty_platform => platform, ..said(fault, desk(visit, seller, "/desk/setup"))
    };
    visit.page_with_script("setup.html", values)
}

/// Returns the error of the newest e-mail that could not be sent, and when this e-mail was queued. The e-mail may be
/// waiting for another attempt. Returns `None` if no such e-mail was found.
async fn last_trouble(visit: &PageRequest<'_>, seller: &SignedIn) -> Result<Option<Value>, ApiError> {
    let desk = visit.delivery.desk(&seller.actor);
    let mut newest = None;
    for state in [MessageState::Queued, MessageState::Failed] {
        let mut query = MessageQuery { state: Some(state), limit: RECENT, ..MessageQuery::default() };
        // Read on until an e-mail with an error is found. Newer messages may have no error, or be for webhooks.
        for _ in 0..PAGES {
            let page = match desk.messages(&query).await {
                Ok(page) => page,
                Err(StoreError::Unsupported) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let mut emails = page.items.into_iter().filter(|it| matches!(it.recipient, Recipient::Email(_)));
            let found = emails.find_map(|message| Some((message.queued_at, message.reason?)));
            query.before = page.next;
            newest = newest.max(found.clone());
            if found.is_some() || query.before.is_none() {
                break;
            }
        }
    }
    Ok(newest.map(|(at, reason)| context! { at => time(at), reason }))
}

/// Returns the commerce platforms in two lists: those that have a secret, and the others. A platform whose secret
/// cannot be decrypted is in the first list. Each platform has the webhook address that the seller must configure
/// there, and the time of its last event.
async fn platforms(visit: &PageRequest<'_>) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let inner = &visit.delivery.inner;
    let newest = async |source: Source, outcome| -> Result<Option<InboxEvent>, StoreError> {
        let query = InboxQuery { source: Some(source), outcome, limit: 1, ..InboxQuery::default() };
        match visit.delivery.events(&query).await {
            Ok(page) => Ok(page.items.into_iter().next()),
            Err(StoreError::Unsupported) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let platform = |path: PlatformPath, last: Option<InboxEvent>, fault: Option<InboxEvent>| {
        let (query, hint, label) = match path.name() {
            "gumroad" => (
                "?token=GUMROAD_TOKEN",
                "Gumroad shows no secret. Make up a token of at least 16 letters and digits, and put it in the place of GUMROAD_TOKEN.",
                "A token of your own",
            ),
            _ => ("", "", "The signing secret of the webhook"),
        };
        let known = EVENTS.iter().find(|(name, ..)| *name == path.name());
        let (shown, told) = known.map_or((path.name(), None), |(_, shown, told)| (*shown, Some(*told)));
        context! {
            name => path.name(),
            address => format!("{}{}{query}", inner.outbox.base_url, path.path()),
            has_secret => inner.platforms.named(path.name()).is_some(),
            hint, label, told, shown,
            is_settable => inner.platforms.is_settable(path.name()),
            is_stored => inner.platforms.is_stored(path.name()),
            is_unreadable => inner.platforms.is_unreadable(path.name()),
            refused => inner.platforms.refused_at(path.name()).map(time),
            last => last.map(|entry| time(entry.received_at)),
            fault => fault.and_then(|entry| entry.reason),
        }
    };
    let all = PlatformPath::BUILT_IN.into_iter().chain(PlatformPath::of_host(visit.delivery));
    let (mut ready, mut others) = (Vec::new(), Vec::new());
    for path in all {
        let source: Source = path.name().parse().map_err(|_| ApiError::MALFORMED)?;
        let last = newest(source.clone(), None).await?;
        let fault = newest(source, Some(EventOutcome::NeedsAttention)).await?;
        let is_ready = inner.platforms.named(path.name()).is_some() || inner.platforms.is_unreadable(path.name());
        (if is_ready { &mut ready } else { &mut others }).push(platform(path, last, fault));
    }
    Ok((ready, others))
}

/// Returns the name and the display name of each platform.
pub(super) fn names(delivery: &Delivery) -> Vec<(&'static str, &'static str)> {
    let shown = |name| EVENTS.iter().find(|(known, ..)| *known == name).map_or(name, |(_, shown, _)| *shown);
    let all = PlatformPath::BUILT_IN.into_iter().chain(PlatformPath::of_host(delivery));
    all.map(|path| (path.name(), shown(path.name()))).collect()
}

/// For each platform: its name, its display name, and the events that the seller must select there. The events for
/// subscriptions follow the words "and for subscriptions".
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
        match form.text("do") {
            "" => {}
            "download" => return Ok(person(visit.delivery, &seller.actor, &email).await?.security_headers("")),
            _ => return Err(ApiError::MALFORMED),
        }
        if form.text("sure") != "yes" {
            return page(typed, Some(&Fault::new("", "Tick the box once you have checked the address.")));
        }
        let keys = visit.delivery.desk(&seller.actor).erase(&email).await?;
        let done = if keys.is_empty() { "nobody" } else { "erased" };
        Ok(visit.go_to(&format!("/desk/setup?done={done}")))
    })
}
