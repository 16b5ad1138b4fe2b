//! The table of settings. A row says everything about a setting: the example servers' flags and `--help`, Rocket's
//! configuration and [`Options::read`] all use it. To add a setting, add a field to [`Options`] and a row here.

use std::sync::Arc;

use chrono::TimeDelta;
use ipnet::IpNet;
use url::Url;

use super::Options;
use crate::delivery::SubscriptionGrace;
use crate::limit::Quota;
use crate::platform::{
    Gumroad, LemonSqueezy, Paddle, Platform, Polar, Secrets, Shopify, Standard, Stripe, WooCommerce,
};
use crate::terms::{UseLimit, Validity};
use crate::text::Invalid;

/// A setting, as a program's `--help` shows it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Setting {
    /// The name of its environment variable, such as `LIMIT_ADMIN`.
    pub name: &'static str,
    /// The value if the setting is absent. `None` if the setting is required, if it has no default, or if `help`
    /// states the default.
    pub default: Option<&'static str>,
    /// What the setting means, without a full stop.
    pub help: &'static str,
    /// The heading of its group. `None` for the first group.
    pub heading: Option<&'static str>,
    /// Whether the value is secret and must not be shown.
    pub is_secret: bool,
}

impl Setting {
    /// Makes a setting of the first group whose value may be shown.
    #[must_use]
    pub const fn new(name: &'static str, default: Option<&'static str>, help: &'static str) -> Self {
        Self { name, default, help, heading: None, is_secret: false }
    }

    /// Makes a secret of the first group, which has no default.
    #[must_use]
    pub const fn secret(name: &'static str, help: &'static str) -> Self {
        Self { is_secret: true, ..Self::new(name, None, help) }
    }

    /// Moves the setting to another group.
    #[must_use]
    pub const fn under(self, heading: &'static str) -> Self {
        Self { heading: Some(heading), ..self }
    }

    /// Lists every setting that [`Settings::read`](super::Settings::read) asks for, group by group.
    pub fn all() -> impl Iterator<Item = Self> {
        let options = OPTIONS.iter().map(|row| row.setting);
        let secrets = PLATFORMS.iter().flat_map(|row| [row.secret, row.old]);
        SECRETS.into_iter().chain(options).chain(secrets).chain(DETAILS.iter().map(|row| row.setting))
    }
}

/// The secrets. All of them are required, except `ADMIN_TOKENS`.
pub(super) const SECRETS: [Setting; 4] = [
    Setting::secret(
        "WEBHOOK_SECRET",
        "Secret that the commerce platform sends, at least 16 characters [default: made on first start]",
    ),
    Setting::secret(
        "ADMIN_TOKEN",
        "Bearer token of the admin endpoints, at least 16 characters [default: made on first start]",
    ),
    Setting::secret(
        "ADMIN_TOKENS",
        "Tokens of several sellers, whom the audit log then tells apart: alice:TOKEN,bob:TOKEN",
    ),
    Setting::secret(
        "KEY_SECRET",
        "Secrets that sign keys, newest first, comma-separated [default: made on first start]",
    ),
];

/// A setting, and how its text is read into a `T`.
pub(super) struct Row<T> {
    pub(super) setting: Setting,
    pub(super) read: fn(&mut T, &str) -> Result<(), Invalid>,
}

const fn row<T>(
    name: &'static str,
    default: Option<&'static str>,
    help: &'static str,
    read: fn(&mut T, &str) -> Result<(), Invalid>,
) -> Row<T> {
    Row { setting: Setting::new(name, default, help), read }
}

fn set<T>(field: &mut T, value: Result<T, Invalid>) -> Result<(), Invalid> {
    *field = value?;
    Ok(())
}

pub(super) static OPTIONS: &[Row<Options>] = &[
    row(
        "MAIL_FROM",
        None,
        "Sender of e-mails; required with SMTP_URL [default: Digital Delivery <delivery@localhost>]",
        |options, text| set(&mut options.sender, text.parse()),
    ),
    row("BASE_URL", None, "Address that buyers see; required with SMTP_URL [default: http://BIND]", |options, text| {
        set(&mut options.base_url, web_address(text).map(Some))
    }),
    row(
        "LANGUAGE",
        Some("en"),
        "Language of e-mails about products that have none of their own, en or de, or one that MAIL_TEMPLATES has",
        |options, text| set(&mut options.language, text.parse()),
    ),
    row(
        "EXPIRY_NOTICE_DAYS",
        Some("14"),
        "Days before a key expires at which its buyer is told; 0 tells nobody",
        |options, text| set(&mut options.expiry_notice, text.parse()),
    ),
    row("TRUSTED_PROXIES", None, "Networks whose X-Forwarded-For is believed, comma-separated", |options, text| {
        set(&mut options.trusted_proxies, networks(text))
    }),
    row("LIMIT_PRODUCT", Some("100"), "Fetches per minute and key", |options, text| {
        set(&mut options.quotas.product, quota(text))
    }),
    row("LIMIT_VALIDATE", Some("60"), "Validations per minute and address", |options, text| {
        set(&mut options.quotas.validate, quota(text))
    }),
    row("LIMIT_WEBHOOK", Some("30"), "Webhook calls per minute and address", |options, text| {
        set(&mut options.quotas.webhook, quota(text))
    }),
    row("LIMIT_ADMIN", Some("10"), "Admin calls per minute and address", |options, text| {
        set(&mut options.quotas.admin, quota(text))
    }),
    row(
        "LIMIT_FAILURES",
        Some("60"),
        "Fetches with a key that does not verify, per minute and address",
        |options, text| set(&mut options.quotas.failures, quota(text)),
    ),
    row(
        "LIMIT_EVENTS",
        Some("600"),
        "New events per minute and commerce platform; those beyond it are applied later",
        |options, text| set(&mut options.quotas.events, quota(text)),
    ),
    row("LIMIT_RESEND", Some("5"), "Requests for lost keys per minute and address", |options, text| {
        set(&mut options.quotas.resend, quota(text))
    }),
    row("LIMIT_DESK", Some("300"), "Views of the desk per minute and session", |options, text| {
        set(&mut options.quotas.desk, quota(text))
    }),
    row(
        "KEY_DAYS",
        Some("365"),
        "Days a key is valid where neither order nor product says otherwise; -1 for ever",
        // Text that is not a number is read as 0, which is refused with the message that says what the setting expects.
        |options, text| set(&mut options.terms.validity, Validity::from_days(text.parse().unwrap_or_default())),
    ),
    row(
        "KEY_USES",
        Some("-1"),
        "Uses of a key where neither order nor product says otherwise; -1 without limit",
        |options, text| set(&mut options.terms.limit, UseLimit::from_count(text.parse().unwrap_or_default())),
    ),
];

/// The settings of platforms other than their secrets.
#[derive(Default)]
pub(super) struct Details {
    paddle_tolerance: Option<TimeDelta>,
    gumroad_seller: Option<String>,
    pub(super) accept_test_events: bool,
    pub(super) subscription_grace: SubscriptionGrace,
}

pub(super) static DETAILS: &[Row<Details>] = &[
    on_platforms(
        "PADDLE_TOLERANCE",
        Some("5"),
        "Seconds that a Paddle signature may be old, 1 to 3600",
        |details, text| set(&mut details.paddle_tolerance, seconds(text).map(Some)),
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

/// A function that makes a platform with these secrets.
type Build = fn(&Secrets, &Details) -> Result<Arc<dyn Platform>, Invalid>;

/// A platform, which is enabled if its secret is set.
pub(super) struct PlatformRow {
    pub(super) secret: Setting,
    /// The secret that `secret` replaces. It is accepted too.
    pub(super) old: Setting,
    pub(super) build: Build,
}

pub(super) static PLATFORMS: &[PlatformRow] = &[
    platform(
        [
            "STRIPE_SECRET",
            "Signing secret of the Stripe endpoint, whsec_… Without a platform's secret its address answers 404",
        ],
        ["STRIPE_SECRET_OLD", "Previous Stripe secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Stripe::new(secrets))),
    ),
    platform(
        ["SHOPIFY_SECRET", "Secret that Shopify signs webhooks with"],
        ["SHOPIFY_SECRET_OLD", "Previous Shopify secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Shopify::new(secrets))),
    ),
    platform(
        ["LEMONSQUEEZY_SECRET", "Signing secret of the Lemon Squeezy webhook"],
        ["LEMONSQUEEZY_SECRET_OLD", "Previous Lemon Squeezy secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(LemonSqueezy::new(secrets))),
    ),
    platform(
        ["PADDLE_SECRET", "Secret key of the Paddle Billing notification destination, pdl_ntfset_…"],
        ["PADDLE_SECRET_OLD", "Previous Paddle secret, also accepted while you replace it"],
        |secrets, details| {
            let tolerance = details.paddle_tolerance.unwrap_or(Paddle::TOLERANCE);
            Ok(Arc::new(Paddle::new(secrets).tolerance(tolerance)))
        },
    ),
    platform(
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
        ["WOOCOMMERCE_SECRET", "Secret of the WooCommerce webhooks"],
        ["WOOCOMMERCE_SECRET_OLD", "Previous WooCommerce secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(WooCommerce::new(secrets))),
    ),
    platform(
        ["POLAR_SECRET", "Secret of the Polar webhook endpoint"],
        ["POLAR_SECRET_OLD", "Previous Polar secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Polar::new(secrets))),
    ),
    platform(
        [
            "STANDARD_SECRET",
            "Secret of any sender of Standard Webhooks, such as Svix: base64, after whsec_ or without it",
        ],
        ["STANDARD_SECRET_OLD", "Previous Standard Webhooks secret, also accepted while you replace it"],
        |secrets, _| Ok(Arc::new(Standard::new(secrets)?)),
    ),
];

const HEADING: &str = "Commerce platforms";

const fn on_platforms(
    name: &'static str,
    default: Option<&'static str>,
    help: &'static str,
    read: fn(&mut Details, &str) -> Result<(), Invalid>,
) -> Row<Details> {
    Row { setting: Setting::new(name, default, help).under(HEADING), read }
}

/// Makes a row from the names and help texts of the two secrets.
const fn platform([secret, help]: [&'static str; 2], [old, old_help]: [&'static str; 2], build: Build) -> PlatformRow {
    let secret = Setting::secret(secret, help).under(HEADING);
    PlatformRow { secret, old: Setting::secret(old, old_help).under(HEADING), build }
}

fn quota(text: &str) -> Result<Quota, Invalid> {
    const EXPECTED: Invalid = Invalid::expected("must be 1 or more requests per minute, at most 4294967295");
    Quota::per_minute(text.parse().map_err(|_| EXPECTED)?)
}

/// Parses a URL that paths are appended to and that buyers see in e-mails. It has no credentials, query or fragment.
fn web_address(text: &str) -> Result<String, Invalid> {
    let plain = |url: &Url| {
        let credentials = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && !credentials && url.query().is_none() && url.fragment().is_none()
    };
    let url = Url::parse(text).ok().filter(plain);
    url.map(String::from).ok_or(Invalid::expected("must be an address such as https://shop.example"))
}

fn networks(list: &str) -> Result<Vec<IpNet>, Invalid> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let network = |entry: &str| {
        let address = || entry.parse::<std::net::IpAddr>().map(IpNet::from);
        entry
            .parse()
            .or_else(|_| address())
            .map_err(|_| Invalid::expected("must be networks such as 10.0.0.0/8,fd00::/8"))
    };
    entries.map(network).collect()
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

fn flag(text: &str) -> Result<bool, Invalid> {
    text.parse().map_err(|_| Invalid::expected("must be true or false"))
}
