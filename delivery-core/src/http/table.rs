//! The endpoint table: a row says everything about an endpoint.
//!
//! Each row is defined next to its handler, and the [pipeline](super::pipeline) reads it. To add an endpoint, add a
//! variant of [`Endpoint`] and its row here, write the row and the handler in a file of their own or beside similar
//! ones, add the types of the answer to [`wire`](super::wire), and write its tests.

use ::http::Method;

use super::body::BodyRule;
use super::row::{Handler, Row, Verb};
use super::{admin, buyer, lists, openapi, order};
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
    /// The description of all of these.
    OpenApi,
}

impl Endpoint {
    /// Every endpoint.
    pub const ALL: &'static [Self] = &[
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

    pub(super) fn row(self) -> &'static Row {
        match self {
            Self::Validate => &buyer::VALIDATE,
            Self::Product => &buyer::PRODUCT,
            Self::Order => &order::ORDER,
            Self::Products => &lists::PRODUCTS,
            Self::Posts => &lists::POSTS,
            Self::AddProduct => &admin::ADD_PRODUCT,
            Self::IssueKey => &admin::ISSUE_KEY,
            Self::AddPost => &admin::ADD_POST,
            Self::OpenApi => &openapi::DESCRIBE,
        }
    }

    /// Whether `delivery` has what the endpoint needs: the webhook secret, or somebody who is the seller. An endpoint without
    /// it answers 404, and bindings do not mount it.
    #[must_use]
    pub fn is_served_by(self, delivery: &Delivery) -> bool {
        match self.row().handler {
            Handler::Public(_) | Handler::Key(_) | Handler::Product(_) => true,
            Handler::Platform(_) => delivery.inner.webhook_secret.is_some(),
            Handler::Seller(_) => delivery.inner.seller.is_some(),
        }
    }

    /// The path, relative to where the API is mounted. No two endpoints share one.
    #[must_use]
    pub fn path(self) -> &'static str {
        self.row().path
    }

    /// The method; HEAD goes with GET.
    #[must_use]
    pub fn method(self) -> Method {
        match self.row().verb {
            Verb::Get => Method::GET,
            Verb::Post => Method::POST,
        }
    }

    /// The codes this endpoint can answer with, beside a success.
    #[must_use]
    pub fn codes(self) -> &'static [ErrorCode] {
        self.row().codes
    }

    /// The largest body in bytes; 0 for an endpoint that takes none.
    #[must_use]
    pub fn body_limit(self) -> usize {
        match self.row().body {
            BodyRule::None => 0,
            BodyRule::Json { limit, .. } => limit,
        }
    }
}
