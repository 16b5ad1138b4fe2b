//! Settings: each is a flag and an environment variable. All are checked before anything is changed.

mod cloud;
pub(crate) mod command;
mod files;
pub(crate) mod given;
pub(crate) mod listen;
pub(crate) mod objects;
pub(crate) mod refusal;
mod table;
pub(crate) mod watch;
mod webhooks;

use std::path::PathBuf;
use std::time::Duration;

use delivery_core::delivery::{self, Options};
use delivery_core::look::Look;
use delivery_core::mail::{SmtpMailer, Templates};
use delivery_core::seller::AdminTokens;
use delivery_core::webhook::Webhooks;

use self::given::Given;
use self::listen::Listen;
use self::objects::Objects;
use self::refusal::refusal;
use self::table::{FIRST, LAST, Row};
use self::watch::Watch;
use crate::Refusal;

/// The settings, after they were checked.
#[derive(Default)]
pub(crate) struct Settings {
    pub listen: Listen,
    pub data_dir: PathBuf,
    pub database: Database,
    pub objects: Objects,
    pub redis_url: Option<String>,
    pub admin_tokens: AdminTokens,
    pub webhooks: Option<Webhooks>,
    /// The mailer that sends by `SMTP_URL`.
    pub smtp: Option<SmtpMailer>,
    pub templates: Templates,
    pub mail_lease: Duration,
    /// In bytes.
    pub body_budget: usize,
    pub look: Look,
    pub options: Options,
    pub watch: Watch,
    /// The settings as text, and the files that secrets were read from.
    pub given: Given,
}

pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

impl Default for Database {
    fn default() -> Self {
        Self::Sqlite(PathBuf::default())
    }
}

impl Settings {
    /// Checks every setting. An error names the setting and what is accepted, and never repeats the value.
    pub(crate) fn check(given: Given) -> Result<Self, Refusal> {
        let text = |name| match name {
            "WEBHOOK_SECRET" | "ADMIN_TOKEN" | "KEY_SECRET" => {
                given.text(name).or_else(|| Some(PLACEHOLDER.to_owned()))
            }
            // Checked later, together with the admin token, which may not have been made yet.
            "ADMIN_TOKENS" => None,
            name => given.text(name),
        };
        let options = delivery::Settings::read(text).map_err(|error| refusal(error.name(), error.expected()))?.options;
        let mut settings = Self { options, given, ..Self::default() };
        for Row { setting, read } in FIRST.iter().chain(LAST.iter().flat_map(|(_, rows)| *rows)) {
            let text = settings.given.text(setting.name);
            // A flag may be empty. If the setting has a default, the empty text is read. Otherwise it counts as not
            // set.
            if text.is_some() || setting.default.is_some() {
                read(&mut settings, &text.unwrap_or_default()).map_err(|expected| refusal(setting.name, expected))?;
            }
        }
        if let Some(text) = settings.given.text("ADMIN_TOKENS") {
            settings.admin_tokens = refusal::read("ADMIN_TOKENS", &text, str::parse)?;
        }
        settings.webhooks = webhooks::webhooks(&settings.given)?;
        // With the defaults, buyers would get links to this machine, from a sender that mail servers reject.
        if settings.given.text("SMTP_URL").is_some_and(|url| !SmtpMailer::is_loopback(&url)) {
            for name in ["BASE_URL", "MAIL_FROM"] {
                if settings.given.text(name).is_none() {
                    return Err(refusal(name, "must be set when e-mails are sent by SMTP_URL (--smtp-url)"));
                }
            }
        }
        if !settings.templates.speak(&settings.options.language) {
            return Err(refusal(
                "LANGUAGE",
                "must be a language that there are templates in: en, de, or one of MAIL_TEMPLATES",
            ));
        }
        Ok(settings)
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

/// Sets the name that the mailer sends in HELO: the host of `BASE_URL`, if that is a DNS name. Otherwise, the mailer
/// takes the domain of `MAIL_FROM` by itself.
fn greeting(mailer: SmtpMailer, options: &Options) -> SmtpMailer {
    let site = options.base_url.as_deref().and_then(|url| url.parse::<hyper::Uri>().ok());
    let host = site.as_ref().and_then(hyper::Uri::host);
    host.and_then(|name| mailer.clone().helo(name).ok()).unwrap_or(mailer)
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
