//! Sending requests to receivers.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::time::timeout;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::body::body;
use super::{Webhook, Webhooks};
use crate::clock::Clock;
use crate::ledger::{LeasedMessage, WebhookName};

/// How long a receiver may take to answer. The Standard Webhooks specification recommends 15 to 30 seconds.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long connecting to a receiver's host may take. If the host has several addresses, they share this time. IPv4 and
/// IPv6 addresses are tried concurrently.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(15);
/// The maximum number of bytes that are read from the body of an answer. The content is ignored. The body is read only
/// so that the connection can be reused.
const ANSWER: usize = 16 * 1024;
/// How long reading the body of an answer may take.
const DRAIN: Duration = Duration::from_secs(2);
const AGENT: &str = concat!("delivery/", env!("CARGO_PKG_VERSION"));

/// An HTTP client with a pool of connections to receivers.
#[derive(Clone)]
pub(super) struct Client(legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// Why a message was not sent, or may not have arrived.
#[derive(Debug, Error)]
pub(crate) enum SendError {
    /// The host application has no webhook of this name.
    #[error("there is no webhook called {0}")]
    Unknown(WebhookName),
    /// The receiver answered 410: it accepts no more messages.
    #[error("the receiver is gone (410)")]
    Gone,
    /// The receiver answered with a status other than 200 to 299 and 410.
    #[error("the receiver answered {}", .0.as_u16())]
    Refused(StatusCode),
    /// The connection failed before an answer arrived.
    #[error("the receiver cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer arrived in time.
    #[error("the receiver took longer than 20 seconds")]
    TooSlow,
    /// The message was not sent, because the maximum number of concurrent requests to the receiver is under way.
    #[error("the receiver is busy with other messages")]
    Busy,
    /// The message was not sent, because the receiver could not be reached a moment ago.
    #[error("the receiver was not reached a moment ago")]
    LeftAlone,
}

impl Client {
    pub(super) fn new(needs_roots: bool) -> io::Result<Self> {
        // Name the crypto provider. rustls has no default provider if another crate of the host application enables a
        // second one.
        let provider = aws_lc_rs::default_provider();
        let builder = HttpsConnectorBuilder::new();
        let builder = if needs_roots {
            builder.with_provider_and_native_roots(provider)?
        } else {
            let config = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions();
            builder.with_tls_config(
                config.map_err(io::Error::other)?.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
            )
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT));
        let connector = builder.https_or_http().enable_http1().wrap_connector(http);
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client.pool_idle_timeout(IDLE).pool_timer(TokioTimer::new());
        Ok(Self(client.build(connector)))
    }
}

impl Webhooks {
    /// Sends a message to the webhook `name`.
    pub(crate) async fn send(
        &self,
        name: &WebhookName,
        message: &LeasedMessage,
        clock: &dyn Clock,
    ) -> Result<(), SendError> {
        let now = clock.now();
        let webhook = self.all.iter().find(|webhook| webhook.name == *name);
        let webhook = webhook.ok_or_else(|| SendError::Unknown(name.clone()))?;
        // This permit is held until the end of this function, when the answer has been read.
        let _place = webhook.places.try_acquire().map_err(|_| SendError::Busy)?;
        if !webhook.health.may_try(now) {
            return Err(SendError::LeftAlone);
        }
        let request = webhook.request(message, now)?;
        let answer = match timeout(TIMEOUT, self.client.0.request(request)).await {
            Ok(Ok(answer)) => answer,
            not_reached => {
                webhook.health.not_reached(clock.now());
                return Err(match not_reached {
                    Ok(Err(error)) => SendError::Unreachable(error.into()),
                    _ => SendError::TooSlow,
                });
            }
        };
        webhook.health.reached();
        let status = answer.status();
        // Read the body only so that the connection can be reused. It does not matter if the body is cut off, too long
        // or too slow, because only the status counts.
        let _ = timeout(DRAIN, Limited::new(answer.into_body(), ANSWER).collect()).await;
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::GONE => Err(SendError::Gone),
            status => Err(SendError::Refused(status)),
        }
    }
}

impl Webhook {
    fn request(&self, message: &LeasedMessage, now: DateTime<Utc>) -> Result<Request<Full<Bytes>>, SendError> {
        // The message id has the form of an e-mail's `Message-ID`. The part before the `@` is random, and is enough to
        // identify the message.
        let id = message.message_id.as_str().split('@').next().unwrap_or_default();
        let body = body(message.kind, message.queued_at, &message.key, now);
        let secrets = [Some(&self.secret), self.previous.as_ref()].into_iter().flatten();
        let signatures: Vec<String> = secrets.filter_map(|secret| secret.sign(id, now.timestamp(), &body)).collect();
        let request = Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, AGENT)
            .header("webhook-id", id)
            .header("webhook-timestamp", now.timestamp())
            .header("webhook-signature", signatures.join(" "));
        request.body(Full::new(body)).map_err(|error| SendError::Unreachable(error.into()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}
