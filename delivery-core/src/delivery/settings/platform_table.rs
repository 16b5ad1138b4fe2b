//! The table of built-in commerce platforms. The events of a platform are parsed in the platform's own file in
//! [`platform`](crate::platform). A row here defines the rest:
//!
//! - the path that the platform calls
//! - how the platform signs its requests
//! - what the desk (the seller's web pages) says about the platform
//! - the settings of the platform
//! - the function that creates the [`Platform`]

use std::sync::Arc;

use chrono::TimeDelta;

use super::setting::Setting;
use crate::order::Source;
use crate::platform::{
    Gumroad, LemonSqueezy, Paddle, Platform, Polar, Secrets, Shopify, Standard, Stripe, WooCommerce,
};
use crate::text::Invalid;

/// The settings that belong to a single platform, except the secrets.
#[derive(Debug, Clone)]
pub(crate) struct Details {
    pub(super) paddle_tolerance: TimeDelta,
    pub(super) gumroad_seller: Option<String>,
}

impl Default for Details {
    fn default() -> Self {
        Self { paddle_tolerance: Paddle::TOLERANCE, gumroad_seller: None }
    }
}

/// The heading above the settings of platforms in a program's `--help`.
pub(super) const HEADING: &str = "Commerce platforms";

/// A function that creates a platform from the platform's secrets and the other settings.
type Build = fn(&Secrets, &Details) -> Result<Arc<dyn Platform>, Invalid>;

/// A row of the table: a commerce platform, which is enabled if its secret is set.
pub(crate) struct PlatformRow {
    /// The path that the platform calls. It ends with the platform's name.
    pub(crate) path: &'static str,
    /// What the desk (the seller's web pages) says about the platform.
    #[cfg_attr(not(feature = "pages"), expect(dead_code, reason = "only the desk shows it"))]
    pub(crate) guide: Guide,
    /// The header fields by which the platform authenticates its requests: the name and a description of each field. A
    /// name that begins with `?` stands for a query parameter instead of a header field.
    #[cfg_attr(
        not(all(test, feature = "sqlite", feature = "files")),
        expect(dead_code, reason = "a test makes the OpenAPI document of it")
    )]
    pub(crate) signed_by: &'static [(&'static str, &'static str)],
    /// Whether the body may be a form instead of JSON.
    #[cfg_attr(
        not(all(test, feature = "sqlite", feature = "files")),
        expect(dead_code, reason = "a test makes the OpenAPI document of it")
    )]
    pub(crate) takes_form: bool,
    pub(super) secret: Setting,
    /// The setting for the previous secret, which is also accepted.
    pub(super) old: Setting,
    pub(super) build: Build,
}

/// What the desk (the seller's web pages) says about a platform, so that the seller can set it up.
#[cfg_attr(not(feature = "pages"), expect(dead_code, reason = "only the desk shows it"))]
pub(crate) struct Guide {
    /// The platform's name, as the platform itself writes it.
    pub(crate) name: &'static str,
    /// A list, as text, of the events that the seller must select at the platform. Events that are needed only for
    /// subscriptions come after the words "and for subscriptions".
    pub(crate) events: &'static str,
    /// How the seller sets the secret up.
    pub(crate) secret: SecretGuide,
    /// What the platform's product identifiers look like.
    pub(crate) product_names: NameForm,
}

/// How the seller sets up the secret of a platform.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "pages"), expect(dead_code, reason = "only the desk shows it"))]
pub(crate) struct SecretGuide {
    /// The query of the address that the seller enters at the platform, such as `?token=GUMROAD_TOKEN`; empty if the
    /// address has none.
    pub(crate) query: &'static str,
    /// A sentence that explains `query`; empty if there is nothing to explain.
    pub(crate) hint: &'static str,
    /// The label of the field for the secret.
    pub(crate) label: &'static str,
}

/// What a platform's product identifiers look like. The desk (the seller's web pages) uses this to check an identifier
/// that the seller enters, or to extract it from a URL.
#[cfg_attr(not(feature = "pages"), expect(dead_code, reason = "only the desk reads it"))]
pub(crate) enum NameForm {
    /// Any text.
    Any,
    /// Any text. If the seller enters a URL that contains the text in this variant, such as `gumroad.com/l/`, the
    /// identifier is the path segment after it.
    InUrl(&'static str),
    /// An identifier that begins with one of these prefixes. The second value is an example of an identifier. If the
    /// seller enters a URL, the identifier is the last segment of the URL's path.
    Id(&'static [&'static str], &'static str),
}

impl PlatformRow {
    /// Returns the row of the platform with this name; `None` for a platform of the host application.
    #[cfg(any(feature = "pages", all(test, feature = "sqlite", feature = "files")))]
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PLATFORMS.iter().find(|row| row.path.rsplit('/').next() == Some(name))
    }

    /// Returns the name of the platform, which is the last segment of the path; `None` if that is not a valid name.
    pub(crate) fn name(&self) -> Option<Source> {
        self.path.rsplit('/').next()?.parse().ok()
    }

    /// Makes the platform with these secrets.
    pub(crate) fn make(&self, secrets: &Secrets, details: &Details) -> Result<Arc<dyn Platform>, Invalid> {
        (self.build)(secrets, details)
    }
}

const STANDARD_WEBHOOKS: &[(&str, &str)] = &[
    ("webhook-id", "The id of the event. It is the same each time the event is sent."),
    ("webhook-timestamp", "The time, in seconds since 1970."),
    ("webhook-signature", "`v1,` followed by the HMAC-SHA256 of `id.time.body` in base64."),
];

pub(crate) const PLATFORMS: &[PlatformRow] = &[
    PlatformRow {
        path: "/api/webhook/stripe",
        guide: Guide {
            name: "Stripe",
            events: "checkout.session.completed, checkout.session.async_payment_succeeded, charge.captured, charge.refunded, refund.failed, \
                charge.dispute.created, charge.dispute.funds_withdrawn, charge.dispute.closed, and for subscriptions invoice.paid, \
                invoice_payment.paid, customer.subscription.created, customer.subscription.updated, customer.subscription.deleted",
            secret: SIGNING_SECRET,
            product_names: NameForm::Id(&["plink_", "price_", "prod_"], "plink_1Abc, of a payment link"),
        },
        signed_by: &[(
            "Stripe-Signature",
            "`t=time,v1=signature`: the time in seconds since 1970, and the HMAC-SHA256 of `time.body` in hex.",
        )],
        takes_form: false,
        secret: secret(
            "STRIPE_SECRET",
            "Signing secret of the Stripe endpoint, whsec_… Without a platform's secret its address answers 404",
        ),
        old: secret("STRIPE_SECRET_OLD", "Previous Stripe secret, also accepted while you replace it"),
        build: |secrets, _| Ok(Arc::new(Stripe::new(secrets))),
    },
    PlatformRow {
        path: "/api/webhook/shopify",
        guide: Guide {
            name: "Shopify",
            events: "Order payment, Order cancellation, Refund create",
            secret: SIGNING_SECRET,
            product_names: NameForm::Any,
        },
        signed_by: &[
            ("X-Shopify-Hmac-Sha256", "The HMAC-SHA256 of the body in base64."),
            ("X-Shopify-Topic", "What happened, such as `orders/paid`."),
            ("X-Shopify-Shop-Domain", "The domain of the shop."),
            ("X-Shopify-API-Version", "The version of the platform's API."),
            ("X-Shopify-Webhook-Id", "The id of the event. It is the same each time the event is sent."),
        ],
        takes_form: false,
        secret: secret("SHOPIFY_SECRET", "Secret that Shopify signs webhooks with"),
        old: secret("SHOPIFY_SECRET_OLD", "Previous Shopify secret, also accepted while you replace it"),
        build: |secrets, _| Ok(Arc::new(Shopify::new(secrets))),
    },
    PlatformRow {
        path: "/api/webhook/lemonsqueezy",
        guide: Guide {
            name: "Lemon Squeezy",
            events: "order_created, order_refunded, and for subscriptions subscription_created, subscription_updated, subscription_cancelled, \
                subscription_resumed, subscription_expired, subscription_payment_success, subscription_payment_refunded",
            secret: SIGNING_SECRET,
            product_names: NameForm::Id(&["variant:", "product:"], "variant:501"),
        },
        signed_by: &[("X-Signature", "The HMAC-SHA256 of the body in hex.")],
        takes_form: false,
        secret: secret("LEMONSQUEEZY_SECRET", "Signing secret of the Lemon Squeezy webhook"),
        old: secret("LEMONSQUEEZY_SECRET_OLD", "Previous Lemon Squeezy secret, also accepted while you replace it"),
        build: |secrets, _| Ok(Arc::new(LemonSqueezy::new(secrets))),
    },
    PlatformRow {
        path: "/api/webhook/paddle",
        guide: Guide {
            name: "Paddle",
            events: "transaction.completed, customer.created, customer.updated, adjustment.created, adjustment.updated, and for subscriptions \
                subscription.created, subscription.updated, subscription.canceled",
            secret: SIGNING_SECRET,
            product_names: NameForm::Id(&["pri_", "pro_"], "pri_01abc, of a price"),
        },
        signed_by: &[(
            "Paddle-Signature",
            "`ts=time;h1=signature`: the time in seconds since 1970, and the HMAC-SHA256 of `time:body` in hex.",
        )],
        takes_form: false,
        secret: secret("PADDLE_SECRET", "Secret key of the Paddle Billing notification destination, pdl_ntfset_…"),
        old: secret("PADDLE_SECRET_OLD", "Previous Paddle secret, also accepted while you replace it"),
        build: |secrets, details| Ok(Arc::new(Paddle::new(secrets).tolerance(details.paddle_tolerance))),
    },
    PlatformRow {
        path: "/api/webhook/gumroad",
        guide: Guide {
            name: "Gumroad",
            events: "the ping; by Gumroad's API also refund, dispute, dispute_won, and for subscriptions subscription_ended, \
                subscription_restarted",
            secret: SecretGuide {
                query: "?token=GUMROAD_TOKEN",
                hint: "Gumroad shows no secret. Make up a token of at least 16 letters and digits, and put it in the place of GUMROAD_TOKEN.",
                label: "A token of your own",
            },
            product_names: NameForm::InUrl("gumroad.com/l/"),
        },
        signed_by: &[("?token", "The token that the seller put into the address.")],
        takes_form: true,
        secret: secret(
            "GUMROAD_TOKEN",
            "Token in the address that Gumroad calls, /api/webhook/gumroad?token=…, at least 16 characters",
        ),
        old: secret("GUMROAD_TOKEN_OLD", "Previous Gumroad token, also accepted while you replace it"),
        build: |tokens, details| {
            let gumroad = Gumroad::new(tokens)?;
            Ok(Arc::new(match &details.gumroad_seller {
                Some(seller) => gumroad.seller(seller.clone()),
                None => gumroad,
            }))
        },
    },
    PlatformRow {
        path: "/api/webhook/woocommerce",
        guide: Guide {
            name: "WooCommerce",
            events: "Order created, Order updated, Order restored, and for subscriptions Subscription created, Subscription updated, \
                Subscription switched",
            secret: SIGNING_SECRET,
            product_names: NameForm::Any,
        },
        signed_by: &[
            ("X-WC-Webhook-Signature", "The HMAC-SHA256 of the body in base64."),
            ("X-WC-Webhook-Topic", "What happened, such as `order.updated`."),
        ],
        takes_form: false,
        secret: secret("WOOCOMMERCE_SECRET", "Secret of the WooCommerce webhooks"),
        old: secret("WOOCOMMERCE_SECRET_OLD", "Previous WooCommerce secret, also accepted while you replace it"),
        build: |secrets, _| Ok(Arc::new(WooCommerce::new(secrets))),
    },
    PlatformRow {
        path: "/api/webhook/polar",
        guide: Guide {
            name: "Polar",
            events: "order.paid, order.refunded, and for subscriptions subscription.created, subscription.updated, subscription.canceled, \
                subscription.uncanceled, subscription.revoked",
            secret: SIGNING_SECRET,
            product_names: NameForm::Any,
        },
        signed_by: STANDARD_WEBHOOKS,
        takes_form: false,
        secret: secret("POLAR_SECRET", "Secret of the Polar webhook endpoint"),
        old: secret("POLAR_SECRET_OLD", "Previous Polar secret, also accepted while you replace it"),
        build: |secrets, _| Ok(Arc::new(Polar::new(secrets))),
    },
    PlatformRow {
        path: "/api/webhook/standard",
        guide: Guide {
            name: "Standard Webhooks",
            events: "order.paid, order.refunded, and for subscriptions also subscription.ended",
            secret: SIGNING_SECRET,
            product_names: NameForm::Any,
        },
        signed_by: STANDARD_WEBHOOKS,
        takes_form: false,
        secret: secret(
            "STANDARD_SECRET",
            "Secret of any sender of Standard Webhooks, such as Svix: base64, after whsec_ or without it",
        ),
        old: secret("STANDARD_SECRET_OLD", "Previous Standard Webhooks secret, also accepted while you replace it"),
        build: |secrets, _| Ok(Arc::new(Standard::new(secrets)?)),
    },
];

/// The guide for a platform that shows the seller a signing secret. It is also used for platforms of the host
/// application.
pub(crate) const SIGNING_SECRET: SecretGuide =
    SecretGuide { query: "", hint: "", label: "The signing secret of the webhook" };

const fn secret(name: &'static str, help: &'static str) -> Setting {
    Setting::secret(name, help).under(HEADING)
}
