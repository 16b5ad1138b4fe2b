//! Settings: each is a flag and an environment variable. All are checked before anything is changed.

mod cloud;
pub(crate) mod command;
mod files;
pub(crate) mod given;
pub(crate) mod listen;
pub(crate) mod objects;
mod pages;
pub(crate) mod refusal;
mod table;
pub(crate) mod watch;
mod webhooks;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use delivery_core::delivery::{self, Options};
use delivery_core::explain;
use delivery_core::limit::RedisLimiter;
use delivery_core::look::Look;
use delivery_core::mail::{SmtpMailer, Templates};
use delivery_core::seller::AdminTokens;
use delivery_core::webhook::Webhooks;

use self::files::Files;
use self::given::Given;
use self::listen::Listen;
use self::objects::Objects;
use self::refusal::{read, refusal};
use self::watch::Watch;
use crate::Refusal;

/// The settings, after they were checked.
pub(crate) struct Settings {
    pub listen: Listen,
    pub data_dir: PathBuf,
    pub database: Database,
    pub objects: Objects,
    pub redis_url: Option<String>,
    pub webhook_secret: Option<String>,
    pub admin_token: Option<String>,
    pub admin_tokens: AdminTokens,
    pub key_secret: Option<String>,
    pub key_prefix: Option<String>,
    pub webhooks: Option<Webhooks>,
    /// The files that secrets were read from.
    pub files: Files,
    pub smtp_url: Option<String>,
    /// The mailer that sends by `SMTP_URL`.
    pub smtp: Option<SmtpMailer>,
    pub templates: Templates,
    pub mail_lease: Duration,
    /// In bytes.
    pub body_budget: usize,
    pub look: Look,
    pub options: Options,
    pub watch: Watch,
}

pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Settings {
    /// Checks every setting. An error names the setting and what is accepted, and never repeats the value.
    pub(crate) fn check(given: Given) -> Result<Self, Refusal> {
        let data_dir = PathBuf::from(given.text("DATA_DIR").unwrap_or_default());
        let database = given.read_as("DATABASE_URL", database)?;
        let database = database.unwrap_or_else(|| Database::Sqlite(data_dir.join("delivery.db")));
        let smtp = given.read_as("SMTP_URL", str::parse::<SmtpMailer>)?;
        given.read_as("REDIS_URL", |url| RedisLimiter::new(url, [0; 32]))?;
        let smtp_url = given.text("SMTP_URL");
        // With the defaults, buyers would get links to this machine, from a sender that mail servers reject.
        if smtp_url.as_ref().is_some_and(|url| !SmtpMailer::is_loopback(url)) {
            for name in ["BASE_URL", "MAIL_FROM"] {
                if given.text(name).is_none() {
                    return Err(refusal(name, "must be set when e-mails are sent by SMTP_URL (--smtp-url)"));
                }
            }
        }
        let listen = Listen::read(&given)?;
        let watch = Watch::read(&given)?;
        if watch.alert.is_some() && smtp_url.is_none() {
            return Err(refusal(
                "ALERT_EMAIL",
                "needs SMTP_URL (--smtp-url): without it e-mails become files, and none fails",
            ));
        }
        let text = |name| match name {
            "WEBHOOK_SECRET" | "ADMIN_TOKEN" | "KEY_SECRET" => {
                given.text(name).or_else(|| Some(PLACEHOLDER.to_owned()))
            }
            // Checked later, together with the admin token, which may not have been made yet.
            "ADMIN_TOKENS" => None,
            name => given.text(name),
        };
        let options = delivery::Settings::read(text).map_err(|error| refusal(error.name(), error.expected()))?.options;
        let helo = given.text("MAIL_HELO");
        let connections = given.read_as("MAIL_CONNECTIONS", |text| {
            let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= 256);
            number.ok_or("must be 1 to 256")
        })?;
        let rate = given.read_as("MAIL_RATE", |text| {
            let rate = text.parse().ok().filter(|rate: &NonZeroU32| rate.get() <= 1000);
            rate.ok_or("must be 1 to 1000 e-mails a second")
        })?;
        let smtp = smtp.map(|mailer| greeting(mailer, helo.as_deref(), &options)).transpose()?;
        let smtp = smtp.map(|mailer| connections.into_iter().fold(mailer, SmtpMailer::connections));
        let smtp = smtp.map(|mailer| rate.into_iter().fold(mailer, SmtpMailer::rate));
        let body_budget = given.number("BODY_BUDGET", 4..=4096_usize, "must be 4 to 4096 MiB")? << 20;
        let mail_lease = Duration::from_secs(given.number("MAIL_LEASE", 6..=300, "must be 6 to 300 seconds")?);
        let templates = given.read_as("MAIL_TEMPLATES", |folder| {
            Templates::from_folder(folder).map_err(|error| format!("cannot be used: {}", explain(&error)))
        })?;
        let templates = templates.unwrap_or_default();
        if !templates.speak(&options.language) {
            return Err(refusal(
                "LANGUAGE",
                "must be a language that there are templates in: en, de, or one of MAIL_TEMPLATES",
            ));
        }
        let objects = Objects::read(&given, &data_dir)?;
        Ok(Self {
            listen,
            objects,
            data_dir,
            database,
            redis_url: given.text("REDIS_URL"),
            webhook_secret: given.text("WEBHOOK_SECRET"),
            admin_token: given.text("ADMIN_TOKEN"),
            admin_tokens: given.read_as("ADMIN_TOKENS", str::parse)?.unwrap_or_default(),
            key_secret: given.text("KEY_SECRET"),
            key_prefix: given.text("KEY_PREFIX"),
            smtp_url,
            smtp,
            templates,
            mail_lease,
            body_budget,
            look: pages::look(&given)?,
            options,
            watch,
            webhooks: webhooks::webhooks(&given)?,
            files: given.files,
        })
    }

    /// Returns an error if the SQLite file does not exist. Does not look at PostgreSQL.
    pub(crate) fn expect_database(&self) -> Result<(), Refusal> {
        let Database::Sqlite(path) = &self.database else { return Ok(()) };
        match path.try_exists() {
            Ok(true) => Ok(()),
            Ok(false) => {
                let place = path.display();
                Err(format!("there is no database at {place}: DATA_DIR or DATABASE_URL names another place").into())
            }
            Err(error) => Err(format!("the database {} cannot be looked at: {error}", path.display()).into()),
        }
    }
}

/// Takes the place of a secret that is made later, while the other settings are checked.
const PLACEHOLDER: &str = "not-made-until-the-folder-is-there";

/// Sets the name that the mailer sends in HELO: `helo`, else the host of `BASE_URL`, else the domain of `MAIL_FROM`.
/// Host and domain are skipped if they are no DNS names.
fn greeting(mailer: SmtpMailer, helo: Option<&str>, options: &Options) -> Result<SmtpMailer, Refusal> {
    if let Some(name) = helo {
        return read("MAIL_HELO", name, |name| mailer.helo(name));
    }
    let site = options.base_url.as_deref().and_then(|url| url.parse::<hyper::Uri>().ok());
    let names = [site.as_ref().and_then(hyper::Uri::host), Some(options.sender.domain())];
    let known = names.into_iter().flatten().find_map(|name| mailer.clone().helo(name).ok());
    Ok(known.unwrap_or(mailer))
}

fn database(url: &str) -> Result<Database, &'static str> {
    match url.strip_prefix("sqlite://") {
        _ if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(Database::Postgres(url.to_owned()))
        }
        Some(path) if !path.is_empty() && !path.contains('?') => Ok(Database::Sqlite(path.into())),
        _ => Err("must be sqlite://PATH or postgres://user:password@host/database"),
    }
}
