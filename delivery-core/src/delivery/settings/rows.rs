//! The table of settings. The example servers' flags and `--help`, Rocket's configuration and [`Options::read`] all use
//! these rows. To add a setting, add a field to [`Options`], a row here, and a method to the builder.

use ipnet::IpNet;
use url::Url;

use super::Options;
use super::platform_table::PLATFORMS;
use super::platforms::DETAILS;
use super::setting::{Row, Setting, flag, set};
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

const fn row(
    name: &'static str,
    default: Option<&'static str>,
    read: fn(&mut Options, &str) -> Result<(), Invalid>,
) -> Row<Options> {
    Row { setting: Setting::new(name, default, ""), read }
}

pub(super) static OPTIONS: &[Row<Options>] = &[
    row("MAIL_FROM", None, |options, text| set(&mut options.sender, text.parse()))
        .help("Sender of e-mails; required with SMTP_URL [default: Digital Delivery <delivery@localhost>]"),
    row("BASE_URL", None, |options, text| set(&mut options.base_url, web_address(text).map(Some)))
        .help("Address that buyers see; required with SMTP_URL [default: http://BIND]"),
    row("LANGUAGE", Some("en"), |options, text| set(&mut options.language, text.parse())).help(
        "Language of e-mails about products that have none of their own, and of pages whose browsers name none: en or \
         de, or one that MAIL_TEMPLATES has",
    ),
    row("EXPIRY_NOTICE_DAYS", Some("14"), |options, text| set(&mut options.expiry_notice, text.parse()))
        .help("Days before a key expires at which its buyer gets an e-mail; 0 sends none"),
    row("MAIL_CURL", Some("false"), |options, text| set(&mut options.mail_curl, flag(text)))
        .help("true: e-mails show how to fetch a product with curl, not only for the type api"),
    row("TRUSTED_PROXIES", None, |options, text| set(&mut options.trusted_proxies, networks(text)))
        .help("Networks whose X-Forwarded-For is believed, comma-separated"),
    row("CORS_ORIGINS", None, |options, text| set(&mut options.cross_origin, text.parse())).help(
        "Origins whose pages may list, validate and fetch, such as https://shop.example, comma-separated, or * for all",
    ),
    row("LIMIT_PRODUCT", Some("100"), |options, text| set(&mut options.quotas.product, quota(text)))
        .help("Fetches per minute and key"),
    row("LIMIT_VALIDATE", Some("60"), |options, text| set(&mut options.quotas.validate, quota(text)))
        .help("Validations per minute and address"),
    row("LIMIT_WEBHOOK", Some("30"), |options, text| set(&mut options.quotas.webhook, quota(text)))
        .help("Webhook calls per minute and address"),
    row("LIMIT_ADMIN", Some("10"), |options, text| set(&mut options.quotas.admin, quota(text)))
        .help("Admin calls per minute and address"),
    row("LIMIT_FAILURES", Some("60"), |options, text| set(&mut options.quotas.failures, quota(text)))
        .help("Fetches with a key that does not verify, per minute and address"),
    row("LIMIT_EVENTS", Some("600"), |options, text| set(&mut options.quotas.events, quota(text)))
        .help("New events per minute and commerce platform; those beyond it are applied later"),
    row("LIMIT_RESEND", Some("5"), |options, text| set(&mut options.quotas.resend, quota(text)))
        .help("Requests for lost keys per minute and address"),
    row("LIMIT_FILES", Some("300"), |options, text| set(&mut options.quotas.files, quota(text)))
        .help("Downloads of files per minute and key"),
    row("LIMIT_DESK", Some("300"), |options, text| set(&mut options.quotas.desk, quota(text)))
        .help("Views of the desk per minute and session"),
    // Text that is not a number is read as 0, which is refused with the message that says what the setting expects.
    row("KEY_DAYS", Some("365"), |options, text| {
        set(&mut options.terms.validity, Validity::from_days(text.parse().unwrap_or_default()))
    })
    .help("Days a key is valid where neither order nor product says otherwise; -1 for ever"),
    row("KEY_USES", Some("-1"), |options, text| {
        set(&mut options.terms.limit, UseLimit::from_count(text.parse().unwrap_or_default()))
    })
    .help("Uses of a key where neither order nor product says otherwise; -1 without limit"),
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
