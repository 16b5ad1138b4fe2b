//! The settings of the builder for e-mails.

use std::time::Duration;

use zeroize::Zeroizing;

use super::{Builder, Hidden};
use crate::delivery::ExpiryNotice;
use crate::language::Language;
use crate::mail::{Brand, MailLinks, Sender, Templates};

impl Builder {
    /// Sets the sender of e-mails. The default is [`Sender::default`].
    #[must_use]
    pub fn sender(mut self, sender: Sender) -> Self {
        self.options.sender = sender;
        self
    }

    /// Sets the templates of e-mails.
    #[must_use]
    pub fn templates(mut self, templates: Templates) -> Self {
        self.templates = templates;
        self
    }

    /// Sets the language of e-mails about products that have no language of their own. The default is English. A
    /// language without templates falls back to English. The buyer's page is in the first of these languages into which
    /// it is translated: the product's language, the languages of the browser, this language, English.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.options.language = language;
        self
    }

    /// Sets the notice period: how many days in advance buyers are notified that their key expires. The default is 14
    /// days.
    #[must_use]
    pub fn expiry_notice(mut self, notice: ExpiryNotice) -> Self {
        self.options.expiry_notice = notice;
        self
    }

    /// Sets how long a lease on an e-mail lasts. The default is 45 seconds. A server leases the e-mails that it sends,
    /// and renews these leases meanwhile, so that no other server sends the same e-mails. If the server crashes,
    /// another server sends the e-mails after this time. A lease is renewed after a third of this time, so no lease
    /// expires if the store is unavailable for less than two thirds of it. A time below 1 second or above 10 minutes is
    /// clamped to this range.
    #[must_use]
    pub fn mail_lease(mut self, lease: Duration) -> Self {
        self.mail_lease = lease.clamp(Duration::from_secs(1), Duration::from_mins(10));
        self
    }

    /// Sets the URLs that e-mails to buyers contain. The default is `/api/product` below the [base
    /// URL](Self::base_url). If the buyer's page is served, the default also includes `/key` and, if the store keeps
    /// requests for lost keys, `/key/lost`.
    ///
    /// ```
    /// # use delivery_core::{delivery::Builder, mail::MailLinks};
    /// fn without_our_api(builder: Builder) -> Builder {
    ///     let page = Some("https://shop.example/account/downloads".to_owned());
    ///     builder.mail_links(MailLinks { page, ..MailLinks::default() })
    /// }
    /// ```
    #[must_use]
    pub fn mail_links(mut self, links: MailLinks) -> Self {
        self.mail_links = Some(links);
        self
    }

    /// Sets the shop's brand in e-mails. Parts that `brand` does not set are taken from the theme of the
    /// [pages](Self::pages), if there is one.
    #[must_use]
    pub fn brand(mut self, brand: Brand) -> Self {
        self.brand = Some(brand);
        self
    }

    /// Sets whether e-mails about all products show how to fetch the product with `curl`. By default only e-mails about
    /// products of type `api` show it. If e-mails do not link to a [page](MailLinks::page), all of them show it.
    #[must_use]
    pub fn mail_curl(mut self, shows: bool) -> Self {
        self.options.mail_curl = shows;
        self
    }

    /// Sets the URL at which the API is mounted, such as `https://shop.example`. Buyers see it in e-mails. The default
    /// is `http://localhost`. A host application that serves products on a route of its own also sets
    /// [`mail_links`](Self::mail_links).
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.options.base_url = Some(base_url.into());
        self
    }

    /// Sets `route`, a text with the settings of the mail server, which may contain a password. The text does not
    /// configure the mailer. The service only compares it, to find out whether the settings have changed: the next
    /// [start](crate::Delivery::start) retries the messages, including webhooks, that failed with another `route` or
    /// another sender.
    #[must_use]
    pub fn mail_route(mut self, route: impl Into<String>) -> Self {
        self.mail_route = Hidden(Zeroizing::new(route.into()));
        self
    }
}
