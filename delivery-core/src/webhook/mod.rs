//! Webhooks: signed requests that tell the host's other programs of keys.
//!
//! A [`Webhook`] is a receiver of the host's: a name, an address and a secret. It is told when a key is issued, revoked or
//! restored, or has other terms. The message is queued in the same commit, in the outbox, and sent by the worker that sends the
//! e-mails: no crash loses it, and it is tried again for five days.
//!
//! ```
//! use delivery_core::Delivery;
//! use delivery_core::webhook::{Webhook, Webhooks};
//! # fn example(
//! #     store: std::sync::Arc<delivery_core::store::SqliteStore>,
//! #     mailer: std::sync::Arc<dyn delivery_core::mail::Mailer>,
//! #     keyring: delivery_core::key::Keyring,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse()?;
//! let crm = Webhook::new("crm".parse()?, "https://crm.example/hooks/keys", secret)?;
//! let delivery = Delivery::builder(store, mailer, keyring).webhooks(Webhooks::new([crm])?).build();
//! # Ok(())
//! # }
//! ```
//!
//! # What a receiver gets
//!
//! A POST by the [Standard Webhooks](https://www.standardwebhooks.com) specification, for which there are libraries in a dozen
//! languages: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`, and JSON. The key is shown as it is when the
//! request is made, without its text.
//!
//! ```json
//! {
//!   "type": "key.issued",
//!   "timestamp": "2026-11-21T10:00:00Z",
//!   "data": {
//!     "id": "019ab5d8-7c00-7000-8000-000000000000", "product_id": 1, "customer_email": "buyer@example.com",
//!     "source": "webhook", "order_id": "1001", "status": "valid", "issued_at": "2026-11-21T10:00:00Z",
//!     "expires_at": "2027-11-21T10:00:00Z", "max_uses": -1, "used_count": 0, "remaining_uses": -1,
//!     "revoked_at": null, "revoked_reason": null, "host_ref": null
//!   }
//! }
//! ```
//!
//! `type` is `key.issued`, `key.revoked`, `key.restored` or `key.changed`, and `timestamp` is when the
//! message was queued, or [queued again](crate::Delivery::retry_message) by hand. A receiver
//! answers with any status of 200 to 299 within 20 seconds. Anything else, or nothing, is tried again, with the same `webhook-id`:
//! a receiver that has seen an id before has nothing to do. One that cannot be reached, or takes longer, is left alone for half a
//! minute. 410 means that the receiver is gone: the message fails at once.
//! Redirects are not followed. Requests may come in another order than the changes.

mod body;
mod health;
mod secret;
mod send;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::Semaphore;
use url::Url;

use self::health::Health;
pub use self::secret::WebhookSigningSecret;
use self::send::Client;
pub(crate) use self::send::SendError;
use crate::ledger::{MOST_WEBHOOKS, WebhookName};
use crate::text::Invalid;

/// Requests to one receiver at once. All receivers together take fewer places than the outbox has, so that e-mails have some.
const PLACES: usize = 24;

/// A receiver of the host's.
#[derive(Clone)]
pub struct Webhook {
    name: WebhookName,
    url: Url,
    secret: WebhookSigningSecret,
    previous: Option<WebhookSigningSecret>,
    health: Health,
    /// Places for requests that are under way.
    places: Arc<Semaphore>,
}

/// All receivers of the host's, at most [`MOST_WEBHOOKS`].
#[derive(Debug, Clone)]
pub struct Webhooks {
    all: Vec<Webhook>,
    client: Client,
}

/// These webhooks cannot be used together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// There are more than [`MOST_WEBHOOKS`].
    #[error("there are more than {MOST_WEBHOOKS} webhooks")]
    TooMany,
    /// Two have the same name.
    #[error("two webhooks are called {0}")]
    SameName(WebhookName),
    /// One has an `https` address, and this machine has no certificates to check it by.
    #[error("this machine's root certificates cannot be read")]
    NoRoots(#[source] std::io::Error),
}

impl Webhook {
    /// A receiver at `url`. An `http` address sends buyers' addresses in clear: it is for receivers on the same machine or
    /// network.
    ///
    /// Messages that wait are stored under `name`. They go to whatever address that name has when they are sent; those of a name
    /// that is gone fail.
    ///
    /// # Errors
    ///
    /// [`Invalid`] unless `url` is such an address, without user and password.
    pub fn new(name: WebhookName, url: &str, secret: WebhookSigningSecret) -> Result<Self, Invalid> {
        let is_plain = |url: &Url| {
            let credentials = !url.username().is_empty() || url.password().is_some();
            matches!(url.scheme(), "http" | "https") && url.has_host() && !credentials
        };
        let url = Url::parse(url).ok().filter(is_plain);
        let mut url = url.ok_or(Invalid::expected("must be an address such as https://crm.example/hooks/keys"))?;
        url.set_fragment(None);
        let (health, places) = (Health::default(), Arc::new(Semaphore::new(PLACES)));
        Ok(Self { name, url, secret, previous: None, health, places })
    }

    /// Also signs with the previous secret. Remove it once the receiver knows the new one.
    #[must_use]
    pub fn previous_secret(mut self, secret: WebhookSigningSecret) -> Self {
        self.previous = Some(secret);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &WebhookName {
        &self.name
    }
}

impl Webhooks {
    /// These receivers.
    ///
    /// # Errors
    ///
    /// [`WebhookError`] if they are too many, two have the same name, or `https` cannot be used.
    pub fn new(webhooks: impl IntoIterator<Item = Webhook>) -> Result<Self, WebhookError> {
        let all: Vec<Webhook> = webhooks.into_iter().collect();
        if all.len() > MOST_WEBHOOKS {
            return Err(WebhookError::TooMany);
        }
        let mut names: Vec<&WebhookName> = all.iter().map(Webhook::name).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[name, next]| name == next) {
            return Err(WebhookError::SameName((*name).clone()));
        }
        let needs_roots = all.iter().any(|webhook| webhook.url.scheme() == "https");
        let client = Client::new(needs_roots).map_err(WebhookError::NoRoots)?;
        Ok(Self { all, client })
    }

    /// The names of all receivers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &WebhookName> {
        self.all.iter().map(Webhook::name)
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path and the query of an address may be what opens it.
        f.debug_struct("Webhook").field("name", &self.name).field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(name: &str, url: &str) -> Result<Webhook, Invalid> {
        Webhook::new(name.parse().unwrap(), url, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap())
    }

    #[test]
    fn an_address_is_of_the_web_and_has_no_password() {
        for (url, accepted) in [
            ("https://crm.example/hooks?tenant=1", true),
            ("http://127.0.0.1:8080", true),
            ("https://user:password@crm.example/", false),
            ("ftp://crm.example/", false),
            ("crm.example", false),
            ("https://", false),
            ("", false),
        ] {
            assert_eq!(webhook("crm", url).is_ok(), accepted, "{url}");
        }
        let shown = format!("{:?}", webhook("crm", "https://crm.example/hooks/a-secret-path").unwrap());
        assert!(!shown.contains("a-secret-path") && !shown.contains("MfKQ"), "{shown}");
    }

    #[test]
    fn names_differ_and_are_at_most_eight() {
        let some = |count: usize| (0..count).map(|number| webhook(&format!("{number}"), "http://crm.example").unwrap());
        assert!(Webhooks::new(some(8)).is_ok());
        assert!(matches!(Webhooks::new(some(9)), Err(WebhookError::TooMany)));
        let twice = Webhooks::new(some(3).chain(some(1)));
        assert!(matches!(twice, Err(WebhookError::SameName(name)) if name.as_str() == "0"));
    }
}
