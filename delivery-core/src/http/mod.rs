//! HTTP as values: a [`Call`] goes in, a [`Reply`] comes out, and no framework is involved.
//!
//! Everything the API does on the wire is decided here, once: parsing, limits, authentication, status codes, headers,
//! JSON. A binding mounts one route for each [`Endpoint`] and converts, so two frameworks cannot answer differently.
//!
//! # Writing a binding
//!
//! For each endpoint in [`Endpoint::ALL`], mount its [`path`](Endpoint::path) for *every* method: wrong methods are
//! answered here too. Convert the head of the request into a [`Call`], and hand it to [`Endpoint::serve`] with the body as
//! a stream, which is read only as far as it should be; convert the [`Reply`]. A path below `/api/` that is no endpoint is
//! [`Reply::not_found`].
//!
//! ```
//! # async fn example(delivery: delivery_core::Delivery) {
//! use delivery_core::http::{Call, Endpoint};
//!
//! let call = Call::new(http::Method::GET).query("key=dlv_something");
//! let reply = Endpoint::Validate.call(&delivery, call).await;
//! assert_eq!(reply.status().as_u16(), 401);
//! # }
//! ```

mod address;
mod admin;
mod body;
mod buyer;
mod call;
mod credential;
mod fields;
mod limits;
mod lists;
mod names;
mod openapi;
mod query;
mod reply;
mod webhook;
mod wire;

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};

use ::http::Method;
use bytes::Bytes;
use futures_util::{FutureExt, Stream, stream};

use self::body::Body;
pub use self::call::{Call, is_request_id};
pub use self::credential::Grant;
pub use self::fields::Fault;
pub use self::openapi::OPENAPI;
pub use self::reply::Reply;
use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::limit::Policy;

/// An endpoint of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// Is a key still good?
    Validate,
    /// Fetch a product with a key; counts a use.
    Product,
    /// A commerce platform tells of a paid order.
    Order,
    /// The list of products.
    Products,
    /// The list of posts.
    Posts,
    /// The seller adds a product.
    AddProduct,
    /// The seller issues a key by hand.
    IssueKey,
    /// The seller adds a post.
    AddPost,
    /// The description of all of these.
    OpenApi,
}

impl Endpoint {
    /// Every endpoint.
    pub const ALL: [Self; 9] = [
        Self::Validate,
        Self::Product,
        Self::Order,
        Self::Products,
        Self::Posts,
        Self::AddProduct,
        Self::IssueKey,
        Self::AddPost,
        Self::OpenApi,
    ];

    /// The path, relative to where the API is mounted. No two endpoints share one.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Validate => "/api/validate",
            Self::Product => "/api/product",
            Self::Order => "/api/webhook/order",
            Self::Products => "/api/products",
            Self::Posts => "/api/posts",
            Self::AddProduct => "/api/admin/product",
            Self::IssueKey => "/api/admin/issue-key",
            Self::AddPost => "/api/admin/post",
            Self::OpenApi => "/api/openapi.json",
        }
    }

    /// The method; HEAD goes with GET.
    #[must_use]
    pub fn method(self) -> Method {
        match self {
            Self::Validate | Self::Product | Self::Products | Self::Posts | Self::OpenApi => Method::GET,
            Self::Order | Self::AddProduct | Self::IssueKey | Self::AddPost => Method::POST,
        }
    }

    /// The codes this endpoint can answer with, beside a success. Every one has a row in the project's HTTP table.
    #[must_use]
    pub fn codes(self) -> &'static [ErrorCode] {
        use ErrorCode as E;
        match self {
            Self::Validate => &[
                E::MissingParams,
                E::InvalidParams,
                E::InvalidKey,
                E::ExpiredKey,
                E::ExceededUses,
                E::MethodNotAllowed,
                E::RateLimited,
                E::Internal,
                E::Unavailable,
            ],
            Self::Product => &[
                E::MissingParams,
                E::InvalidParams,
                E::InvalidKey,
                E::ExpiredKey,
                E::ExceededUses,
                E::WrongProduct,
                E::NotFound,
                E::MethodNotAllowed,
                E::RateLimited,
                E::Internal,
                E::Unavailable,
            ],
            Self::OpenApi => &[E::MethodNotAllowed],
            Self::Products => &[E::MethodNotAllowed, E::Internal, E::Unavailable],
            Self::Posts => &[E::InvalidParams, E::MethodNotAllowed, E::Internal, E::Unavailable],
            Self::Order | Self::AddProduct | Self::IssueKey | Self::AddPost => &[
                E::MissingParams,
                E::InvalidParams,
                E::Unauthorized,
                E::NotFound,
                E::MethodNotAllowed,
                E::PayloadTooLarge,
                E::UnsupportedMediaType,
                E::RateLimited,
                E::Internal,
                E::Unavailable,
            ],
        }
    }

    /// Answers a call whose body is at hand.
    pub async fn call(self, delivery: &Delivery, call: Call) -> Reply {
        let body = stream::iter([Ok::<_, std::convert::Infallible>(call.body.clone())]);
        self.serve(delivery, &call, body).await
    }

    /// Answers a call whose body is still to come: it is read once the limit of the client's address is counted, within
    /// [`body_limit`](Self::body_limit) and 10 s, or 30 s for the seller's.
    ///
    /// A panic in a host's store, limiter or clock is answered like any fault of ours, and goes no further. Faults are
    /// logged with the call's `X-Request-Id`, if it has one that [is fit](is_request_id).
    pub async fn serve<E>(self, delivery: &Delivery, call: &Call, body: impl Stream<Item = Result<Bytes, E>>) -> Reply {
        let fits = call.method == self.method() || (call.method == Method::HEAD && self.method() == Method::GET);
        let reply = if fits {
            let body = pin!(body);
            // What a panic leaves behind is behind locks of its own, or in a transaction that is rolled back.
            let answered = AssertUnwindSafe(self.admitted(delivery, call, body)).catch_unwind().await;
            answered.unwrap_or_else(|_| Reply::panicked())
        } else {
            Reply::error(ErrorCode::MethodNotAllowed).allow(&self.method())
        };
        let reply = if reply.is_fault() { reply.report(call.request_id()) } else { reply };
        let reply = if self.takes_credentials() { reply.confidential() } else { reply };
        if call.method == Method::HEAD { reply.without_body() } else { reply }
    }

    async fn admitted<E>(
        self,
        delivery: &Delivery,
        call: &Call,
        body: Pin<&mut impl Stream<Item = Result<Bytes, E>>>,
    ) -> Reply {
        let ticket = match self.policy() {
            Some(policy) => match limits::admit(delivery, policy, limits::client(delivery, call)).await {
                Ok(ticket) => Some(ticket),
                Err(refused) => return *refused,
            },
            None => None,
        };
        // A stranger's megabytes are not kept.
        let keep = self.policy() != Some(Policy::Admin) || admin::is_admin(delivery, call);
        let body = self.read(&call.headers, body, keep).await;
        let reply = self.answer(delivery, call, &body).await;
        match ticket {
            Some(ticket) => ticket.stamp(reply),
            None => reply,
        }
    }

    /// The buyer's calls in place, the others boxed: the future of each call is as large as the largest of them, and a
    /// framework moves and allocates it.
    async fn answer(self, delivery: &Delivery, call: &Call, body: &Body) -> Reply {
        match self {
            Self::Validate => buyer::validate(delivery, call).await,
            Self::Product => buyer::product(delivery, call).await,
            Self::Order => Box::pin(webhook::order(delivery, call, body)).await,
            Self::Products => lists::products(delivery).await,
            Self::Posts => Box::pin(lists::posts(delivery, call)).await,
            Self::OpenApi => openapi::document(),
            Self::AddProduct | Self::IssueKey | Self::AddPost => {
                Box::pin(admin::answer(self, delivery, call, body)).await
            }
        }
    }

    /// The limit that counts per address before anything else is looked at.
    fn policy(self) -> Option<Policy> {
        match self {
            Self::Validate => Some(Policy::Validate),
            Self::Order => Some(Policy::Webhook),
            Self::AddProduct | Self::IssueKey | Self::AddPost => Some(Policy::Admin),
            // The product's limit is its key's; what is public has none.
            Self::Product | Self::Products | Self::Posts | Self::OpenApi => None,
        }
    }

    fn takes_credentials(self) -> bool {
        !matches!(self, Self::Products | Self::Posts | Self::OpenApi)
    }
}
