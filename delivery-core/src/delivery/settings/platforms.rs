//! The settings of commerce platforms. A platform is enabled by its secret, which the seller may also set later, at the
//! desk (the seller's web pages).

use std::sync::Arc;

use chrono::TimeDelta;

use super::platform_table::{Details, HEADING, PLATFORMS, PlatformRow};
use super::setting::{Row, Setting, flag, set};
use super::{SettingError, given, read_rows};
use crate::delivery::{Builder, SubscriptionGrace};
use crate::platform::{Platform, Secrets};
use crate::text::Invalid;

/// The settings of platforms, except the secrets.
pub(super) static DETAILS: &[Row<PlatformSettings>] = &[
    on_platforms("PADDLE_TOLERANCE", Some("5"), |settings, text| {
        set(&mut settings.details.paddle_tolerance, seconds(text))
    })
    .help("Seconds that a Paddle signature may be old, 1 to 3600"),
    on_platforms("GUMROAD_SELLER_ID", None, |settings, text| {
        set(&mut settings.details.gumroad_seller, seller(text).map(Some))
    })
    .help("Your seller_id on Gumroad: events with another one are refused"),
    on_platforms("ACCEPT_TEST_EVENTS", Some("false"), |settings, text| {
        set(&mut settings.accept_test_events, flag(text))
    })
    .help("Whether test purchases get real keys, true or false"),
    on_platforms("SUBSCRIPTION_GRACE_DAYS", Some("3"), |settings, text| {
        set(&mut settings.subscription_grace, text.parse())
    })
    .help("Days that a key of a subscription lives longer than it is paid for, 0 to 60"),
];

const fn on_platforms(
    name: &'static str,
    default: Option<&'static str>,
    read: fn(&mut PlatformSettings, &str) -> Result<(), Invalid>,
) -> Row<PlatformSettings> {
    Row { setting: Setting::new(name, default, "").under(HEADING), read }
}

/// The commerce platforms whose secrets are set, and the other settings of platforms.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PlatformSettings {
    /// The platforms whose secrets are set: `STRIPE_SECRET`, `SHOPIFY_SECRET`, `LEMONSQUEEZY_SECRET`, `PADDLE_SECRET`,
    /// `GUMROAD_TOKEN`, `WOOCOMMERCE_SECRET`, `POLAR_SECRET` and `STANDARD_SECRET`. The previous secret of each,
    /// `STRIPE_SECRET_OLD` and so on, is accepted too. `PADDLE_TOLERANCE` (in seconds) and `GUMROAD_SELLER_ID` are
    /// further settings of their platforms.
    pub platforms: Vec<Arc<dyn Platform>>,
    /// `ACCEPT_TEST_EVENTS`: whether test events are applied like real ones, `true` or `false`, by default `false`.
    pub accept_test_events: bool,
    /// `SUBSCRIPTION_GRACE_DAYS`: how many days a subscription's key is valid beyond the time that is paid for, 0 to
    /// 60, by default 3.
    pub subscription_grace: SubscriptionGrace,
    /// The settings that belong to a single platform, except the secrets. They also apply to a platform whose secret is
    /// not in the settings, but set later by the seller.
    pub(crate) details: Details,
}

impl Builder {
    /// Accepts events of this commerce platform at the [`Endpoint::Platform`](crate::http::Endpoint::Platform) that has
    /// the platform's name. Of two platforms with the same name, the one added later is used. A platform whose name
    /// [cannot end a path](crate::http::PlatformPath::new) has no endpoint: pass its events to
    /// [`Delivery::receive`](crate::Delivery::receive).
    #[must_use]
    pub fn platform(mut self, platform: impl Platform) -> Self {
        self.options.platforms.platforms.push(Arc::new(platform));
        self
    }

    /// Accepts events of every platform in `settings`, and applies the other settings in it.
    #[must_use]
    pub fn platforms(mut self, settings: PlatformSettings) -> Self {
        let mut platforms = self.options.platforms.platforms;
        platforms.extend(settings.platforms);
        self.options.platforms = PlatformSettings { platforms, ..settings };
        self
    }

    /// Sets how many days a subscription's key is valid beyond the time that is paid for; by default 3.
    #[must_use]
    pub fn subscription_grace(mut self, grace: SubscriptionGrace) -> Self {
        self.options.platforms.subscription_grace = grace;
        self
    }

    /// Sets whether test events of platforms are applied like real ones, so that keys are issued for them. By default
    /// they are ignored.
    #[must_use]
    pub fn accept_test_events(mut self, accept: bool) -> Self {
        self.options.platforms.accept_test_events = accept;
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
        let mut settings = Self::default();
        read_rows(DETAILS, &mut settings, &setting)?;
        for row in PLATFORMS {
            settings.platforms.extend(platform(row, &settings.details, &setting)?);
        }
        Ok(settings)
    }
}

/// Creates the platform that a row of the table of platforms describes. Returns `None` if no secret is set. Checks the
/// current and the previous secret separately, so that an error names the invalid one.
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

fn seller(text: &str) -> Result<String, Invalid> {
    let is_name = !text.contains(char::is_whitespace);
    is_name.then(|| text.to_owned()).ok_or(Invalid::expected("must be your seller_id, without spaces"))
}

fn seconds(text: &str) -> Result<TimeDelta, Invalid> {
    const EXPECTED: Invalid = Invalid::expected("must be 1 to 3600 seconds");
    let seconds = text.parse::<u16>().ok().filter(|seconds| (1..=3600).contains(seconds)).ok_or(EXPECTED)?;
    Ok(TimeDelta::seconds(seconds.into()))
}
