//! Setup: the webhook addresses for the platforms, the secrets of the platforms, a test e-mail, and erasing a customer.

use minijinja::{Value, context};

use super::events::newest_event;
use super::form::{Form, FormError, said};
use super::frame::desk;
use super::shown::time;
use super::{ApiError, PageRequest, SignedIn};
use crate::delivery::{Delivery, PlatformRow, SIGNING_SECRET, SecretError, SecretGuide};
use crate::email::Email;
use crate::http::export::person;
use crate::http::{PlatformPath, Reply};
use crate::ledger::{EventOutcome, InboxEvent, Recipient};
use crate::order::Source;
use crate::store::{MessageQuery, MessageState, or_none};

/// How many messages [`last_trouble`] reads at a time.
const RECENT: usize = 100;
/// The maximum number of queries that [`last_trouble`] makes for each message state, queued and failed.
const PAGES: usize = 10;

pub(super) async fn show(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let Some(form) = &request.form else { return page(&request, &seller, ("", ""), None).await };
    match form.text("do") {
        "" => {}
        what @ ("set_secret" | "remove_secret") => {
            return set_secret(&request, &seller, form, what == "set_secret").await;
        }
        _ => return Err(ApiError::MALFORMED),
    }
    let typed = form.text("email").trim();
    let Ok(email) = typed.parse::<Email>() else {
        let fault = FormError::new("email", "The address must be an e-mail address.");
        return page(&request, &seller, (typed, ""), Some(&fault)).await;
    };
    match request.delivery.desk(&seller.actor).test_mail(&email).await {
        Ok(()) => {
            let done = if request.delivery.inner.outbox.mailer.reaches_nobody() { "written" } else { "mailed" };
            Ok(request.go_to(&format!("/desk/setup?done={done}")))
        }
        Err(error) => {
            let fault = FormError::new("email", format!("The mail server did not take it: {error}."));
            page(&request, &seller, (typed, ""), Some(&fault)).await
        }
    }
}

/// Sets the secret of a platform, or removes it after a confirmation.
async fn set_secret(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    form: &Form,
    is_set: bool,
) -> Result<Reply, ApiError> {
    let source: Source = form.text("platform").parse().map_err(|_| ApiError::MALFORMED)?;
    if !is_set && form.text("sure") != "yes" {
        let hidden = [("platform", source.to_string()), ("do", "remove_secret".to_owned()), ("sure", "yes".to_owned())];
        let values = context! {
            title => format!("Remove the secret of {}", shown(source.as_str())), button => "Remove it",
            sentence => "Sales that the platform reports are refused a few seconds later, unless the settings of the server have a secret.",
            hidden, about => Vec::<Value>::new(), fields => Vec::<Value>::new(), action => "/desk/setup",
            back => "/desk/setup", is_dangerous => true, ..desk(request, seller, "/desk/setup")
        };
        return request.page("confirm.html", values);
    }
    let secret = is_set.then(|| form.text("secret").trim());
    let fault = match request.delivery.desk(&seller.actor).set_platform_secret(&source, secret).await {
        Ok(()) => {
            let done = if is_set { "secret_set" } else { "secret_removed" };
            return Ok(request.go_to(&format!("/desk/setup?done={done}")));
        }
        Err(SecretError::Store(error)) => return Err(error.into()),
        Err(SecretError::Invalid(_)) if secret == Some("") => "Enter the secret.".to_owned(),
        Err(SecretError::Invalid(expected)) => format!("The secret {expected}."),
        Err(SecretError::UnknownPlatform) => "There is no such platform.".to_owned(),
        Err(SecretError::InSettings) => "The settings of the server have the secret of this platform.".to_owned(),
    };
    page(request, seller, ("", source.as_str()), Some(&FormError::new("secret", fault))).await
}

async fn page(
    request: &PageRequest<'_>,
    seller: &SignedIn,
    (email, platform): (&str, &str),
    fault: Option<&FormError>,
) -> Result<Reply, ApiError> {
    or_none(request.delivery.read_secrets_at_once().await)?;
    let (ready, others) = platforms(request).await?;
    let sender = request.delivery.inner.outbox.sender.to_string();
    let reaches_nobody = request.delivery.inner.outbox.mailer.reaches_nobody();
    let trouble = last_trouble(request, seller).await?;
    let values = context! {
        ready, others, sender, reaches_nobody, trouble, email, faulty_platform => platform, ..said(fault, desk(request, seller, "/desk/setup"))
    };
    request.page_with_script("setup.html", values)
}

/// Returns the error of the newest e-mail that could not be sent, and when this e-mail was queued. The e-mail may be
/// waiting for another attempt. Returns `None` if no such e-mail was found.
async fn last_trouble(request: &PageRequest<'_>, seller: &SignedIn) -> Result<Option<Value>, ApiError> {
    let desk = request.delivery.desk(&seller.actor);
    let mut newest = None;
    for state in [MessageState::Queued, MessageState::Failed] {
        let mut query = MessageQuery { state: Some(state), limit: RECENT, ..MessageQuery::default() };
        // Read on until an e-mail with an error is found. Newer messages may have no error, or be for webhooks.
        for _ in 0..PAGES {
            let Some(page) = or_none(desk.messages(&query).await)? else { return Ok(None) };
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
/// cannot be decrypted is in the first list. Each item contains the webhook address that the seller must configure at
/// the platform, and the time of the platform's last event.
async fn platforms(request: &PageRequest<'_>) -> Result<(Vec<Value>, Vec<Value>), ApiError> {
    let inner = &request.delivery.inner;
    let platform = |path: PlatformPath, last: Option<InboxEvent>, fault: Option<InboxEvent>| {
        let guide = PlatformRow::named(path.name()).map(|row| &row.guide);
        let SecretGuide { query, hint, label } = guide.map_or(SIGNING_SECRET, |guide| guide.secret);
        context! {
            name => path.name(),
            shown => shown(path.name()),
            events => guide.map(|guide| guide.events),
            address => format!("{}{}{query}", inner.outbox.base_url, path.path()),
            has_secret => inner.platforms.named(path.name()).is_some(),
            hint, label,
            is_settable => inner.platforms.is_settable(path.name()),
            is_stored => inner.platforms.is_stored(path.name()),
            is_unreadable => inner.platforms.is_unreadable(path.name()),
            refused => inner.platforms.refused_at(path.name()).map(time),
            last => last.map(|event| time(event.received_at)),
            fault => fault.and_then(|event| event.reason),
        }
    };
    let all = PlatformPath::built_in().chain(PlatformPath::of_host(request.delivery));
    let (mut ready, mut others) = (Vec::new(), Vec::new());
    for path in all {
        let source: Source = path.name().parse().map_err(|_| ApiError::MALFORMED)?;
        let last = newest_event(request, &source, None).await?;
        let fault = newest_event(request, &source, Some(EventOutcome::NeedsAttention)).await?;
        let is_ready = inner.platforms.named(path.name()).is_some() || inner.platforms.is_unreadable(path.name());
        (if is_ready { &mut ready } else { &mut others }).push(platform(path, last, fault));
    }
    Ok((ready, others))
}

/// Returns the name and the display name of each platform.
pub(super) fn names(delivery: &Delivery) -> Vec<(&'static str, &'static str)> {
    let all = PlatformPath::built_in().chain(PlatformPath::of_host(delivery));
    all.map(|path| (path.name(), shown(path.name()))).collect()
}

/// Returns the platform's name as the platform writes it, or `name` for a platform of the host application.
fn shown(name: &str) -> &str {
    PlatformRow::named(name).map_or(name, |row| row.guide.name)
}

pub(super) async fn erase(request: PageRequest<'_>, seller: SignedIn) -> Result<Reply, ApiError> {
    let page = |email: &str, fault: Option<&FormError>| {
        request.page("erase.html", context! { email, ..said(fault, desk(&request, &seller, "/desk/setup")) })
    };
    let Some(form) = &request.form else { return page("", None) };
    let typed = form.text("email").trim();
    let Ok(email) = typed.parse::<Email>() else {
        return page(typed, Some(&FormError::new("email", "The address must be an e-mail address.")));
    };
    match form.text("do") {
        "" => {}
        "download" => return Ok(person(request.delivery, &seller.actor, &email).await?.security_headers("")),
        _ => return Err(ApiError::MALFORMED),
    }
    if form.text("sure") != "yes" {
        return page(typed, Some(&FormError::new("", "Tick the box once you have checked the address.")));
    }
    let keys = request.delivery.desk(&seller.actor).erase(&email).await?;
    let done = if keys.is_empty() { "nobody" } else { "erased" };
    Ok(request.go_to(&format!("/desk/setup?done={done}")))
}
