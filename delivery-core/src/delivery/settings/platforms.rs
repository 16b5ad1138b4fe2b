//! The settings of commerce platforms. A platform is enabled by its secret, which the seller may also set later, at the
//! desk.

use std::sync::Arc;

use super::platform_table::{DETAILS, Details, PLATFORMS, PlatformRow};
use super::{SettingError, given, read_rows};
use crate::delivery::{Builder, SubscriptionGrace};
use crate::platform::{Platform, Secrets};
use crate::text::Invalid;

/// The commerce platforms whose secrets are set.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PlatformSettings {
    /// The platforms of `STRIPE_SECRET`, `SHOPIFY_SECRET`, `LEMONSQUEEZY_SECRET`, `PADDLE_SECRET` with
    /// `PADDLE_TOLERANCE` in seconds, `GUMROAD_TOKEN` with `GUMROAD_SELLER_ID`, `WOOCOMMERCE_SECRET`, `POLAR_SECRET`
    /// and `STANDARD_SECRET`. The previous secret of each, `STRIPE_SECRET_OLD` and so on, is accepted too.
    pub platforms: Vec<Arc<dyn Platform>>,
    /// `ACCEPT_TEST_EVENTS`: whether test events are applied like real ones, `true` or `false`, by default `false`.
    pub accept_test_events: bool,
    /// `SUBSCRIPTION_GRACE_DAYS`: how many days a subscription's key is valid beyond the time that is paid for, 0 to
    /// 60, by default 3.
    pub subscription_grace: SubscriptionGrace,
    /// The settings other than secrets, for platforms whose secrets the seller sets at the desk.
    details: Details,
}

impl Builder {
    /// Accepts events of this commerce platform, at [`Endpoint::Platform`](crate::http::Endpoint::Platform) with its
    /// name. Of two platforms with the same name, the one added later is used. A platform whose name [cannot end a
    /// path](crate::http::PlatformPath::new) has no endpoint: pass its events to
    /// [`Delivery::receive`](crate::Delivery::receive).
    #[must_use]
    pub fn platform(mut self, platform: impl Platform) -> Self {
        self.platforms.push(Arc::new(platform));
        self
    }

    /// Accepts events of every platform in `settings`, and applies the other settings in it.
    #[must_use]
    pub fn platforms(mut self, settings: PlatformSettings) -> Self {
        let PlatformSettings { platforms, accept_test_events, subscription_grace, details } = settings;
        self.platforms.extend(platforms);
        self.platform_details = details;
        (self.accept_test_events, self.subscription_grace) = (accept_test_events, subscription_grace);
        self
    }

    /// Sets how many days a subscription's key is valid beyond the time that is paid for; by default 3.
    #[must_use]
    pub fn subscription_grace(mut self, grace: SubscriptionGrace) -> Self {
        self.subscription_grace = grace;
        self
    }

    /// Sets whether test events of platforms are applied like real ones, so that keys are issued for them. By default
    /// they are ignored.
    #[must_use]
    pub fn accept_test_events(mut self, accept: bool) -> Self {
        self.accept_test_events = accept;
        self
    }
}

impl PlatformSettings {
    /// Reads these settings by calling `setting` with the name of each. An empty setting counts as absent.
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that is invalid. An `_OLD` secret is also invalid if the secret that
    /// replaces it is not set.
    pub fn read(setting: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        let mut details = Details::default();
        read_rows(DETAILS, &mut details, &setting)?;
        let mut platforms = Vec::new();
        for row in &PLATFORMS {
            platforms.extend(platform(row, &details, &setting)?);
        }
        let Details { accept_test_events, subscription_grace, .. } = details;
        Ok(Self { platforms, accept_test_events, subscription_grace, details })
    }
}

/// Creates the platform of a row. Returns `None` if no secret is set. Checks the current and the previous secret
/// separately, so that an error names the invalid one.
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
