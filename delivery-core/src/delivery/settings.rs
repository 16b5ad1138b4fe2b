//! Settings as text, under the names that the example servers document. They are read from environment variables, from
//! a framework's configuration, or from anything that serde reads.

mod deserialize;
mod platform_table;
mod platforms;
mod rows;
mod setting;

use ipnet::IpNet;
use thiserror::Error;

pub(crate) use self::platform_table::{Details, PLATFORMS, PlatformRow};
#[cfg(feature = "pages")]
pub(crate) use self::platform_table::{NameForm, SIGNING_SECRET, SecretGuide};
pub use self::platforms::PlatformSettings;
use self::rows::{KEY_PREFIX, OPTIONS, SECRETS};
use self::setting::Row;
pub use self::setting::Setting;
use super::expiry::ExpiryNotice;
use crate::cross_origin::CrossOrigin;
use crate::key::{Keyring, Prefix};
use crate::language::Language;
use crate::limit::Quotas;
use crate::mail::Sender;
use crate::secret::{AdminToken, WebhookSecret};
use crate::seller::AdminTokens;
use crate::terms::Terms;
use crate::text::Invalid;

/// All settings that can be given as text. `Deserialize` reads a table of settings, whose names are in lower case. The
/// values are strings, numbers or booleans. If the text of a setting is a list separated by commas, the value may also
/// be a list. An unknown name is an error.
///
/// Some endpoints need a secret. A host application that serves none of them reads only [`Options`], and starts with
/// [`Delivery::builder`](crate::Delivery::builder).
///
/// ```
/// use delivery_core::delivery::Settings;
///
/// let variables = |name: &str| match name {
///     "WEBHOOK_SECRET" | "ADMIN_TOKEN" | "KEY_SECRET" => Some(format!("not-a-good-{name}")),
///     "LIMIT_VALIDATE" => Some("0".to_owned()),
///     _ => None,
/// };
/// let refused = Settings::read(variables).unwrap_err();
/// assert_eq!(refused.to_string(), "LIMIT_VALIDATE must be 1 or more requests per minute");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// `WEBHOOK_SECRET`: the secret that the sender of an order must know, at least 16 characters.
    pub webhook_secret: WebhookSecret,
    /// `ADMIN_TOKEN`: the seller's token, at least 16 characters. `ADMIN_TOKENS`: further tokens, each with the name of
    /// the person who uses it, such as `alice:TOKEN,bob:TOKEN`.
    pub admin_tokens: AdminTokens,
    /// `KEY_SECRET`: the secrets that sign keys, each at least 16 characters, newest first, separated by commas.
    /// `KEY_PREFIX`: what keys begin with, by default `dlv`.
    pub keyring: Keyring,
    /// The settings that have defaults.
    pub options: Options,
}

/// Settings that have defaults.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// `MAIL_FROM`: the sender of e-mails, by default `Digital Delivery <delivery@localhost>`.
    pub sender: Sender,
    /// `BASE_URL`: the URL at which the API is mounted, as buyers see it. If it is `None`, the builder keeps its own
    /// base URL.
    pub base_url: Option<String>,
    /// `LANGUAGE`: the language of e-mails about products that do not set their own, such as `de`. The default is `en`.
    pub language: Language,
    /// `EXPIRY_NOTICE_DAYS`: how many days in advance buyers are notified that their key expires. 0 to 365; the
    /// default is 14. With 0 nobody is notified.
    pub expiry_notice: ExpiryNotice,
    /// `MAIL_CURL`: whether e-mails about all products show how to fetch the product with `curl`, `true` or `false`. By
    /// default only e-mails about products of type `api` do.
    pub mail_curl: bool,
    /// `TRUSTED_PROXIES`: networks or addresses whose `X-Forwarded-For` is trusted, separated by commas.
    pub trusted_proxies: Vec<IpNet>,
    /// `CORS_ORIGINS`: the origins whose pages may use the endpoints for buyers, separated by commas, or `*`.
    pub cross_origin: CrossOrigin,
    /// `LIMIT_PRODUCT`, `LIMIT_VALIDATE`, `LIMIT_WEBHOOK`, `LIMIT_ADMIN`, `LIMIT_FAILURES`, `LIMIT_RESEND`,
    /// `LIMIT_DESK`, `LIMIT_FILES`: requests per minute. `LIMIT_EVENTS`: events per minute and platform.
    pub quotas: Quotas,
    /// The default terms of keys. `KEY_DAYS`: how many days a key is valid, 1 to 36500, or -1 for ever. `KEY_USES`: how
    /// often a key can be used, 1 to 2147483647, or -1 for no limit.
    pub terms: Terms,
    /// The commerce platforms whose secrets are set, for example by `STRIPE_SECRET`, and their other settings.
    pub platforms: PlatformSettings,
}

/// An invalid or missing setting. Displays as the setting's name and what the setting expects. The value is never
/// shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{name} {expected}")]
pub struct SettingError {
    name: &'static str,
    expected: Invalid,
}

impl SettingError {
    /// Returns the name of the setting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what the setting expects, as a phrase that follows the setting's name, such as `must be set`.
    #[must_use]
    pub fn expected(&self) -> Invalid {
        self.expected
    }
}

impl Settings {
    /// Reads every setting by calling `setting` with its name. A setting that is absent or empty has its default.
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that is invalid, or the secret that is missing.
    pub fn read(setting: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        let [webhook, admin, named, keys] = SECRETS.map(|setting| setting.name);
        let webhook_secret = required(&setting, webhook, str::parse)?;
        let admin_token: AdminToken = required(&setting, admin, str::parse)?;
        let admin_tokens: AdminTokens = read(&setting, named, str::parse)?.unwrap_or_default();
        let admin_tokens = admin_tokens.with_admin(admin_token);
        let prefix: Prefix = read(&setting, KEY_PREFIX.name, str::parse)?.unwrap_or_default();
        Ok(Self {
            webhook_secret,
            admin_tokens: admin_tokens.map_err(|expected| SettingError { name: named, expected })?,
            keyring: required(&setting, keys, |secrets| Keyring::read(prefix.clone(), secrets))?,
            options: Options::read(setting)?,
        })
    }
}

impl Options {
    /// Reads the settings that have defaults, in the same way as [`Settings::read`].
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that is invalid.
    pub fn read(setting: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        let mut options = Self::default();
        read_rows(OPTIONS, &mut options, &setting)?;
        Ok(Self { platforms: PlatformSettings::read(setting)?, ..options })
    }
}

/// Returns the text of a setting. Returns `None` if the setting is absent or empty.
fn given(setting: impl Fn(&'static str) -> Option<String>, name: &'static str) -> Option<String> {
    setting(name).filter(|text| !text.is_empty())
}

fn read<T>(
    setting: impl Fn(&'static str) -> Option<String>,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, SettingError> {
    given(setting, name).map(|text| parse(&text).map_err(|expected| SettingError { name, expected })).transpose()
}

/// Reads each row's setting into `target`. If a setting is absent, `target` keeps its default.
fn read_rows<T>(
    rows: &[Row<T>],
    target: &mut T,
    setting: &impl Fn(&'static str) -> Option<String>,
) -> Result<(), SettingError> {
    for Row { setting: Setting { name, .. }, read } in rows {
        if let Some(text) = given(setting, name) {
            read(target, &text).map_err(|expected| SettingError { name, expected })?;
        }
    }
    Ok(())
}

fn required<T>(
    setting: impl Fn(&'static str) -> Option<String>,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> Result<T, SettingError> {
    read(setting, name, parse)?.ok_or(SettingError { name, expected: Invalid::expected("must be set") })
}
