//! Putting a service together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use zeroize::Zeroizing;

use super::SubscriptionGrace;
use super::expiry::ExpiryNotice;
use super::{Delivery, Options, Settings, Stores};
use crate::clock::{Clock, SystemClock};
use crate::entropy::{Entropy, SystemEntropy};
use crate::key::Keyring;
use crate::language::Language;
use crate::limit::bodies::BodyBudget;
use crate::limit::{Quotas, RateLimiter};
use crate::mail::{Mailer, Sender, Templates};
use crate::observer::Observer;
use crate::platform::Platform;
use crate::secret::{AdminToken, WebhookSecret};
use crate::seller::Seller;
use crate::store::{Catalog, Posts};
use crate::terms::Terms;
#[cfg(feature = "webhooks")]
use crate::webhook::Webhooks;

/// How long a lease of the outbox lasts where the host says nothing.
const MAIL_LEASE: Duration = Duration::from_secs(45);

/// The least that the bodies of strangers may hold, in bytes.
const LEAST_BODY_BUDGET: usize = 4 << 20;

/// Builds a [`Delivery`]. The required values are arguments of [`Delivery::builder`]; all others have defaults.
///
/// Every value was checked when it was parsed, so [`build`](Self::build) cannot fail.
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
    pub(super) sender: Sender,
    pub(super) base_url: String,
    pub(super) language: Language,
    pub(super) expiry_notice: ExpiryNotice,
    pub(super) mail_lease: Duration,
    pub(super) mail_route: Hidden,
    pub(super) quotas: Quotas,
    pub(super) terms: Terms,
    pub(super) trusted_proxies: Vec<IpNet>,
    pub(super) body_budget: usize,
    pub(super) list_details: bool,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    #[cfg(feature = "pages")]
    pub(super) look: Option<crate::look::Look>,
    #[cfg(feature = "webhooks")]
    pub(super) webhooks: Option<Webhooks>,
    pub(super) platforms: Vec<Arc<dyn Platform>>,
    pub(super) accept_test_events: bool,
    pub(super) subscription_grace: SubscriptionGrace,
}

/// A text that may hold a password.
#[derive(Default)]
pub(super) struct Hidden(pub(super) Zeroizing<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Delivery {
    /// Returns a builder with all required values: the stores, the mailer, and the keyring that signs keys. `stores` is an
    /// `Arc` of one store that keeps everything, or [`Stores`].
    ///
    /// Without more, the service has the endpoints of buyers. [`webhook_secret`](Builder::webhook_secret) adds the one for
    /// paid orders; [`admin_token`](Builder::admin_token) or [`seller`](Builder::seller) adds those of the seller.
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
            sender: Sender::default(),
            base_url: "http://localhost".to_owned(),
            language: Language::default(),
            expiry_notice: ExpiryNotice::default(),
            mail_lease: MAIL_LEASE,
            mail_route: Hidden::default(),
            quotas: Quotas::default(),
            terms: Terms::default(),
            trusted_proxies: Vec::new(),
            body_budget: BodyBudget::DEFAULT,
            list_details: false,
            observers: Vec::new(),
            #[cfg(feature = "pages")]
            look: None,
            #[cfg(feature = "webhooks")]
            webhooks: None,
            platforms: Vec::new(),
            accept_test_events: false,
            subscription_grace: SubscriptionGrace::default(),
        }
    }
}

impl Settings {
    /// Starts to put a service together, with everything set that these settings say.
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
    /// Takes orders that bring this secret, at [`Endpoint::Order`](crate::http::Endpoint::Order).
    #[must_use]
    pub fn webhook_secret(mut self, secret: WebhookSecret) -> Self {
        self.webhook_secret = Some(secret);
        self
    }

    /// Lets in as the seller who sends this token: `Authorization: Bearer`.
    #[must_use]
    pub fn admin_token(self, token: AdminToken) -> Self {
        self.seller(Arc::new(token))
    }

    /// Asks `seller` who may call the seller's endpoints, in place of a token: the host's own sign-in.
    #[must_use]
    pub fn seller(mut self, seller: Arc<dyn Seller>) -> Self {
        self.seller = Some(seller);
        self
    }

    /// Takes products from `catalog`, such as the host's own table, instead of the store. They can then not be edited
    /// through the API, and there are no posts unless [`posts`](Self::posts) is called afterwards.
    #[must_use]
    pub fn catalog(mut self, catalog: Arc<dyn Catalog>) -> Self {
        self.stores = Stores::new(self.stores.ledger, catalog);
        self
    }

    /// Takes posts from here.
    #[must_use]
    pub fn posts(mut self, posts: Arc<dyn Posts>) -> Self {
        self.stores.posts = Some(posts);
        self
    }

    /// Limits requests elsewhere than in this process.
    #[must_use]
    pub fn limiter(mut self, limiter: Arc<dyn RateLimiter>) -> Self {
        self.limiter = Some(limiter);
        self
    }

    /// Sets the limits; by default the published ones.
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Sets the terms of keys where neither the request nor the product says otherwise; by default 365 days, unlimited.
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    /// Sets who e-mails come from.
    #[must_use]
    pub fn sender(mut self, sender: Sender) -> Self {
        self.sender = sender;
        self
    }

    /// Sets what e-mails look like.
    #[must_use]
    pub fn templates(mut self, templates: Templates) -> Self {
        self.templates = templates;
        self
    }

    /// Sets the language of e-mails about products that have none of their own; by default English. Where there are no
    /// templates in it, e-mails are in English.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = language;
        self
    }

    /// Sets how many days before a key expires its buyer is told; by default 14.
    #[must_use]
    pub fn expiry_notice(mut self, notice: ExpiryNotice) -> Self {
        self.expiry_notice = notice;
        self
    }

    /// How long an e-mail that is being sent belongs to this server, unless it renews that: 45 seconds. When a server crashes,
    /// another one sends its e-mails after this time. The store may be away for two thirds of it.
    #[must_use]
    pub fn mail_lease(mut self, lease: Duration) -> Self {
        self.mail_lease = lease;
        self
    }

    /// How many bytes the bodies of requests may hold together while nobody knows yet who sends them: by default 32 MiB, and at
    /// least 4 MiB, since one body may hold 1 MiB. Beyond that, the body that has been open longest gives way to younger ones: it is
    /// answered 503.
    ///
    /// So a genuine event whose body takes several round trips can lose to a stranger who sends all of the budget meanwhile; its
    /// platform sends it again. The larger the budget, the more that takes.
    #[must_use]
    pub fn body_budget(mut self, bytes: usize) -> Self {
        self.body_budget = bytes.max(LEAST_BODY_BUDGET);
        self
    }

    /// Sets the address that buyers see in e-mails, where the API is mounted: `https://shop.example`. The default e-mail tells
    /// them to fetch the product at `/api/product` below it: a host that serves products by a route of its own sets
    /// [`templates`](Self::templates) too.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        let base_url: String = base_url.into();
        let base_url = base_url.trim_end_matches('/');
        self.base_url = match base_url.split_once("://") {
            Some((scheme, rest)) => format!("{}://{rest}", scheme.to_ascii_lowercase()),
            None => base_url.to_owned(),
        };
        self
    }

    /// Identifies the mail route, in addition to the sender: the settings of the mail server, which may hold a
    /// password. When the route or the sender changes, the next [start](Delivery::start) retries messages that failed
    /// before, and webhooks with them.
    #[must_use]
    pub fn mail_route(mut self, route: impl Into<String>) -> Self {
        self.mail_route = Hidden(Zeroizing::new(route.into()));
        self
    }

    /// Sets everything that `options` has.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        let Options { sender, base_url, language, expiry_notice, trusted_proxies, quotas, terms, platforms } = options;
        let base_url = base_url.unwrap_or_else(|| self.base_url.clone());
        self.platforms(platforms)
            .sender(sender)
            .base_url(base_url)
            .language(language)
            .expiry_notice(expiry_notice)
            .trusted_proxies(trusted_proxies)
            .quotas(quotas)
            .terms(terms)
    }

    /// Trusts `X-Forwarded-For` from these networks; by default from none.
    #[must_use]
    pub fn trusted_proxies(mut self, networks: Vec<IpNet>) -> Self {
        self.trusted_proxies = networks;
        self
    }

    /// Shows description and price in the public list of products; by default they stay out.
    #[must_use]
    pub fn list_details(mut self, show: bool) -> Self {
        self.list_details = show;
        self
    }

    /// Tells `observer` of events; each call adds one.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Serves the seller's desk at `/desk` and the buyer's page at `/key`, which look like that. They are turned off by default.
    #[cfg(feature = "pages")]
    #[must_use]
    pub fn pages(mut self, look: crate::look::Look) -> Self {
        self.look = Some(look);
        self
    }

    /// Tells the host's other programs of keys, by signed requests: see [`webhook`](crate::webhook).
    #[cfg(feature = "webhooks")]
    #[must_use]
    pub fn webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// Takes the time from elsewhere than the system, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes randomness from elsewhere than the system, for tests.
    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }
}
