//! The table of built-in commerce platforms. The events of a platform are parsed in the platform's own file in
//! [`platform`](crate::platform). A row here defines the rest: the path that the platform calls, how the platform signs
//! its requests, its settings, and the function that creates the [`Platform`].

use std::sync::Arc;

use chrono::TimeDelta;

use super::setting::{Row, Setting, flag, set};
use crate::delivery::SubscriptionGrace;
use crate::order::Source;
use crate::platform::{
    Gumroad, LemonSqueezy, Paddle, Platform, Polar, Secrets, Shopify, Standard, Stripe, WooCommerce,
};
use crate::text::Invalid;

/// The settings of platforms other than their secrets.
#[derive(Debug, Clone)]
pub(crate) struct Details {
    pub(super) paddle_tolerance: TimeDelta,
    pub(super) gumroad_seller: Option<String>,
    pub(super) accept_test_events: bool,
    pub(super) subscription_grace: SubscriptionGrace,
}

impl Default for Details {
    fn default() -> Self {
        let (gumroad_seller, accept_test_events, subscription_grace) = Default::default();
        Self { paddle_tolerance: Paddle::TOLERANCE, gumroad_seller, accept_test_events, subscription_grace }
    }
}

pub(super) static DETAILS: &[Row<Details>] = &[
    on_platforms(
        "PADDLE_TOLERANCE",
        Some("5"),
        "Seconds that a Paddle signature may be old, 1 to 3600",
        |details, text| set(&mut details.paddle_tolerance, seconds(text)),
    ),
    on_platforms(
        "GUMROAD_SELLER_ID",
        None,
        "Your seller_id on Gumroad: events with another one are refused",
        |details, text| set(&mut details.gumroad_seller, seller(text).map(Some)),
    ),
    on_platforms(
        "ACCEPT_TEST_EVENTS",
        Some("false"),
        "Whether test purchases get real keys, true or false",
        |details, text| set(&mut details.accept_test_events, flag(text)),
    ),
    on_platforms(
        "SUBSCRIPTION_GRACE_DAYS",
        Some("3"),
        "Days that a key of a subscription lives longer than it is paid for, 0 to 60",
        |details, text| set(&mut details.subscription_grace, text.parse()),
    ),
];

/// The heading of the settings of platforms.
pub(super) const HEADING: &str = "Commerce platforms";

const fn on_platforms(
    name: &'static str,
    default: Option<&'static str>,
    help: &'static str,
    read: fn(&mut Details, &str) -> Result<(), Invalid>,
) -> Row<Details> {
    Row { setting: Setting::new(name, default, help).under(HEADING), read }
}

/// A function that creates a platform from the platform's secrets and the other settings.
type Build = fn(&Secrets, &Details) -> Result<Arc<dyn Platform>, Invalid>;

/// A row of the table: a commerce platform, which is enabled if its secret is set.
pub(crate) struct PlatformRow {
    /// The path that the platform calls. It ends with the platform's name.
    pub(crate) path: &'static str,
    /// The header fields by which the platform authenticates its requests: the name and a description of each field. A
    /// name that begins with `?` stands for a query parameter instead of a header field.
    #[cfg_attr(
        not(all(test, feature = "sqlite", feature = "files")),
        expect(dead_code, reason = "a test makes the OpenAPI document of it")
    )]
    pub(crate) signed_by: &'static [(&'static str, &'static str)],
    pub(super) secret: Setting,
    /// The setting for the previous secret, which is also accepted.
    pub(super) old: Setting,
    pub(super) build: Build,
}

impl PlatformRow {
    /// Returns the name of the platform.
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

pub(crate) const PLATFORMS: [PlatformRow; 8] = [
    platform(
        "/api/webhook/stripe",
        &[(
            "Stripe-Signature",
            "`t=time,v1=signature`: the time in seconds since 1970, and the HMAC-SHA256 of `time.body` in hex.",
        )],
        [
            "STRIPE_SECRET",
            "Signing secret of the Stripe endpoint, whsec_… Without a platform's secret its address answers 404",
        ],
        ["STRIPE_SECRET_OLD", "Previous Stripe secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Stripe::new(secrets))),
    ),
    platform(
        "/api/webhook/shopify",
        &[
            ("X-Shopify-Hmac-Sha256", "The HMAC-SHA256 of the body in base64."),
            ("X-Shopify-Topic", "What happened, such as `orders/paid`."),
            ("X-Shopify-Shop-Domain", "The domain of the shop."),
            ("X-Shopify-API-Version", "The version of the platform's API."),
            ("X-Shopify-Webhook-Id", "The id of the event. It is the same each time the event is sent."),
        ],
        ["SHOPIFY_SECRET", "Secret that Shopify signs webhooks with"],
        ["SHOPIFY_SECRET_OLD", "Previous Shopify secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Shopify::new(secrets))),
    ),
    platform(
        "/api/webhook/lemonsqueezy",
        &[("X-Signature", "The HMAC-SHA256 of the body in hex.")],
        ["LEMONSQUEEZY_SECRET", "Signing secret of the Lemon Squeezy webhook"],
        ["LEMONSQUEEZY_SECRET_OLD", "Previous Lemon Squeezy secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(LemonSqueezy::new(secrets))),
    ),
    platform(
        "/api/webhook/paddle",
        &[(
            "Paddle-Signature",
            "`ts=time;h1=signature`: the time in seconds since 1970, and the HMAC-SHA256 of `time:body` in hex.",
        )],
        ["PADDLE_SECRET", "Secret key of the Paddle Billing notification destination, pdl_ntfset_…"],
        ["PADDLE_SECRET_OLD", "Previous Paddle secret, also accepted while you replace it"],
        |secrets, details| Ok(Arc::new(Paddle::new(secrets).tolerance(details.paddle_tolerance))),
    ),
    platform(
        "/api/webhook/gumroad",
        &[("?token", "The token that the seller put into the address.")],
        [
            "GUMROAD_TOKEN",
            "Token in the address that Gumroad calls, /api/webhook/gumroad?token=…, at least 16 characters",
        ],
        ["GUMROAD_TOKEN_OLD", "Previous Gumroad token, also accepted while you replace it"],
        |tokens, details| {
            let gumroad = Gumroad::new(tokens)?;
            Ok(Arc::new(match &details.gumroad_seller {
                Some(seller) => gumroad.seller(seller.clone()),
                None => gumroad,
            }))
        },
    ),
    platform(
        "/api/webhook/woocommerce",
        &[
            ("X-WC-Webhook-Signature", "The HMAC-SHA256 of the body in base64."),
            ("X-WC-Webhook-Topic", "What happened, such as `order.updated`."),
        ],
        ["WOOCOMMERCE_SECRET", "Secret of the WooCommerce webhooks"],
        ["WOOCOMMERCE_SECRET_OLD", "Previous WooCommerce secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(WooCommerce::new(secrets))),
    ),
    platform(
        "/api/webhook/polar",
        STANDARD_WEBHOOKS,
        ["POLAR_SECRET", "Secret of the Polar webhook endpoint"],
        ["POLAR_SECRET_OLD", "Previous Polar secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Polar::new(secrets))),
    ),
    platform(
        "/api/webhook/standard",
        STANDARD_WEBHOOKS,
        [
            "STANDARD_SECRET",
            "Secret of any sender of Standard Webhooks, such as Svix: base64, after whsec_ or without it",
        ],
        ["STANDARD_SECRET_OLD", "Previous Standard Webhooks secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Standard::new(secrets)?)),
    ),
];

const fn platform(
    path: &'static str,
    signed_by: &'static [(&'static str, &'static str)],
    [secret, help]: [&'static str; 2],
    [old, old_help]: [&'static str; 2],
    build: Build,
) -> PlatformRow {
    let secret = Setting::secret(secret, help).under(HEADING);
    PlatformRow { path, signed_by, secret, old: Setting::secret(old, old_help).under(HEADING), build }
}

fn seller(text: &str) -> Result<String, Invalid> {
    let is_name = !text.contains(char::is_whitespace);
    is_name.then(|| text.to_owned()).ok_or(Invalid::expected("must be your seller_id, without spaces"))
}

fn seconds(text: &str) -> Result<TimeDelta, Invalid> {
    const EXPECTED: Invalid = Invalid::expected("must be 1 to 3600 seconds");
    let seconds = text.parse::<u16>().ok().filter(|seconds| (1..=3600).contains(seconds)).ok_or(EXPECTED)?;
    Ok(TimeDelta::seconds(seconds.into()))
}
