//! Webhooks: signed requests that inform other programs, such as a customer database, about issued and changed keys.
//!
//! A [`Webhook`] is a receiver of such requests: a name, an address and a secret. The receiver gets a message when a
//! key is issued, revoked or restored, or when the expiry or the use limit of a key changes. The message is queued in
//! the outbox, in the same commit as the change of the key, so no crash loses the message. The worker that sends the
//! e-mails also sends these messages, and retries them for five days.
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
//! A POST request that follows the [Standard Webhooks](https://www.standardwebhooks.com) specification, for which there
//! are libraries in a dozen languages. It has the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`,
//! and a JSON body. The body describes the key as it is when the request is made, without the key's text.
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
//! - `type` is `key.issued`, `key.revoked`, `key.restored` or `key.changed`.
//! - `timestamp` is the time when the message was queued, or [queued again](crate::Delivery::retry_message) by hand.
//! - Requests may arrive in a different order than the changes were made.
//!
//! # What a receiver answers
//!
//! - Any status from 200 to 299, within 20 seconds, confirms the message.
//! - Status 410 means that the receiver is gone. The message fails at once.
//! - After any other answer, or none, the message is sent again with the same `webhook-id`. So a receiver can ignore an
//!   id that it has seen before. Redirects are not followed.
//!
//! A receiver that cannot be reached, or that takes longer than 20 seconds, gets no requests for half a minute.

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

/// The maximum number of concurrent requests to one receiver. The outbox sends at most 256 messages at once, and there
/// are at most eight receivers. So at least 256 - 8 × 24 = 64 of these messages can be e-mails.
const PLACES: usize = 24;

/// A receiver of webhook requests.
#[derive(Clone)]
pub struct Webhook {
    name: WebhookName,
    url: Url,
    secret: WebhookSigningSecret,
    previous: Option<WebhookSigningSecret>,
    health: Health,
    /// Permits for concurrent requests.
    places: Arc<Semaphore>,
}

/// All receivers of the host application, at most [`MOST_WEBHOOKS`].
#[derive(Debug, Clone)]
pub struct Webhooks {
    all: Vec<Webhook>,
    client: Client,
}

/// Why [`Webhooks::new`] refuses a set of receivers.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// There are more than [`MOST_WEBHOOKS`] receivers.
    #[error("there are more than {MOST_WEBHOOKS} webhooks")]
    TooMany,
    /// Two receivers have the same name.
    #[error("two webhooks are called {0}")]
    SameName(WebhookName),
    /// A receiver has an `https` address, and this machine's root certificates cannot be read.
    #[error("this machine's root certificates cannot be read")]
    NoRoots(#[source] std::io::Error),
}

impl Webhook {
    /// Returns a receiver at `url`. Requests to an `http` address contain buyers' e-mail addresses unencrypted. Use
    /// such an address only for receivers on the same machine or network.
    ///
    /// Waiting messages are stored under `name`. Each message is sent to the address that the receiver with this name
    /// has at the time of sending. If there is no longer a receiver with this name, the message is retried for a day
    /// and then fails.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `url` is not an `http` or `https` address with a host, or if it contains a user name or a
    /// password.
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

    /// Also signs requests with the previous secret. Remove that secret when the receiver accepts the new one.
    #[must_use]
    pub fn previous_secret(mut self, secret: WebhookSigningSecret) -> Self {
        self.previous = Some(secret);
        self
    }

    /// Returns the receiver's name.
    #[must_use]
    pub fn name(&self) -> &WebhookName {
        &self.name
    }
}

impl Webhooks {
    /// Returns a set of receivers, for [`Builder::webhooks`](crate::delivery::Builder::webhooks).
    ///
    /// # Errors
    ///
    /// [`WebhookError`] if there are too many receivers, two have the same name, or a receiver has an `https` address
    /// and this machine's root certificates cannot be read.
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

    /// Returns the names of all receivers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &WebhookName> {
        self.all.iter().map(Webhook::name)
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Show only the host of the address, because its path and its query may contain a secret.
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
