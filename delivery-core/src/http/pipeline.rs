//! The pipeline handles every call in the same steps. The endpoint's row of the [table](super::table) determines what
//! each step does. The order of the steps is:
//!
//! ```text
//! method ──► limit per address ──► body (size, type) ──► credential ──► fields ──► handler ──► headers
//! ```
//!
//! A CORS preflight from a page of an allowed origin is answered before the method is checked. No rate limit counts a
//! preflight.
//!
//! Some endpoints deviate from this order. Endpoints that take a key check the parameters before the key.
//! `/api/product` counts the call against the quota of the key after verifying the key. Seller endpoints authenticate
//! the seller before they read the body. Platform webhooks count only requests without a valid signature, after
//! checking the signature.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};

use bytes::Bytes;
#[cfg(feature = "files")]
use futures_util::StreamExt;
use futures_util::{FutureExt, Stream, stream};

use super::api::{buyer, webhook};
use super::body::{Keep, read};
use super::cross_origin::{self, is_preflight, permission};
use super::describe::SECRET;
use super::error::ApiError;
use super::fields::{Fields, whole};
use super::limits::{admit, client, forged};
#[cfg(feature = "pages")]
use super::pages;
use super::proof::{Event, Judged, Seller, SharedSecret, VerifiedKey};
use super::row::Handler;
use super::{Call, Endpoint, Reply, query};
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::limit::{Identity, Policy};
use crate::telemetry;

impl Endpoint {
    /// Answers a call whose body was already read into [`Call::body`].
    pub async fn call(self, delivery: &Delivery, call: Call) -> Reply {
        let body = stream::iter([Ok::<_, Infallible>(call.body.clone())]);
        self.serve(delivery, &call, body).await
    }

    /// Answers a call whose body has not been read yet. If the endpoint has a rate limit per client address, the call
    /// is counted before the body is read. At most [`body_limit`](Self::body_limit) bytes of the body are accepted.
    /// They must arrive within 10 s, or within 30 s at the seller's API endpoints and in the desk's forms for products
    /// and posts. Uploads have limits of their own.
    ///
    /// A panic in the host application's store, limiter or clock is caught and answered like any other internal error.
    /// Failures are logged with the call's `X-Request-Id`, if it [may be logged](super::is_request_id).
    pub async fn serve<E>(
        self,
        delivery: &Delivery,
        call: &Call,
        body: impl Stream<Item = Result<Bytes, E>> + Send,
    ) -> Reply {
        let row = self.row();
        let started = telemetry::started();
        let origins = &delivery.inner.cross_origin;
        let allowed = if row.cross_origin { origins.allowed(&call.headers) } else { None };
        let reply = if !self.is_served_by(delivery) {
            Reply::not_found()
        } else if allowed.is_some() && is_preflight(call) {
            permission(row.verb.allowed())
        } else if row.verb.takes(&call.method) {
            let body = pin!(body);
            // `AssertUnwindSafe` is justified: a panic can interrupt only changes to state behind locks, and changes in
            // a transaction of the store, which the store then rolls back.
            let answered = AssertUnwindSafe(pin!(limited(self, delivery, call, body))).catch_unwind().await;
            answered.unwrap_or_else(|_| Reply::panicked())
        } else {
            Reply::error(ErrorCode::MethodNotAllowed).allow(row.verb.allowed())
        };
        let reply = if reply.is_fault() { reply.report(call.request_id()) } else { reply };
        let reply = if row.is_confidential() { reply.confidential() } else { reply };
        let reply = if row.cross_origin { cross_origin::apply(origins, allowed.as_ref(), reply) } else { reply };
        #[cfg(feature = "pages")]
        let reply = match self {
            Self::Page(page) => pages::error_page(delivery, call, page, reply),
            _ => reply,
        };
        telemetry::answered(self.path(), reply.status(), started);
        if call.method == ::http::Method::HEAD { reply.without_body() } else { reply }
    }
}

async fn limited<E>(
    endpoint: Endpoint,
    delivery: &Delivery,
    call: &Call,
    body: Pin<&mut (impl Stream<Item = Result<Bytes, E>> + Send)>,
) -> Reply {
    let row = endpoint.row();
    let admitted = match row.limit {
        Some(policy) => match admit(delivery, policy, client(delivery, call)).await {
            Ok(admitted) => Some(admitted),
            Err(refused) => return refused.into(),
        },
        None => None,
    };
    let answered = pin!(answer(endpoint, delivery, call, body));
    match admitted {
        Some(admitted) => admitted.reply_of(answered).await,
        None => answered.await.unwrap_or_else(Reply::from),
    }
}

async fn answer<E>(
    endpoint: Endpoint,
    delivery: &Delivery,
    call: &Call,
    body: Pin<&mut (impl Stream<Item = Result<Bytes, E>> + Send)>,
) -> Result<Reply, ApiError> {
    let row = endpoint.row();
    let strangers = Keep::Within(&delivery.inner.bodies);
    match row.handler {
        Handler::Public(handler) => handler(delivery, call).await,
        Handler::PublicPost(address, handler) => {
            let body = read(row.body, &call.headers, body, strangers).await;
            let email = address(&Fields::parse(Fields::text(call, &body)?, row.fields())?)?;
            // Free the memory of the body before the store is queried, which may be slow. A complete body no longer
            // counts against the memory budget of unauthenticated bodies, so nothing else limits this memory.
            drop(body);
            handler(delivery, email).await
        }
        #[cfg(feature = "pages")]
        Handler::Page(shows) => pages::answer((row.path, shows), delivery, call, row.body, body).await,
        Handler::Key(handler) => {
            let text = query::key(call)?;
            let Some(key) = VerifiedKey::of(delivery, &text).await? else {
                delivery.inner.note_refusal(None, &Error::UnknownKey);
                return Err(buyer::not_valid(Error::UnknownKey));
            };
            handler(delivery, key).await
        }
        Handler::Product(handler) => {
            let (text, asked) = query::asked(call)?;
            let Some(key) = VerifiedKey::of(delivery, &text).await? else {
                return Ok(forged(delivery, call).await?.apply(ApiError::from(Error::UnknownKey).into()));
            };
            let admitted = admit(delivery, Policy::Product, Identity::Key(key.id().as_u128())).await?;
            Ok(admitted.reply_of(handler(delivery, call, key, asked)).await)
        }
        Handler::SharedSecret(handler) => {
            let body = read(row.body, &call.headers, body, strangers).await;
            // Check the secret first, so that an unauthenticated caller learns nothing about the other fields.
            let fields = Fields::parse(Fields::text(call, &body)?, row.fields())?;
            let proof = SharedSecret::of(delivery, &fields.required_text(SECRET)?);
            handler(delivery, proof.ok_or(ErrorCode::Unauthorized)?, fields).await
        }
        Handler::SignedWebhook(handler) => {
            let Endpoint::Platform(path) = endpoint else { return Err(ApiError::NOT_FOUND) };
            // The age of the body counts from here, even if the body has to wait for the store below. Otherwise a
            // sender could make an old body the youngest by completing it.
            let held = delivery.inner.bodies.begin();
            let body = read(row.body, &call.headers, body, strangers).await;
            let judged = Event::judge(delivery, path.name(), call, whole(&body)?);
            let judged = match judged {
                Judged::Event(event) => return handler(delivery, event).await,
                judged if judged.may_change(delivery, path.name()) => {
                    held.push(whole(&body)?)?;
                    drop(body);
                    Event::judge_again(delivery, path.name(), call, held).await?
                }
                judged => {
                    // Free the memory of the body before the limiter is called, which may be slow.
                    drop(body);
                    judged
                }
            };
            if let Judged::Unknown = judged {
                return Err(ApiError::NOT_FOUND);
            }
            // Signed events are not counted against the webhook quota of the client's address.
            let admitted = match judged {
                Judged::Event(event) => return handler(delivery, event).await,
                _ => admit(delivery, Policy::Webhook, client(delivery, call)).await?,
            };
            let reply = if let Judged::Ping = judged {
                webhook::received()
            } else {
                delivery.inner.platforms.refuse(path.name(), delivery.inner.clock.now());
                Reply::error(ErrorCode::Unauthorized)
            };
            Ok(admitted.apply(reply))
        }
        Handler::Seller(handler) => {
            let seller = Seller::of(delivery, call).await;
            // Read the body even if the caller is not authenticated, because an error in the size or type of the body
            // is reported before the missing credential. An unauthenticated body is not kept in memory, because it may
            // have up to 2 MiB.
            let body = read(row.body, &call.headers, body, Keep::all_if(seller.is_some())).await;
            let text = Fields::text(call, &body)?;
            handler(delivery, seller.ok_or_else(signed_out)?, Fields::parse(text, row.fields())?).await
        }
        #[cfg(feature = "files")]
        Handler::Upload(handler) => {
            let seller = Seller::of(delivery, call).await.ok_or_else(signed_out)?;
            let pieces = pin!(body.map(|piece| piece.map_err(|_| crate::files::Broken)));
            handler(delivery, seller, call, pieces).await
        }
        #[cfg(feature = "files")]
        Handler::File(handler) => handler(delivery, call).await,
        Handler::SellerQuery(handler) => {
            handler(delivery, Seller::of(delivery, call).await.ok_or_else(signed_out)?, call).await
        }
    }
}

fn signed_out() -> ApiError {
    Reply::error(ErrorCode::Unauthorized).challenge().into()
}
