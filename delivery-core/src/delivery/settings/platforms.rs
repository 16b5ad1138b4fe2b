//! The settings of commerce platforms: a platform without a secret does not exist.

use std::sync::Arc;

use chrono::TimeDelta;

use super::{SettingError, read};
use crate::delivery::{Builder, SubscriptionGrace};
use crate::platform::{
    Gumroad, LemonSqueezy, Paddle, Platform, Polar, Secrets, Shopify, Standard, Stripe, WooCommerce,
};
use crate::text::Invalid;

/// The platforms that there are secrets for.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PlatformSettings {
    /// `STRIPE_SECRET`, `SHOPIFY_SECRET`, `LEMONSQUEEZY_SECRET`, `PADDLE_SECRET` with `PADDLE_TOLERANCE` in seconds,
    /// `GUMROAD_TOKEN` with `GUMROAD_SELLER_ID`, `WOOCOMMERCE_SECRET`, `POLAR_SECRET` and `STANDARD_SECRET`; and beside each
    /// secret or token the one that it replaces, `STRIPE_SECRET_OLD` and so on.
    pub platforms: Vec<Arc<dyn Platform>>,
    /// `ACCEPT_TEST_EVENTS`: `true` or `false`, the default.
    pub accept_test_events: bool,
    /// `SUBSCRIPTION_GRACE_DAYS`: how many days longer than it is paid for a key of a subscription lives, 0 to 60; 3.
    pub subscription_grace: SubscriptionGrace,
}

impl Builder {
    /// Takes events of this commerce platform, at [`Endpoint::Platform`](crate::http::Endpoint::Platform) with its name. Of two
    /// platforms with one name, the later counts. A name that [cannot end a path](crate::http::PlatformPath::new) has no
    /// endpoint: its events come by [`Delivery::receive`](crate::Delivery::receive).
    #[must_use]
    pub fn platform(mut self, platform: impl Platform) -> Self {
        self.platforms.push(Arc::new(platform));
        self
    }

    /// Takes events of every platform that `settings` has a secret for.
    #[must_use]
    pub fn platforms(mut self, settings: PlatformSettings) -> Self {
        let PlatformSettings { platforms, accept_test_events, subscription_grace } = settings;
        self.platforms.extend(platforms);
        (self.accept_test_events, self.subscription_grace) = (accept_test_events, subscription_grace);
        self
    }

    /// Sets how many days longer than it is paid for a key of a subscription lives; by default 3.
    #[must_use]
    pub fn subscription_grace(mut self, grace: SubscriptionGrace) -> Self {
        self.subscription_grace = grace;
        self
    }

    /// Takes test events of platforms as if they were real: keys are issued for them. By default they are ignored.
    #[must_use]
    pub fn accept_test_events(mut self, accept: bool) -> Self {
        self.accept_test_events = accept;
        self
    }
}

impl PlatformSettings {
    /// The names of all of them.
    pub const NAMES: &'static [&'static str] = &[
        "STRIPE_SECRET",
        "STRIPE_SECRET_OLD",
        "SHOPIFY_SECRET",
        "SHOPIFY_SECRET_OLD",
        "LEMONSQUEEZY_SECRET",
        "LEMONSQUEEZY_SECRET_OLD",
        "PADDLE_SECRET",
        "PADDLE_SECRET_OLD",
        "PADDLE_TOLERANCE",
        "GUMROAD_TOKEN",
        "GUMROAD_TOKEN_OLD",
        "GUMROAD_SELLER_ID",
        "WOOCOMMERCE_SECRET",
        "WOOCOMMERCE_SECRET_OLD",
        "POLAR_SECRET",
        "POLAR_SECRET_OLD",
        "STANDARD_SECRET",
        "STANDARD_SECRET_OLD",
        "ACCEPT_TEST_EVENTS",
        "SUBSCRIPTION_GRACE_DAYS",
    ];

    /// Reads these settings by calling `setting` with the name of each. A setting that is absent or empty is none.
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that makes no sense: a secret that cannot be one, or that replaces none.
    pub fn read(setting: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        let mut platforms: Vec<Arc<dyn Platform>> = Vec::new();
        if let Some(secrets) = secrets(&setting, "STRIPE_SECRET", "STRIPE_SECRET_OLD", |_| Ok(()))? {
            platforms.push(Arc::new(Stripe::new(&secrets)));
        }
        if let Some(secrets) = secrets(&setting, "SHOPIFY_SECRET", "SHOPIFY_SECRET_OLD", |_| Ok(()))? {
            platforms.push(Arc::new(Shopify::new(&secrets)));
        }
        if let Some(secrets) = secrets(&setting, "LEMONSQUEEZY_SECRET", "LEMONSQUEEZY_SECRET_OLD", |_| Ok(()))? {
            platforms.push(Arc::new(LemonSqueezy::new(&secrets)));
        }
        let tolerance = read(&setting, "PADDLE_TOLERANCE", seconds)?;
        if let Some(secrets) = secrets(&setting, "PADDLE_SECRET", "PADDLE_SECRET_OLD", |_| Ok(()))? {
            platforms.push(Arc::new(Paddle::new(&secrets).tolerance(tolerance.unwrap_or(Paddle::TOLERANCE))));
        }
        let seller = read(&setting, "GUMROAD_SELLER_ID", seller)?;
        if let Some(tokens) = secrets(&setting, "GUMROAD_TOKEN", "GUMROAD_TOKEN_OLD", |it| Gumroad::new(it).map(drop))?
        {
            let gumroad = Gumroad::new(&tokens);
            let gumroad = gumroad.map_err(|expected| SettingError { name: "GUMROAD_TOKEN", expected })?;
            platforms.push(Arc::new(match seller {
                Some(seller) => gumroad.seller(seller),
                None => gumroad,
            }));
        }
        if let Some(secrets) = secrets(&setting, "WOOCOMMERCE_SECRET", "WOOCOMMERCE_SECRET_OLD", |_| Ok(()))? {
            platforms.push(Arc::new(WooCommerce::new(&secrets)));
        }
        if let Some(secrets) = secrets(&setting, "POLAR_SECRET", "POLAR_SECRET_OLD", |_| Ok(()))? {
            platforms.push(Arc::new(Polar::new(&secrets)));
        }
        if let Some(secrets) =
            secrets(&setting, "STANDARD_SECRET", "STANDARD_SECRET_OLD", |it| Standard::new(it).map(drop))?
        {
            let standard = Standard::new(&secrets);
            let standard = standard.map_err(|expected| SettingError { name: "STANDARD_SECRET", expected })?;
            platforms.push(Arc::new(standard));
        }
        let accept_test_events = read(&setting, "ACCEPT_TEST_EVENTS", flag)?.unwrap_or(false);
        let subscription_grace = read(&setting, "SUBSCRIPTION_GRACE_DAYS", str::parse)?.unwrap_or_default();
        Ok(Self { platforms, accept_test_events, subscription_grace })
    }
}

/// The secret of a platform, and the one that it replaces, each of which `fits` the platform.
fn secrets(
    setting: impl Fn(&'static str) -> Option<String>,
    current: &'static str,
    old: &'static str,
    fits: impl Fn(&Secrets) -> Result<(), Invalid>,
) -> Result<Option<Secrets>, SettingError> {
    let given = |name| setting(name).filter(|text| !text.is_empty());
    let Some(secret) = given(current) else {
        return match given(old) {
            Some(_) => Err(SettingError {
                name: old,
                expected: Invalid::expected("must stand beside the secret that replaces it"),
            }),
            None => Ok(None),
        };
    };
    let check = |name, secret: &String| {
        let alone = Secrets::new([secret.as_str()]).and_then(|alone| fits(&alone));
        alone.map_err(|expected| SettingError { name, expected })
    };
    check(current, &secret)?;
    let before = given(old);
    before.iter().try_for_each(|before| check(old, before))?;
    let all = Secrets::new([Some(secret), before].into_iter().flatten());
    all.map(Some).map_err(|expected| SettingError { name: current, expected })
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
