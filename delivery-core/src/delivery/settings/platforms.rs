//! The settings of commerce platforms: a platform without a secret does not exist.

use std::sync::Arc;

use super::rows::{DETAILS, Details, PLATFORMS, PlatformRow};
use super::{SettingError, given, read_rows};
use crate::delivery::{Builder, SubscriptionGrace};
use crate::platform::{Platform, Secrets};
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
    /// Reads these settings by calling `setting` with the name of each. A setting that is absent or empty is none.
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that makes no sense: a secret that cannot be one, or that replaces none.
    pub fn read(setting: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        let mut details = Details::default();
        read_rows(DETAILS, &mut details, &setting)?;
        let mut platforms = Vec::new();
        for row in PLATFORMS {
            platforms.extend(platform(row, &details, &setting)?);
        }
        let Details { accept_test_events, subscription_grace, .. } = details;
        Ok(Self { platforms, accept_test_events, subscription_grace })
    }
}

/// Makes the platform of a row, if its secret is set. Each of the two secrets must fit the platform by itself.
fn platform(
    row: &PlatformRow,
    details: &Details,
    setting: &impl Fn(&'static str) -> Option<String>,
) -> Result<Option<Arc<dyn Platform>>, SettingError> {
    let build = |name, secrets: &[&String]| {
        let built = Secrets::new(secrets.iter().map(|secret| secret.as_str()));
        built.and_then(|secrets| (row.build)(&secrets, details)).map_err(|expected| SettingError { name, expected })
    };
    let (name, old) = (row.secret.name, row.old.name);
    match (given(setting, name), given(setting, old)) {
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let expected = Invalid::expected("must stand beside the secret that replaces it");
            Err(SettingError { name: old, expected })
        }
        (Some(secret), None) => build(name, &[&secret]).map(Some),
        (Some(secret), Some(before)) => {
            build(name, &[&secret])?;
            build(old, &[&before])?;
            build(name, &[&secret, &before]).map(Some)
        }
    }
}
