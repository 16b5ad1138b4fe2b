//! Settings: each a flag and an environment variable, checked before anything is touched.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::Resettable;
use clap::{Arg, CommandFactory, FromArgMatches, Parser};
use delivery_core::key::{Keyring, Prefix};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::mail::Sender;
use delivery_core::secret::{AdminToken, SigningSecret, WebhookSecret};
use delivery_core::terms::{Terms, UseLimit, Validity};
use ipnet::IpNet;
use url::Url;

use super::Refusal;

/// Sells digital products: takes paid orders, e-mails keys, serves products.
#[derive(Parser)]
#[expect(clippy::doc_markdown, reason = "the text of --help, where Markdown would show")]
#[command(version, after_help = "RUST_LOG sets the log filter, info by default. An empty variable counts as not set.")]
pub struct Arguments {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, env, default_value = "127.0.0.1:8080")]
    bind: String,
    /// Folder of the database file, letters and generated secrets
    #[arg(long, env, default_value = "./delivery-data")]
    data_dir: String,
    /// sqlite://PATH, or memory: to keep nothing [default: sqlite://DATA_DIR/delivery.db]
    #[arg(long, env, hide_env_values = true)]
    database_url: Option<String>,
    /// Secret that the commerce platform sends, at least 16 characters [default: made on first start]
    #[arg(long, env, hide_env_values = true)]
    webhook_secret: Option<String>,
    /// Bearer token of the admin endpoints, at least 16 characters [default: made on first start]
    #[arg(long, env, hide_env_values = true)]
    admin_token: Option<String>,
    /// Secrets that sign keys, newest first, comma-separated [default: made on first start]
    #[arg(long, env, hide_env_values = true)]
    key_secret: Option<String>,
    /// smtp://user:pass@host:587?tls=required or smtps://… [default: letters become files in DATA_DIR/mail]
    #[arg(long, env, hide_env_values = true)]
    smtp_url: Option<String>,
    /// Sender of letters
    #[arg(long, env, default_value = "Digital Delivery <delivery@localhost>")]
    mail_from: String,
    /// Address that buyers see [default: http://BIND]
    #[arg(long, env)]
    base_url: Option<String>,
    /// Networks whose X-Forwarded-For is believed, comma-separated
    #[arg(long, env)]
    trusted_proxies: Option<String>,
    /// Fetches per minute and key
    #[arg(long, env, default_value = "100")]
    limit_product: String,
    /// Validations per minute and address
    #[arg(long, env, default_value = "60")]
    limit_validate: String,
    /// Webhook calls per minute and address
    #[arg(long, env, default_value = "30")]
    limit_webhook: String,
    /// Admin calls per minute and address
    #[arg(long, env, default_value = "10")]
    limit_admin: String,
    /// Fetches with a key that does not verify, per minute and address
    #[arg(long, env, default_value = "60")]
    limit_failures: String,
    /// Days a key is valid where neither order nor product says otherwise; -1 for ever
    #[arg(long, env, default_value = "365", allow_hyphen_values = true)]
    key_days: String,
    /// Uses of a key where neither order nor product says otherwise; -1 without limit
    #[arg(long, env, default_value = "-1", allow_hyphen_values = true)]
    key_uses: String,
}

/// Settings that make sense.
pub struct Settings {
    pub bind: SocketAddr,
    pub data_dir: PathBuf,
    pub database: Database,
    pub webhook_secret: Option<String>,
    pub admin_token: Option<String>,
    pub key_secret: Option<String>,
    pub smtp_url: Option<String>,
    pub mail_from: Sender,
    pub base_url: Option<Url>,
    pub trusted_proxies: Vec<IpNet>,
    pub quotas: Quotas,
    pub terms: Terms,
}

pub enum Database {
    Sqlite(PathBuf),
    Memory,
}

impl Arguments {
    /// Reads flags and environment. An empty variable counts as not set, as deployment tools leave them.
    pub fn read() -> Self {
        let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        let command = Self::command().mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }

    /// Checks every setting; a refusal names the setting and what it takes, and repeats no value.
    pub fn check(self) -> Result<Settings, Refusal> {
        let data_dir = PathBuf::from(&self.data_dir);
        let database = match self.database_url {
            None => Database::Sqlite(data_dir.join("delivery.db")),
            Some(url) => database(&url)?,
        };
        let smtp_url = self.smtp_url;
        if let Some(url) = &smtp_url {
            read("SMTP_URL", url, str::parse::<delivery_core::mail::SmtpMailer>)?;
        }
        let quota = |name, text: &str| {
            let number =
                read(name, text, |text| text.parse::<u32>().map_err(|_| "must be 1 or more requests per minute"))?;
            read(name, text, |_| Quota::per_minute(number))
        };
        let (webhook_secret, admin_token, key_secret) = (self.webhook_secret, self.admin_token, self.key_secret);
        check_secrets(webhook_secret.as_deref(), admin_token.as_deref(), key_secret.as_deref())?;
        let base_url = self.base_url.map(|url| read("BASE_URL", &url, web_address)).transpose()?;
        Ok(Settings {
            bind: read("BIND", &self.bind, |text| {
                SocketAddr::from_str(text).map_err(|_| "must be an address and a port such as 127.0.0.1:8080")
            })?,
            data_dir,
            database,
            webhook_secret,
            admin_token,
            key_secret,
            smtp_url,
            mail_from: read("MAIL_FROM", &self.mail_from, str::parse)?,
            base_url,
            trusted_proxies: networks(&self.trusted_proxies.unwrap_or_default())?,
            quotas: Quotas {
                product: quota("LIMIT_PRODUCT", &self.limit_product)?,
                validate: quota("LIMIT_VALIDATE", &self.limit_validate)?,
                webhook: quota("LIMIT_WEBHOOK", &self.limit_webhook)?,
                admin: quota("LIMIT_ADMIN", &self.limit_admin)?,
                failures: quota("LIMIT_FAILURES", &self.limit_failures)?,
            },
            terms: Terms {
                validity: read("KEY_DAYS", &self.key_days, |text| {
                    Validity::from_days(text.parse().unwrap_or_default()).map_err(|error| error.to_string())
                })?,
                limit: read("KEY_USES", &self.key_uses, |text| {
                    UseLimit::from_count(text.parse().unwrap_or_default()).map_err(|error| error.to_string())
                })?,
            },
        })
    }
}

/// Refuses bad secrets before the folder is made; [`Secrets`](super::secrets::Secrets) reads them later.
fn check_secrets(webhook: Option<&str>, admin: Option<&str>, ring: Option<&str>) -> Result<(), Refusal> {
    webhook.map(|secret| read("WEBHOOK_SECRET", secret, str::parse::<WebhookSecret>)).transpose()?;
    admin.map(|token| read("ADMIN_TOKEN", token, str::parse::<AdminToken>)).transpose()?;
    ring.map(|ring| read("KEY_SECRET", ring, keyring)).transpose()?;
    Ok(())
}

/// A ring of secrets, newest first, comma-separated.
pub fn keyring(ring: &str) -> Result<Keyring, String> {
    let secrets = ring.split(',').map(str::trim).map(str::parse::<SigningSecret>).collect::<Result<Vec<_>, _>>();
    Keyring::new(Prefix::default(), &secrets.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

/// Reads one setting; the error names it.
pub fn read<T, E: ToString>(name: &str, text: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Result<T, Refusal> {
    let flag = name.to_ascii_lowercase().replace('_', "-");
    parse(text).map_err(|expected| format!("{name} (--{flag}) {}", expected.to_string()).into())
}

fn database(url: &str) -> Result<Database, Refusal> {
    let parse = |url: &str| match url.strip_prefix("sqlite://") {
        _ if url == "memory:" => Ok(Database::Memory),
        Some(path) if !path.is_empty() && !path.contains('?') => Ok(Database::Sqlite(path.into())),
        _ => Err("must be sqlite://PATH or memory:"),
    };
    read("DATABASE_URL", url, parse)
}

fn web_address(text: &str) -> Result<Url, &'static str> {
    // Paths are appended to it, and it is mailed to buyers.
    let plain = |url: &Url| {
        let credentials = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && !credentials && url.query().is_none() && url.fragment().is_none()
    };
    Url::parse(text).ok().filter(plain).ok_or("must be an address such as https://shop.example")
}

fn networks(list: &str) -> Result<Vec<IpNet>, Refusal> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let parse = |entry: &str| {
        let address = || entry.parse::<std::net::IpAddr>().map(IpNet::from);
        entry.parse().or_else(|_| address()).map_err(|_| "must be networks such as 10.0.0.0/8,fd00::/8")
    };
    entries.map(|entry| read("TRUSTED_PROXIES", entry, parse)).collect()
}
