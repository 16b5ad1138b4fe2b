//! Where platforms report sales, a test e-mail, and forgetting a person.

use minijinja::{Value, context};

use super::shown::desk;
use super::{Answering, SignedIn, Trouble, Visit};
use crate::email::Email;
use crate::http::Reply;

pub(super) fn show(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let Some(form) = &visit.form else { return page(&visit, &seller, None).await };
        let Ok(email) = form.text("email").trim().parse::<Email>() else {
            return page(&visit, &seller, Some("The address must be an e-mail address.".to_owned())).await;
        };
        match visit.delivery.desk(&seller.actor).test_mail(&email).await {
            Ok(()) => Ok(visit.go_to("/desk/setup?done=mailed")),
            Err(error) => {
                let fault = format!("The mail server did not take it: {error}.");
                page(&visit, &seller, Some(fault)).await
            }
        }
    })
}

async fn page(visit: &Visit<'_>, seller: &SignedIn, fault: Option<String>) -> Result<Reply, Trouble> {
    let platforms = platforms(visit).await?;
    let sender = visit.delivery.inner.outbox.sender.to_string();
    visit.page("setup.html", context! { platforms, sender, fault, ..desk(visit, seller, "/desk/setup") })
}

#[cfg(not(feature = "platforms"))]
#[expect(clippy::unused_async, reason = "it asks the store where there are platforms")]
async fn platforms(_: &Visit<'_>) -> Result<Vec<Value>, Trouble> {
    Ok(Vec::new())
}

/// Each platform with the address to paste there, and what it reported last.
#[cfg(feature = "platforms")]
async fn platforms(visit: &Visit<'_>) -> Result<Vec<Value>, Trouble> {
    use super::shown::time;
    use crate::http::PlatformPath;
    use crate::store::{Entry, EventOutcome, InboxQuery, StoreError};

    /// How many events are looked at.
    const NEWEST: usize = 1_000;

    let inner = &visit.delivery.inner;
    let newest = async |outcome| -> Result<Vec<Entry>, StoreError> {
        match visit.delivery.events(&InboxQuery { outcome, before: None, limit: NEWEST }).await {
            Ok(page) => Ok(page.items),
            Err(StoreError::Unsupported) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    };
    let (events, faults) = (newest(None).await?, newest(Some(EventOutcome::NeedsAttention)).await?);
    let of = |events: &[Entry], name: &str| events.iter().find(|entry| entry.id.source.as_str() == name).cloned();
    let platform = |path: &PlatformPath| {
        let setting = match path.name() {
            "gumroad" => "GUMROAD_TOKEN".to_owned(),
            name => format!("{}_SECRET", name.to_ascii_uppercase()),
        };
        let query = if path.name() == "gumroad" { "?token=…" } else { "" };
        context! {
            name => path.name(),
            address => format!("{}{}{query}", inner.outbox.base_url, path.path()),
            has_secret => inner.platforms.named(path.name()).is_some(),
            setting,
            last => of(&events, path.name()).map(|entry| time(entry.received_at)),
            fault => of(&faults, path.name()).and_then(|entry| entry.reason),
        }
    };
    Ok(PlatformPath::BUILT_IN.iter().map(platform).collect())
}

pub(super) fn erase(visit: Visit<'_>, seller: SignedIn) -> Answering<'_> {
    Box::pin(async move {
        let page =
            |fault: Option<&str>| visit.page("erase.html", context! { fault, ..desk(&visit, &seller, "/desk/setup") });
        let Some(form) = &visit.form else { return page(None) };
        let Ok(email) = form.text("email").trim().parse::<Email>() else {
            return page(Some("The address must be an e-mail address."));
        };
        if form.text("sure") != "yes" {
            return page(Some("Say that you have checked the address."));
        }
        visit.delivery.desk(&seller.actor).erase(&email).await?;
        Ok(visit.go_to("/desk/setup?done=erased"))
    })
}
