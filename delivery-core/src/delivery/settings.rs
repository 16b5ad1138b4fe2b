//! Settings as text, under the names that the example servers document: from variables of the environment, from a
//! framework's configuration, or from anything that serde reads.

mod platforms;
mod table;

use std::cell::RefCell;

use ipnet::IpNet;
use thiserror::Error;
use url::Url;

pub use self::platforms::PlatformSettings;
use super::expiry::ExpiryNotice;
use crate::key::Keyring;
use crate::language::Language;
use crate::limit::{Quota, Quotas};
use crate::mail::Sender;
use crate::secret::{AdminToken, WebhookSecret};
use crate::seller::AdminTokens;
use crate::terms::{Terms, UseLimit, Validity};
use crate::text::Invalid;

/// All settings that can be given as text. `Deserialize` reads a table whose keys are the names in lower case. Its
/// values are strings or numbers, or lists for settings whose text is separated by commas. An unknown name is an error.
///
/// A host without the endpoints that need a secret reads [`Options`] alone, and begins with
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
    /// `WEBHOOK_SECRET`, at least 16 characters.
    pub webhook_secret: WebhookSecret,
    /// `ADMIN_TOKEN`, at least 16 characters, and `ADMIN_TOKENS`, each with the name of its bearer.
    pub admin_tokens: AdminTokens,
    /// `KEY_SECRET`: secrets of at least 16 characters, newest first, separated by commas.
    pub keyring: Keyring,
    /// The rest, which has defaults.
    pub options: Options,
}

/// Settings that have defaults.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// `MAIL_FROM`: `Digital Delivery <delivery@localhost>`
    pub sender: Sender,
    /// `BASE_URL`: where buyers find the API.
    pub base_url: Option<String>,
    /// `LANGUAGE`: of e-mails about products that have none of their own, such as `de`.
    pub language: Language,
    /// `EXPIRY_NOTICE_DAYS`: how many days before a key expires its buyer is told, 0 to 365; 14, and 0 tells nobody.
    pub expiry_notice: ExpiryNotice,
    /// `TRUSTED_PROXIES`: networks or addresses, separated by commas.
    pub trusted_proxies: Vec<IpNet>,
    /// `LIMIT_PRODUCT`, `LIMIT_VALIDATE`, `LIMIT_WEBHOOK`, `LIMIT_ADMIN`, `LIMIT_FAILURES`, `LIMIT_RESEND`, `LIMIT_DESK`:
    /// requests per minute. `LIMIT_EVENTS`: events per minute and platform.
    pub quotas: Quotas,
    /// `KEY_DAYS`, 1 to 36500 or -1 for ever, and `KEY_USES`, 1 to 2147483647 or -1 without limit.
    pub terms: Terms,
    /// The commerce platforms that there are secrets for.
    pub platforms: PlatformSettings,
}

/// A setting makes no sense, or is missing. Displays as its name and what it takes; never repeats its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{name} {expected}")]
pub struct SettingError {
    name: &'static str,
    expected: Invalid,
}

impl SettingError {
    /// The setting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it takes, as a phrase that follows its name.
    #[must_use]
    pub fn expected(&self) -> Invalid {
        self.expected
    }
}

/// The settings that no host can do without, and `ADMIN_TOKENS`.
const SECRETS: [&str; 4] = ["WEBHOOK_SECRET", "ADMIN_TOKEN", "ADMIN_TOKENS", "KEY_SECRET"];

impl Settings {
    /// Reads every setting by calling `setting` with its name. A setting that is absent or empty has its default.
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that is invalid, or the secret that is missing.
    pub fn read(setting: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        let [webhook, admin, named, keys] = SECRETS;
        let webhook_secret = required(&setting, webhook, str::parse)?;
        let admin_token: AdminToken = required(&setting, admin, str::parse)?;
        let admin_tokens: AdminTokens = read(&setting, named, str::parse)?.unwrap_or_default();
        let admin_tokens = admin_tokens.with_admin(admin_token);
        Ok(Self {
            webhook_secret,
            admin_tokens: admin_tokens.map_err(|expected| SettingError { name: named, expected })?,
            keyring: required(&setting, keys, str::parse)?,
            options: Options::read(setting)?,
        })
    }

    /// The names of all: the secrets, and whatever [`Options::read`] asks for.
    fn names() -> Vec<&'static str> {
        let names = RefCell::new(Vec::from(SECRETS));
        // It asks for every one, since a setting that is absent is never wrong.
        let _ = Options::read(|name| {
            names.borrow_mut().push(name);
            None
        });
        names.into_inner()
    }
}

impl Options {
    /// Reads these settings alone, as [`Settings::read`] does.
    ///
    /// # Errors
    ///
    /// [`SettingError`] names the first setting that makes no sense.
    pub fn read(setting: impl Fn(&'static str) -> Option<String>) -> Result<Self, SettingError> {
        const QUOTA: Invalid = Invalid::expected("must be 1 or more requests per minute, at most 4294967295");
        let quota = |name, default| {
            let parse = |text: &str| Quota::per_minute(text.parse().map_err(|_| QUOTA)?);
            Ok(read(&setting, name, parse)?.unwrap_or(default))
        };
        let quotas = Quotas::default();
        let terms = Terms::default();
        // Text that is not a number is read as 0, which is refused with the message that says what the setting expects.
        let days = |text: &str| Validity::from_days(text.parse().unwrap_or_default());
        let uses = |text: &str| UseLimit::from_count(text.parse().unwrap_or_default());
        Ok(Self {
            sender: read(&setting, "MAIL_FROM", str::parse)?.unwrap_or_default(),
            base_url: read(&setting, "BASE_URL", web_address)?,
            language: read(&setting, "LANGUAGE", str::parse)?.unwrap_or_default(),
            expiry_notice: read(&setting, "EXPIRY_NOTICE_DAYS", str::parse)?.unwrap_or_default(),
            trusted_proxies: read(&setting, "TRUSTED_PROXIES", networks)?.unwrap_or_default(),
            quotas: Quotas {
                product: quota("LIMIT_PRODUCT", quotas.product)?,
                validate: quota("LIMIT_VALIDATE", quotas.validate)?,
                webhook: quota("LIMIT_WEBHOOK", quotas.webhook)?,
                admin: quota("LIMIT_ADMIN", quotas.admin)?,
                failures: quota("LIMIT_FAILURES", quotas.failures)?,
                events: quota("LIMIT_EVENTS", quotas.events)?,
                resend: quota("LIMIT_RESEND", quotas.resend)?,
                desk: quota("LIMIT_DESK", quotas.desk)?,
            },
            terms: Terms {
                validity: read(&setting, "KEY_DAYS", days)?.unwrap_or(terms.validity),
                limit: read(&setting, "KEY_USES", uses)?.unwrap_or(terms.limit),
            },
            platforms: PlatformSettings::read(&setting)?,
        })
    }
}

fn read<T>(
    setting: impl Fn(&'static str) -> Option<String>,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> Result<Option<T>, SettingError> {
    let text = setting(name).filter(|text| !text.is_empty());
    text.map(|text| parse(&text).map_err(|expected| SettingError { name, expected })).transpose()
}

fn required<T>(
    setting: impl Fn(&'static str) -> Option<String>,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> Result<T, SettingError> {
    read(setting, name, parse)?.ok_or(SettingError { name, expected: Invalid::expected("must be set") })
}

/// An address that paths are appended to, and that is mailed to buyers.
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
