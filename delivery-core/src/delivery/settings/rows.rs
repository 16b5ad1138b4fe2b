//! The table of settings. The example servers' flags and `--help`, Rocket's configuration and [`Options::read`] all use
//! these rows. To add a setting, add a field to [`Options`], a row here, and a method to the builder.

use ipnet::IpNet;
use url::Url;

use super::Options;
use super::platform_table::PLATFORMS;
use super::platforms::DETAILS;
use super::setting::{Row, Setting, flag, row, set};
use crate::limit::Quota;
use crate::terms::{UseLimit, Validity};
use crate::text::Invalid;

impl Setting {
    /// Lists every setting that [`Settings::read`](super::Settings::read) reads, group by group.
    pub fn all() -> impl Iterator<Item = Self> {
        let options = OPTIONS.iter().map(|row| row.setting);
        let secrets = PLATFORMS.iter().flat_map(|row| [row.secret, row.old]);
        SECRETS
            .into_iter()
            .chain([KEY_PREFIX])
            .chain(options)
            .chain(secrets)
            .chain(DETAILS.iter().map(|row| row.setting))
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
    Setting::secrets(
        "ADMIN_TOKENS",
        "Tokens of several sellers, whom the audit log then tells apart: alice:TOKEN,bob:TOKEN",
    ),
    Setting::secrets(
        "KEY_SECRET",
        "Secrets that sign keys, newest first, comma-separated [default: made on first start]",
    ),
];

pub(super) const KEY_PREFIX: Setting = Setting::new(
    "KEY_PREFIX",
    Some("dlv"),
    "What keys begin with, 1 to 12 of a-z and 0-9; fixed by the first start, because keys with another one do not verify",
);

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
        "Language of e-mails about products that have none of their own, and of pages whose browsers name none: en or de, or one \
         that MAIL_TEMPLATES has",
        |options, text| set(&mut options.language, text.parse()),
    ),
    row(
        "EXPIRY_NOTICE_DAYS",
        Some("14"),
        "Days before a key expires at which its buyer gets an e-mail; 0 sends none",
        |options, text| set(&mut options.expiry_notice, text.parse()),
    ),
    row(
        "MAIL_CURL",
        Some("false"),
        "true: e-mails show how to fetch a product with curl, not only for the type api",
        |options, text| set(&mut options.mail_curl, flag(text)),
    ),
    row("TRUSTED_PROXIES", None, "Networks whose X-Forwarded-For is believed, comma-separated", |options, text| {
        set(&mut options.trusted_proxies, networks(text))
    }),
    row(
        "CORS_ORIGINS",
        None,
        "Origins whose pages may list, validate and fetch, such as https://shop.example, comma-separated, or * for all",
        |options, text| set(&mut options.cross_origin, text.parse()),
    ),
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
    row("LIMIT_FILES", Some("300"), "Downloads of files per minute and key", |options, text| {
        set(&mut options.quotas.files, quota(text))
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

fn quota(text: &str) -> Result<Quota, Invalid> {
    const EXPECTED: Invalid = Invalid::expected("must be 1 or more requests per minute, at most 4294967295");
    Quota::per_minute(text.parse().map_err(|_| EXPECTED)?)
}

/// Parses a base URL: an `http` or `https` URL without credentials, query and fragment. Paths are appended to it, and
/// buyers see it in e-mails.
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
