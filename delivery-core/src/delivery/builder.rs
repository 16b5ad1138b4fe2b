//! The builder of a service, with the defaults.

#[cfg(feature = "files")]
mod files;
mod mail;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
#[cfg(feature = "files")]
use object_store::ObjectStore;
use zeroize::Zeroizing;

use super::{Delivery, Options, Settings, Stores};
use crate::clock::{Clock, SystemClock};
use crate::cross_origin::CrossOrigin;
use crate::entropy::{Entropy, SystemEntropy};
#[cfg(feature = "files")]
use crate::files::Links;
use crate::key::{Keyring, Rule};
use crate::limit::bodies::BodyBudget;
use crate::limit::{Quotas, RateLimiter};
use crate::mail::{Brand, MailLinks, Mailer, Templates};
use crate::observer::Observer;
use crate::secret::{AdminToken, WebhookSecret};
use crate::seller::Seller;
use crate::store::{Catalog, Posts};
use crate::terms::Terms;
#[cfg(feature = "webhooks")]
use crate::webhook::Webhooks;

/// The default of [`Builder::mail_lease`]: how long a server's lease on an e-mail lasts.
const MAIL_LEASE: Duration = Duration::from_secs(45);

/// The smallest budget that [`Builder::body_budget`] sets, in bytes. Smaller values are raised to it.
const LEAST_BODY_BUDGET: usize = 4 << 20;

/// Builds a [`Delivery`]. The required values are arguments of [`Delivery::builder`]; all others have defaults.
///
/// Every value was checked when it was parsed, so [`build`](Self::build) cannot fail.
///
/// ```
/// # use std::sync::Arc;
/// # use delivery_core::{mail::FolderMailer, product::NewProduct, store::SqliteStore};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (store, mail) = (folder.path().join("delivery.db"), folder.path().join("mail"));
/// use delivery_core::{Delivery, limit::{Quota, Quotas}, terms::{Terms, UseLimit, Validity}};
///
/// # let store = Arc::new(SqliteStore::open(store).await?);
/// # let mailer = Arc::new(FolderMailer::open(mail)?);
/// let delivery = Delivery::builder(store, mailer, "a signing secret that is kept".parse()?)
///     .webhook_secret("what the platform sends".parse()?)
///     .admin_token("the-seller-s-token".parse()?)
///     .base_url("https://shop.example")
///     .terms(Terms { validity: Validity::from_days(30)?, limit: UseLimit::from_count(10)? })
///     .quotas(Quotas { product: Quota::per_minute(30)?, ..Quotas::default() })
///     .build();
/// # let _: (Delivery, NewProduct) = (delivery, NewProduct::new("Guide")?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Builder {
    pub(super) stores: Stores,
    pub(super) mailer: Arc<dyn Mailer>,
    pub(super) keyring: Keyring,
    pub(super) webhook_secret: Option<WebhookSecret>,
    pub(super) seller: Option<Arc<dyn Seller>>,
    pub(super) limiter: Option<Arc<dyn RateLimiter>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) templates: Templates,
    pub(super) mail_links: Option<MailLinks>,
    pub(super) brand: Option<Brand>,
    pub(super) mail_lease: Duration,
    pub(super) mail_route: Hidden,
    pub(super) body_budget: usize,
    pub(super) list_details: bool,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    pub(super) rules: Vec<Arc<dyn Rule>>,
    #[cfg(feature = "pages")]
    pub(super) look: Option<crate::look::Look>,
    #[cfg(feature = "files")]
    pub(super) files: Option<Arc<dyn ObjectStore>>,
    #[cfg(feature = "files")]
    pub(super) file_links: Option<Arc<dyn Links>>,
    #[cfg(feature = "files")]
    pub(super) max_file_size: u64,
    #[cfg(feature = "webhooks")]
    pub(super) webhooks: Option<Webhooks>,
    pub(super) options: Options,
}

/// A text that may contain a password. `Debug` does not show it.
#[derive(Default)]
pub(super) struct Hidden(pub(super) Zeroizing<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Delivery {
    /// Returns a builder with all required values: the stores, the mailer, and the keyring that signs keys. `stores` is
    /// either an `Arc` of one store that keeps everything, or a value of type [`Stores`].
    ///
    /// By default the service has only the endpoints for buyers. [`webhook_secret`](Builder::webhook_secret) adds the
    /// endpoint for paid orders; [`admin_token`](Builder::admin_token) or [`seller`](Builder::seller) adds the
    /// endpoints for the seller.
    #[must_use]
    pub fn builder(stores: impl Into<Stores>, mailer: Arc<dyn Mailer>, keyring: Keyring) -> Builder {
        Builder {
            stores: stores.into(),
            mailer,
            keyring,
            webhook_secret: None,
            seller: None,
            limiter: None,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            templates: Templates::default(),
            mail_links: None,
            brand: None,
            mail_lease: MAIL_LEASE,
            mail_route: Hidden::default(),
            body_budget: BodyBudget::DEFAULT,
            list_details: false,
            observers: Vec::new(),
            rules: Vec::new(),
            #[cfg(feature = "pages")]
            look: None,
            #[cfg(feature = "files")]
            files: None,
            #[cfg(feature = "files")]
            file_links: None,
            #[cfg(feature = "files")]
            max_file_size: crate::files::MAX_FILE_SIZE,
            #[cfg(feature = "webhooks")]
            webhooks: None,
            options: Options::default(),
        }
    }
}

impl Settings {
    /// Returns a builder to which these settings are applied.
    #[must_use]
    pub fn builder(self, stores: impl Into<Stores>, mailer: Arc<dyn Mailer>) -> Builder {
        let Self { webhook_secret, admin_tokens, keyring, options } = self;
        Delivery::builder(stores, mailer, keyring)
            .webhook_secret(webhook_secret)
            .seller(Arc::new(admin_tokens))
            .options(options)
    }
}

impl Builder {
    /// Accepts paid orders at [`Endpoint::Order`](crate::http::Endpoint::Order) from callers that send this secret.
    #[must_use]
    pub fn webhook_secret(mut self, secret: WebhookSecret) -> Self {
        self.webhook_secret = Some(secret);
        self
    }

    /// Gives callers the rights of the seller if they send this token as `Authorization: Bearer`. Replaces an earlier
    /// token or [`seller`](Self::seller).
    #[must_use]
    pub fn admin_token(self, token: AdminToken) -> Self {
        self.seller(Arc::new(token))
    }

    /// Lets `seller` authenticate the callers of the seller's endpoints, in place of a token. This is for host
    /// applications with their own sign-in. A builder that was made from [`Settings`](super::Settings) has an admin
    /// token. After this call, that token gives no access.
    #[must_use]
    pub fn seller(mut self, seller: Arc<dyn Seller>) -> Self {
        self.seller = Some(seller);
        self
    }

    /// Reads products from `catalog`, such as the host application's own table, instead of from the store. The API then
    /// cannot edit products, and events from commerce platforms can name a product only by its number in this service.
    /// There are no posts unless [`posts`](Self::posts) is called afterwards.
    #[must_use]
    pub fn catalog(mut self, catalog: Arc<dyn Catalog>) -> Self {
        self.stores = Stores::new(self.stores.ledger, catalog);
        self
    }

    /// Keeps posts (public news about products) in this store.
    #[must_use]
    pub fn posts(mut self, posts: Arc<dyn Posts>) -> Self {
        self.stores.posts = Some(posts);
        self
    }

    /// Sets the rate limiter. The default limiter counts in the memory of this process.
    #[must_use]
    pub fn limiter(mut self, limiter: Arc<dyn RateLimiter>) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Sets the rate limits. The default is [`Quotas::default`].
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.options.quotas = quotas;
        self
    }

    /// Sets the default terms of keys. Each term of a key comes from the call that issues the key; otherwise from the
    /// product; otherwise from these defaults. Without this call, the default terms are 365 days and no limit of uses.
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> Self {
        self.options.terms = terms;
        self
    }

    /// Sets a memory budget: the maximum number of bytes that all request bodies together may use while their senders
    /// are not authenticated yet. The default is 32 MiB. The minimum is 4 MiB, enough for four bodies of the maximum
    /// length. If the bodies exceed the budget, the body that has been open longest is dropped, and its request is
    /// answered 503.
    ///
    /// An attacker can therefore make the service drop a genuine event of a commerce platform. The body of the event
    /// arrives within a few round trips, and the attacker has to fill the whole budget in this time. If the event is
    /// signed with a secret that this server has not read from the store yet, the attacker has time until the store
    /// has answered. The platform then sends the event again. The larger the budget, the more an attacker has to send.
    #[must_use]
    pub fn body_budget(mut self, bytes: usize) -> Self {
        self.body_budget = bytes.max(LEAST_BODY_BUDGET);
        self
    }

    /// Applies all settings in `options`. If `options` has no base URL, the builder's base URL stays as it is. The
    /// platforms in `options` are added to the builder's platforms.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        let base_url = options.base_url.or(self.options.base_url);
        self.options = Options { base_url, platforms: self.options.platforms, ..options };
        self.platforms(options.platforms)
    }

    /// Lets pages of these origins read products and posts, validate keys, and fetch products with a key. By default no
    /// page of another origin may.
    #[must_use]
    pub fn cross_origin(mut self, origins: CrossOrigin) -> Self {
        self.options.cross_origin = origins;
        self
    }

    /// Trusts the header `X-Forwarded-For` of requests from these networks. By default no network is trusted.
    #[must_use]
    pub fn trusted_proxies(mut self, networks: Vec<IpNet>) -> Self {
        self.options.trusted_proxies = networks;
        self
    }

    /// Sets whether the public list of products shows descriptions and prices; by default it does not.
    #[must_use]
    pub fn list_details(mut self, show: bool) -> Self {
        self.list_details = show;
        self
    }

    /// Adds a [rule](Rule) of the host application. A use of a key is checked against the service's own rules first,
    /// then against these rules in the order in which they were added.
    #[must_use]
    pub fn rule(mut self, rule: Arc<dyn Rule>) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds an observer. It is notified of events, such as a key that was issued.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Serves the desk (the web pages for the seller) at `/desk`, and the buyer's page at `/key`. The theme `look` can
    /// disable either of them. Without this call, neither is served.
    #[cfg(feature = "pages")]
    #[must_use]
    pub fn pages(mut self, look: crate::look::Look) -> Self {
        self.look = Some(look);
        self
    }

    /// Sends signed HTTP requests about changes of keys to other programs, such as the host application's own services.
    /// See [`webhook`](crate::webhook).
    #[cfg(feature = "webhooks")]
    #[must_use]
    pub fn webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// Replaces the system clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces the system's source of randomness, for tests.
    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }
}
