//! The endpoint table: a row says everything about an endpoint.
//!
//! Each row is defined next to its handler, and the [pipeline](super::pipeline) reads it. To add an endpoint, add a line to the
//! list below, write the row and the handler in a file of their own or beside similar ones, with the types of the answer, and
//! write its tests.

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

macro_rules! endpoints {
    ($($(#[$doc:meta])* $endpoint:ident => $row:path;)+) => {
        /// An endpoint of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Endpoint {
            $($(#[$doc])* $endpoint,)+
            /// A commerce platform reports something, signed in its own way.
            Platform(PlatformPath),
            /// A page for people.
            #[cfg(feature = "pages")]
            Page(Page),
        }

        const NAMED: &[Endpoint] = &[$(Endpoint::$endpoint),+];

        impl Endpoint {
            pub(super) fn row(self) -> &'static Row {
                match self {
                    $(Self::$endpoint => &$row,)+
                    Self::Platform(_) => &webhook::EVENT,
                    #[cfg(feature = "pages")]
                    Self::Page(page) => page.row(),
                }
            }
        }
    };
}

endpoints! {
    /// Is a key still good?
    Validate => buyer::VALIDATE;
    /// Fetch a product with a key; counts a use.
    Product => buyer::PRODUCT;
    /// A commerce platform tells of a paid order.
    Order => order::ORDER;
    /// A buyer has lost the keys of an address.
    SendKeys => lost::SEND_KEYS;
    /// The list of products.
    Products => lists::PRODUCTS;
    /// The list of posts.
    Posts => lists::POSTS;
    /// The seller adds a product.
    AddProduct => admin::ADD_PRODUCT;
    /// The seller issues a key by hand.
    IssueKey => admin::ISSUE_KEY;
    /// The seller adds a post.
    AddPost => admin::ADD_POST;
    /// Keys, found and paged through.
    Keys => admin::KEYS;
    /// A key with its history.
    Key => admin::KEY;
    /// The seller withdraws a key.
    RevokeKey => admin::REVOKE;
    /// The seller gives a key back.
    RestoreKey => admin::RESTORE;
    /// The seller gives a key other terms.
    ChangeKey => admin::CHANGE;
    /// The seller sends a key again.
    ResendKey => admin::RESEND;
    /// The seller replaces a key whose text leaked.
    RotateKey => admin::ROTATE;
    /// Messages of the outbox.
    Messages => admin::MESSAGES;
    /// The seller has a message sent that failed.
    RetryMessage => admin::RETRY_MESSAGE;
    /// What commerce platforms have reported.
    Inbox => admin::INBOX;
    /// The seller has an event of a platform applied again.
    ApplyEvent => admin::APPLY_EVENT;
    /// The seller puts an event of a platform aside, or all of a product.
    DismissEvent => admin::DISMISS_EVENT;
    /// The audit log.
    Events => admin::EVENTS;
    /// The seller changes a product.
    UpdateProduct => admin::UPDATE_PRODUCT;
    /// The seller stops selling a product.
    ArchiveProduct => admin::ARCHIVE_PRODUCT;
    /// The seller changes a post.
    UpdatePost => admin::UPDATE_POST;
    /// The seller deletes a post.
    DeletePost => admin::DELETE_POST;
    /// The seller has a person forgotten.
    EraseCustomer => admin::ERASE;
    /// How the shop does.
    Stats => admin::STATS;
    /// The description of all of these.
    OpenApi => openapi::DESCRIBE;
}

impl Endpoint {
    /// Every endpoint, but for platforms of the host's own: see [`served_by`](Self::served_by).
    #[expect(clippy::indexing_slicing, reason = "it is made when this is compiled")]
    pub const ALL: &'static [Self] = &{
        let platforms = PlatformPath::BUILT_IN;
        let mut all = [Self::OpenApi; NAMED.len() + PlatformPath::BUILT_IN.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = if at < NAMED.len() { NAMED[at] } else { Self::Platform(platforms[at - NAMED.len()]) };
            at += 1;
        }
        all
    };

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

    /// Whether `delivery` has what the endpoint needs: the webhook secret, the platform, somebody who is the seller, pages, or a store
    /// that keeps what it is about. An endpoint without it answers 404, and bindings do not mount it.
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
