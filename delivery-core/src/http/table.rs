//! The endpoint table: each row describes one endpoint completely.
//!
//! Each row is defined next to its handler. The [pipeline](super::pipeline) answers a call according to the row. To add
//! an endpoint:
//!
//! - Add a line to the list below.
//! - Write the row and the handler, in a new file or next to similar endpoints.
//! - Define the types of the reply.
//! - Write tests.

use ::http::Method;

#[cfg(feature = "files")]
use super::api::file;
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
    (
        always { $($(#[$doc:meta])* $endpoint:ident => $row:path;)+ }
        with_files { $($(#[$file_doc:meta])* $file:ident => $file_row:path;)+ }
    ) => {
        /// An endpoint of the API.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Endpoint {
            $($(#[$doc])* $endpoint,)+
            $($(#[$file_doc])* #[cfg(feature = "files")] $file,)+
            /// Receives the signed webhooks of a commerce platform.
            Platform(PlatformPath),
            /// Serves an HTML page.
            #[cfg(feature = "pages")]
            Page(Page),
        }

        const NAMED: &[Endpoint] = &[
            $(Endpoint::$endpoint,)+
            $(#[cfg(feature = "files")] Endpoint::$file,)+
        ];

        impl Endpoint {
            #[cfg(feature = "files")]
            fn needs_files(self) -> bool {
                matches!(self, $(Self::$file)|+)
            }

            pub(super) fn row(self) -> &'static Row {
                match self {
                    $(Self::$endpoint => &$row,)+
                    $(#[cfg(feature = "files")] Self::$file => &$file_row,)+
                    Self::Platform(_) => &webhook::EVENT,
                    #[cfg(feature = "pages")]
                    Self::Page(page) => page.row(),
                }
            }
        }
    };
}

endpoints! {
    always {
        /// Checks whether a key is valid, without counting a use.
        Validate => buyer::VALIDATE;
        /// Returns a product to the holder of a key, and counts a use.
        Product => buyer::PRODUCT;
        /// Receives a paid order, authenticated by the shared webhook secret.
        Order => order::ORDER;
        /// Sends a buyer who lost their keys all unrevoked keys that were issued to their e-mail address.
        Resend => lost::RESEND;
        /// Lists the products.
        Products => lists::PRODUCTS;
        /// Lists the published posts.
        Posts => lists::POSTS;
        /// Adds a product.
        AddProduct => admin::products::ADD_PRODUCT;
        /// Issues a key by hand, without an order.
        IssueKey => admin::keys::ISSUE_KEY;
        /// Adds a post.
        AddPost => admin::posts::ADD_POST;
        /// Lists keys page by page, with filters.
        Keys => admin::keys::KEYS;
        /// Returns a key with its history.
        Key => admin::keys::KEY;
        /// Revokes a key.
        RevokeKey => admin::keys::REVOKE;
        /// Lifts the revocation of a key.
        RestoreKey => admin::keys::RESTORE;
        /// Changes the expiry or the use limit of a key.
        ChangeKey => admin::keys::CHANGE;
        /// Sends a key to its buyer again, or to a corrected address.
        ResendKey => admin::keys::RESEND;
        /// Replaces a key whose text leaked.
        RotateKey => admin::keys::ROTATE;
        /// Lists the messages of the outbox.
        Messages => admin::records::MESSAGES;
        /// Queues a failed message for sending again.
        RetryMessage => admin::records::RETRY_MESSAGE;
        /// Lists the events that commerce platforms have reported.
        Inbox => admin::inbox::INBOX;
        /// Applies an event of a platform again.
        ApplyEvent => admin::inbox::APPLY_EVENT;
        /// Dismisses an event of a platform, or all events about one product of the platform.
        DismissEvent => admin::inbox::DISMISS_EVENT;
        /// Sets the secret of a commerce platform.
        SetPlatformSecret => admin::platform::SET_PLATFORM_SECRET;
        /// Lists the entries of the audit log.
        Audit => admin::records::AUDIT;
        /// Changes a product.
        UpdateProduct => admin::products::UPDATE_PRODUCT;
        /// Stops selling a product.
        ArchiveProduct => admin::products::ARCHIVE_PRODUCT;
        /// Sells an archived product again.
        RestoreProduct => admin::products::RESTORE_PRODUCT;
        /// Changes a post.
        UpdatePost => admin::posts::UPDATE_POST;
        /// Deletes a post.
        DeletePost => admin::posts::DELETE_POST;
        /// Erases a customer's e-mail address from keys, messages and the audit log.
        EraseCustomer => admin::records::ERASE;
        /// Returns daily figures, and the number of keys by product and by status.
        Stats => admin::records::STATS;
        /// Returns a preview of an e-mail to a buyer, about an example key.
        PreviewEmail => admin::email::PREVIEW_EMAIL;
        /// Returns a list as a CSV table, or all data about one person as JSON.
        Export => admin::export::EXPORT;
        /// Returns the OpenAPI document.
        OpenApi => openapi::DESCRIBE;
    }
    with_files {
        /// Downloads a file of a product, through a link in the reply of `Product`.
        File => file::FILE;
        /// Adds or replaces a file of a product.
        PutFile => admin::files::PUT_FILE;
        /// Lists the files of a product.
        Files => admin::files::FILES;
        /// Deletes a file of a product.
        DeleteFile => admin::files::DELETE_FILE;
    }
}

impl Endpoint {
    /// Returns every endpoint of the API, without the HTML pages, and without the endpoints of commerce platforms that
    /// the host application adds. [`served_by`](Self::served_by) includes both.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMED.iter().copied().chain(PlatformPath::built_in().map(Self::Platform))
    }

    /// Returns every HTML page, for the seller and for buyers. There are none without the feature `pages`.
    pub fn pages() -> impl Iterator<Item = Self> {
        #[cfg(feature = "pages")]
        let pages = Page::ALL.iter().copied().map(Self::Page);
        #[cfg(not(feature = "pages"))]
        let pages = std::iter::empty();
        pages
    }

    /// Returns every endpoint and page for which [`delivery` is configured](Self::is_served_by). The result includes
    /// the endpoints of commerce platforms that the host application adds. A binding to a web framework mounts one
    /// route for each endpoint and page.
    pub fn served_by(delivery: &Delivery) -> impl Iterator<Item = Self> {
        let known = Self::all().chain(Self::pages());
        let known = known.chain(PlatformPath::of_host(delivery).map(Self::Platform));
        known.filter(move |endpoint| endpoint.is_served_by(delivery))
    }

    /// Returns whether `delivery` is configured for the endpoint. An endpoint without its configuration answers 404,
    /// and bindings do not mount it. Some endpoints need no configuration. Others need one or more of these:
    ///
    /// - the webhook secret
    /// - the commerce platform, or a store that keeps secrets of platforms
    /// - a way to authenticate the seller, such as an admin token
    /// - the HTML pages
    /// - an object store for files
    /// - a store that supports requests for lost keys
    #[must_use]
    pub fn is_served_by(self, delivery: &Delivery) -> bool {
        #[cfg(feature = "files")]
        if self.needs_files() && !delivery.has_files() {
            return false;
        }
        match self.row().handler {
            Handler::Public(_) | Handler::Key(_) | Handler::Product(_) => true,
            Handler::PublicPost(..) => delivery.inner.ledger.office().is_some(),
            #[cfg(feature = "pages")]
            Handler::Page(_) => matches!(self, Self::Page(page) if page.is_served_by(delivery)),
            Handler::SignedWebhook(_) => {
                matches!(self, Self::Platform(path) if delivery.inner.platforms.is_mounted(path.name()))
            }
            #[cfg(feature = "files")]
            Handler::File(_) => true,
            #[cfg(feature = "files")]
            Handler::Upload(_) => delivery.inner.seller.is_some(),
            Handler::SharedSecret(_) => delivery.inner.webhook_secret.is_some(),
            Handler::Seller(_) | Handler::SellerQuery(_) => delivery.inner.seller.is_some(),
        }
    }

    /// Returns the path, relative to where the API is mounted. No two endpoints have the same path. A segment in
    /// braces, such as `{ticket}`, is a parameter. An endpoint with parameters reads them from
    /// [`Call::path`](super::Call::path).
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Platform(path) => path.path(),
            endpoint => endpoint.row().path,
        }
    }

    /// Returns whether `path`, relative to where the API is mounted, is a path of this endpoint. A parameter matches
    /// any one segment that is not empty.
    #[must_use]
    pub fn is_at(self, path: &str) -> bool {
        let pattern = self.path();
        let is_same =
            |(expected, segment): (&str, &str)| expected == segment || expected.starts_with('{') && !segment.is_empty();
        pattern == path
            || pattern.contains('{')
                && pattern.split('/').count() == path.split('/').count()
                && pattern.split('/').zip(path.split('/')).all(is_same)
    }

    /// Returns the method of the endpoint. An endpoint with GET also answers HEAD. A page also accepts POST, with which
    /// browsers send its form.
    #[must_use]
    pub fn method(self) -> Method {
        match self.row().verb {
            Verb::Get => Method::GET,
            #[cfg(feature = "pages")]
            Verb::GetOrPost => Method::GET,
            Verb::Post => Method::POST,
            #[cfg(feature = "files")]
            Verb::Put => Method::PUT,
        }
    }

    /// Returns the error codes that this endpoint can answer with. The list is empty for HTML pages.
    #[must_use]
    pub fn codes(self) -> &'static [ErrorCode] {
        self.row().codes
    }

    /// Returns the maximum size of a request body, in bytes. It is 0 for an endpoint without a body. It is `usize::MAX`
    /// for an upload, because the service checks the size of an upload while the body arrives.
    #[must_use]
    pub fn body_limit(self) -> usize {
        match self.row().body {
            BodyRule::None => 0,
            #[cfg(feature = "files")]
            BodyRule::Streamed => usize::MAX,
            BodyRule::Read { limit, .. } => limit,
        }
    }
}
