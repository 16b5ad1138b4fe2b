//! HTTP as values: a [`Call`] goes in, a [`Reply`] comes out, and no framework is involved.
//!
//! Everything the API does on the wire is decided here, once: parsing, limits, authentication, status codes, headers,
//! JSON. A binding mounts one route for each [`Endpoint`] and converts, so two frameworks cannot answer differently.
//!
//! # Writing a binding
//!
//! For each endpoint in [`Endpoint::ALL`], mount its [`path`](Endpoint::path) for *every* method: wrong methods are
//! answered here too. Convert the request into a [`Call`], reading at most [`body_limit`](Endpoint::body_limit) bytes;
//! await [`Endpoint::call`]; convert the [`Reply`]. A path below `/api/` that is no endpoint is [`Reply::not_found`].
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
mod buyer;
mod call;
mod credential;
mod fields;
mod limits;
mod lists;
mod query;
mod reply;
mod webhook;
mod wire;

use ::http::Method;

pub use self::call::{Body, Call};
pub use self::credential::granted;
pub use self::fields::Fault;
pub use self::reply::Reply;
use crate::delivery::Delivery;
use crate::error::ErrorCode;

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
}

impl Endpoint {
    /// Every endpoint.
    pub const ALL: [Self; 8] = [
        Self::Validate,
        Self::Product,
        Self::Order,
        Self::Products,
        Self::Posts,
        Self::AddProduct,
        Self::IssueKey,
        Self::AddPost,
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
        }
    }

    /// The method; HEAD goes with GET.
    #[must_use]
    pub fn method(self) -> Method {
        match self {
            Self::Validate | Self::Product | Self::Products | Self::Posts => Method::GET,
            Self::Order | Self::AddProduct | Self::IssueKey | Self::AddPost => Method::POST,
        }
    }

    /// The largest body in bytes: 64 KiB for the webhook, 2 MiB for the seller, none for the rest.
    #[must_use]
    pub fn body_limit(self) -> usize {
        match self {
            Self::Validate | Self::Product | Self::Products | Self::Posts => 0,
            Self::Order => 64 << 10,
            Self::AddProduct | Self::IssueKey | Self::AddPost => 2 << 20,
        }
    }

    /// Answers a call to this endpoint.
    pub async fn call(self, delivery: &Delivery, call: Call) -> Reply {
        let reply = match (call.method == self.method(), call.method == Method::HEAD && self.method() == Method::GET) {
            (false, false) => Reply::error(ErrorCode::MethodNotAllowed).allow(&self.method()),
            _ => self.answer(delivery, &call).await,
        };
        let reply = if self.takes_credentials() { reply.confidential() } else { reply };
        if call.method == Method::HEAD { reply.without_body() } else { reply }
    }

    async fn answer(self, delivery: &Delivery, call: &Call) -> Reply {
        match self {
            Self::Validate => buyer::validate(delivery, call).await,
            Self::Product => buyer::product(delivery, call).await,
            Self::Order => webhook::order(delivery, call).await,
            Self::Products => lists::products(delivery).await,
            Self::Posts => lists::posts(delivery, call).await,
            Self::AddProduct | Self::IssueKey | Self::AddPost => admin::answer(self, delivery, call).await,
        }
    }

    fn takes_credentials(self) -> bool {
        !matches!(self, Self::Products | Self::Posts)
    }
}
