//! The endpoint table: a row says everything about an endpoint.
//!
//! Each row is defined next to its handler, and the [pipeline](super::pipeline) reads it. To add an endpoint, add a
//! variant of [`Endpoint`] and its row here, write the row and the handler in a file of their own or beside similar
//! ones, add the types of the answer to [`wire`](super::api::wire), and write its tests.

use ::http::Method;

use super::api::webhook::{self, PlatformPath};
use super::api::{admin, buyer, lists, lost, order};
use super::body::BodyRule;
use super::openapi;
#[cfg(feature = "pages")]
use super::pages::Page;
use super::row::{Handler, Row, Verb};
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
    /// A commerce platform reports something, signed in its own way.
    Platform(PlatformPath),
    /// A buyer has lost the keys of an address.
    SendKeys,
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
    /// Keys, found and paged through.
    Keys,
    /// A key with its history.
    Key,
    /// The seller withdraws a key.
    RevokeKey,
    /// The seller gives a key back.
    RestoreKey,
    /// The seller gives a key other terms.
    ChangeKey,
    /// The seller sends a key again.
    ResendKey,
    /// The seller replaces a key whose text leaked.
    RotateKey,
    /// Messages of the outbox.
    Messages,
    /// The seller has a message sent that failed.
    RetryMessage,
    /// What commerce platforms have reported.
    Inbox,
    /// The seller has an event of a platform applied again.
    ApplyEvent,
    /// The seller puts an event of a platform aside, or all of a product.
    DismissEvent,
    /// The audit log.
    Events,
    /// The seller changes a product.
    UpdateProduct,
    /// The seller stops selling a product.
    ArchiveProduct,
    /// The seller changes a post.
    UpdatePost,
    /// The seller deletes a post.
    DeletePost,
    /// The seller has a person forgotten.
    EraseCustomer,
    /// How the shop does.
    Stats,
    /// The description of all of these.
    OpenApi,
    /// A page for people.
    #[cfg(feature = "pages")]
    Page(Page),
}

impl Endpoint {
    /// Every endpoint, but for platforms of the host's own: see [`served_by`](Self::served_by).
    pub const ALL: &'static [Self] = &[
        Self::Validate,
        Self::Product,
        Self::Order,
        Self::Platform(PlatformPath::BUILT_IN[0]),
        Self::Platform(PlatformPath::BUILT_IN[1]),
        Self::Platform(PlatformPath::BUILT_IN[2]),
        Self::Platform(PlatformPath::BUILT_IN[3]),
        Self::Platform(PlatformPath::BUILT_IN[4]),
        Self::Platform(PlatformPath::BUILT_IN[5]),
        Self::Platform(PlatformPath::BUILT_IN[6]),
        Self::Platform(PlatformPath::BUILT_IN[7]),
        Self::SendKeys,
        Self::Products,
        Self::Posts,
        Self::AddProduct,
        Self::IssueKey,
        Self::AddPost,
        Self::Keys,
        Self::Key,
        Self::RevokeKey,
        Self::RestoreKey,
        Self::ChangeKey,
        Self::ResendKey,
        Self::RotateKey,
        Self::Messages,
        Self::RetryMessage,
        Self::Inbox,
        Self::ApplyEvent,
        Self::DismissEvent,
        Self::Events,
        Self::UpdateProduct,
        Self::ArchiveProduct,
        Self::UpdatePost,
        Self::DeletePost,
        Self::EraseCustomer,
        Self::Stats,
        Self::OpenApi,
    ];

    /// Every page for people: the seller's desk, and the buyer's page. None without the feature `pages`.
    pub fn pages() -> impl Iterator<Item = Self> {
        #[cfg(feature = "pages")]
        let pages = Page::ALL.iter().copied().map(Self::Page);
        #[cfg(not(feature = "pages"))]
        let pages = std::iter::empty();
        pages
    }

    /// Every endpoint and page that `delivery` [has what it needs for](Self::is_served_by), platforms of the host's own among
    /// them: what bindings mount.
    pub fn served_by(delivery: &Delivery) -> impl Iterator<Item = Self> {
        let known = Self::ALL.iter().copied().chain(Self::pages());
        let known = known.chain(PlatformPath::of_host(delivery).map(Self::Platform));
        known.filter(move |endpoint| endpoint.is_served_by(delivery))
    }

    pub(super) fn row(self) -> &'static Row {
        match self {
            Self::Validate => &buyer::VALIDATE,
            Self::Product => &buyer::PRODUCT,
            Self::Order => &order::ORDER,
            Self::Platform(_) => &webhook::EVENT,
            Self::SendKeys => &lost::SEND_KEYS,
            Self::Products => &lists::PRODUCTS,
            Self::Posts => &lists::POSTS,
            Self::AddProduct => &admin::ADD_PRODUCT,
            Self::IssueKey => &admin::ISSUE_KEY,
            Self::AddPost => &admin::ADD_POST,
            Self::Keys => &admin::KEYS,
            Self::Key => &admin::KEY,
            Self::RevokeKey => &admin::REVOKE,
            Self::RestoreKey => &admin::RESTORE,
            Self::ChangeKey => &admin::CHANGE,
            Self::ResendKey => &admin::RESEND,
            Self::RotateKey => &admin::ROTATE,
            Self::Messages => &admin::MESSAGES,
            Self::RetryMessage => &admin::RETRY_MESSAGE,
            Self::Inbox => &admin::INBOX,
            Self::ApplyEvent => &admin::APPLY_EVENT,
            Self::DismissEvent => &admin::DISMISS_EVENT,
            Self::Events => &admin::EVENTS,
            Self::UpdateProduct => &admin::UPDATE_PRODUCT,
            Self::ArchiveProduct => &admin::ARCHIVE_PRODUCT,
            Self::UpdatePost => &admin::UPDATE_POST,
            Self::DeletePost => &admin::DELETE_POST,
            Self::EraseCustomer => &admin::ERASE,
            Self::Stats => &admin::STATS,
            Self::OpenApi => &openapi::DESCRIBE,
            #[cfg(feature = "pages")]
            Self::Page(page) => page.row(),
        }
    }

    /// Whether `delivery` has what the endpoint needs: the webhook secret, the platform, somebody who is the seller, pages, or a store that
    /// keeps what it is about. An
    /// endpoint without it answers 404, and bindings do not mount it.
    #[must_use]
    pub fn is_served_by(self, delivery: &Delivery) -> bool {
        match self.row().handler {
            Handler::Public(_) | Handler::Key(_) | Handler::Product(_) => true,
            Handler::PublicPost(..) => delivery.inner.ledger.office().is_some(),
            #[cfg(feature = "pages")]
            Handler::Page(_) => matches!(self, Self::Page(page) if page.is_served_by(delivery)),
            Handler::SignedWebhook(_) => {
                matches!(self, Self::Platform(path) if delivery.inner.platforms.named(path.name()).is_some())
            }
            Handler::SharedSecret(_) => delivery.inner.webhook_secret.is_some(),
            Handler::Seller(_) | Handler::SellerQuery(_) => delivery.inner.seller.is_some(),
        }
    }

    /// The path, relative to where the API is mounted. No two endpoints share one.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Platform(path) => path.path(),
            endpoint => endpoint.row().path,
        }
    }

    /// The method; HEAD goes with GET. Pages take their forms by POST too.
    #[must_use]
    pub fn method(self) -> Method {
        match self.row().verb {
            Verb::Get => Method::GET,
            #[cfg(feature = "pages")]
            Verb::GetOrPost => Method::GET,
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
            BodyRule::Any { limit, .. } => limit,
            #[cfg(feature = "pages")]
            BodyRule::Form { limit, .. } => limit,
        }
    }
}
