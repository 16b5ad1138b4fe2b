//! Builds a service from the values of a builder.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, Notify, OnceCell, Semaphore};

use super::encoded::EncodedLists;
use super::foreign::KnownAliases;
use super::platforms::Platforms;
use super::{Builder, Delivery, Inner, Options, PlatformSettings, Stores};
#[cfg(feature = "files")]
use crate::files::FileStore;
use crate::ledger::Route;
use crate::limit::MemoryLimiter;
use crate::limit::bodies::BodyBudget;
use crate::mail::{Brand, MailLinks, Outbox};
use crate::observer::Observers;
#[cfg(feature = "webhooks")]
use crate::webhook::Webhooks;

/// The maximum number of exports that run at the same time. An export is a download of a whole table by a seller.
const EXPORTS: usize = 8;

/// The base URL if neither the host application nor the settings set one.
const BASE_URL: &str = "http://localhost";

impl Builder {
    /// Builds the service. Its background work, such as sending e-mails, begins with [`start`](Delivery::start).
    #[must_use]
    pub fn build(mut self) -> Delivery {
        let (route, brand) = (self.route(&self.keyring.pepper()), self.whole_brand());
        let Stores { ledger, catalog, editor, posts, names } = self.stores;
        // This pattern names every field, without `..`, so that the compiler reports an option that is not used here.
        let Options {
            sender,
            base_url: site,
            language,
            expiry_notice,
            mail_curl,
            trusted_proxies,
            cross_origin,
            quotas,
            terms,
            platforms: PlatformSettings { platforms, accept_test_events, subscription_grace, details },
        } = self.options;
        let base_url = base_url(site.as_deref().unwrap_or(BASE_URL));
        let keyring = Arc::new(self.keyring);
        let wake = Arc::new(Notify::new());
        let observers = Observers::new(self.observers);
        #[cfg(feature = "webhooks")]
        let webhooks = self.webhooks.iter().flat_map(Webhooks::names).cloned().collect();
        #[cfg(not(feature = "webhooks"))]
        let webhooks = Vec::new();
        #[cfg(feature = "pages")]
        let has_page = self.look.as_ref().is_some_and(crate::look::Look::has_buyer);
        #[cfg(not(feature = "pages"))]
        let has_page = false;
        let answers_lost = ledger.office().is_some();
        let outbox = Outbox {
            ledger: ledger.clone(),
            catalog: catalog.clone(),
            places: Semaphore::new(self.mailer.at_once().clamp(1, Semaphore::MAX_PERMITS)),
            mailer: self.mailer,
            lease: self.mail_lease,
            keyring: keyring.clone(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            templates: self.templates,
            sender: sender.or_named(brand.name.as_deref()),
            links: self.mail_links.unwrap_or_else(|| MailLinks::of(&base_url, has_page, answers_lost)),
            brand,
            shows_commands: mail_curl,
            base_url,
            language,
            route,
            wake: wake.clone(),
            observers: observers.clone(),
            #[cfg(feature = "webhooks")]
            webhooks: self.webhooks,
        };
        let limiter = self.limiter.unwrap_or_else(|| Arc::new(MemoryLimiter::new(self.clock.clone())));
        let inner = Inner {
            exports: Arc::new(Semaphore::new(EXPORTS)),
            ledger,
            catalog,
            editor,
            posts,
            #[cfg(feature = "files")]
            files: self.files.map(|files| FileStore::new(files, self.file_links, self.max_file_size)),
            platforms: Platforms::new(platforms, details, answers_lost, accept_test_events, names),
            subscription_grace,
            limiter,
            rules: self.rules.into_iter().collect(),
            clock: self.clock,
            entropy: self.entropy,
            keyring,
            aliases: KnownAliases::default(),
            webhook_secret: self.webhook_secret,
            #[cfg(feature = "pages")]
            tokens: self.seller.as_ref().and_then(|seller| seller.tokens()),
            seller: self.seller,
            quotas,
            terms,
            expiry_notice,
            trusted_proxies,
            bodies: BodyBudget::new(self.body_budget),
            list_details: self.list_details,
            cross_origin,
            outbox: Arc::new(outbox),
            wake,
            registered: OnceCell::new(),
            encoded: EncodedLists::default(),
            described: OnceLock::new(),
            asked: Notify::new(),
            #[cfg(feature = "pages")]
            look: self.look.map(Arc::new),
            #[cfg(feature = "pages")]
            shelf: crate::look::Shelf::default(),
            #[cfg(feature = "pages")]
            counted: std::sync::Mutex::default(),
            #[cfg(feature = "pages")]
            adding: Arc::default(),
            counting: Mutex::default(),
            wrong_sign_ins: AtomicU64::default(),
            observers,
            webhooks,
        };
        Delivery { inner: Arc::new(inner) }
    }

    /// Returns the brand that e-mails show. Parts that the host application has not set are taken from the theme of the
    /// pages.
    fn whole_brand(&mut self) -> Brand {
        let brand = self.brand.take().unwrap_or_default();
        #[cfg(feature = "pages")]
        let brand = brand.or(self.look.as_ref().map_or_else(Brand::default, crate::look::Look::brand));
        brand
    }

    /// Returns a hash of the sender and of the mail route (a text with the settings of the mail server). The hash
    /// includes the secret `pepper`, because the mail route may contain a password. Without `pepper`, somebody who can
    /// read the store could guess the password and check each guess against the hash.
    fn route(&self, pepper: &[u8]) -> Route {
        let digest = Sha256::new_with_prefix(pepper)
            .chain_update(self.options.sender.to_string())
            .chain_update([0])
            .chain_update(self.mail_route.0.as_bytes());
        let mut route = [0; 16];
        route.iter_mut().zip(digest.finalize()).for_each(|(to, from)| *to = from);
        Route::from_bytes(route)
    }
}

/// Returns `url` with its scheme in lower case. Removes slashes at its end, because paths are appended to it.
fn base_url(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{}://{rest}", scheme.to_ascii_lowercase()),
        None => url.to_owned(),
    }
}
