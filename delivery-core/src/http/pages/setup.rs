//! Setup: the webhook addresses for the platforms, a test e-mail, and erasing a customer.

use minijinja::{Value, context};

use super::form::{Fault, said};
use super::shown::desk;
use super::{Answering, ApiError, PageRequest, SignedIn};
use crate::email::Email;
use crate::http::Reply;

pub(super) fn show(visit: PageRequest<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let Some(form) = &visit.form else { return page(&visit, &seller, "", None).await };
        let typed = form.text("email").trim();
        let Ok(email) = typed.parse::<Email>() else {
            let fault = Fault::new("email", "The address must be an e-mail address.");
            return page(&visit, &seller, typed, Some(&fault)).await;
        };
        match visit.delivery.desk(&seller.actor).test_mail(&email).await {
            Ok(()) => Ok(visit.go_to("/desk/setup?done=mailed")),
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
    let platforms = platforms(visit).await?;
    let sender = visit.delivery.inner.outbox.sender.to_string();
    visit.page("setup.html", context! { platforms, sender, email, ..said(fault, desk(visit, seller, "/desk/setup")) })
}

/// Returns the commerce platforms. Each has the webhook address that the seller must configure at the platform, and the
/// time of the last event that came from it.
async fn platforms(visit: &PageRequest<'_>) -> Result<Vec<Value>, ApiError> {
    use super::shown::time;
    use crate::http::PlatformPath;
    use crate::ledger::{EventOutcome, InboxEvent};
    use crate::store::{InboxQuery, StoreError};

    /// The maximum number of events that are read to find the last event of each platform.
    const NEWEST: usize = 1_000;

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
        context! {
            name => path.name(),
            address => format!("{}{}{query}", inner.outbox.base_url, path.path()),
            has_secret => inner.platforms.named(path.name()).is_some(),
            setting, hint,
            refused => inner.platforms.refused_at(path.name()).map(time),
            last => of(&events, path.name()).map(|entry| time(entry.received_at)),
            fault => of(&faults, path.name()).and_then(|entry| entry.reason),
        }
    };
    Ok(PlatformPath::BUILT_IN.into_iter().chain(PlatformPath::of_host(visit.delivery)).map(platform).collect())
}

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
        visit.delivery.desk(&seller.actor).erase(&email).await?;
        Ok(visit.go_to("/desk/setup?done=erased"))
    })
}
