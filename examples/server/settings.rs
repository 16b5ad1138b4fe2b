//! Settings: each a flag and an environment variable, checked before anything is touched.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{Arg, CommandFactory, FromArgMatches, Parser};
use delivery_core::delivery::{self, Options};
use delivery_core::explain;
use delivery_core::limit::RedisLimiter;
use delivery_core::look::Look;
use delivery_core::mail::{SmtpMailer, Templates};
use delivery_core::seller::AdminTokens;

use super::Refusal;
use super::command::Command;
use super::files::{self, Files};
use super::listen::{Listen, ListenArguments};
use super::pages::PageArguments;
use super::platforms::PlatformArguments;
use super::refusal::{read, refusal};
use super::watch::{Watch, WatchArguments};

/// Sells digital products: takes paid orders, e-mails keys, serves products.
#[derive(Parser)]
#[expect(clippy::doc_markdown, reason = "the text of --help, where Markdown would show")]
#[command(
    name = "delivery",
    version,
    after_help = "RUST_LOG sets the log filter, info by default. An empty variable counts as not set."
)]
pub(crate) struct Arguments {
    /// Folder of the database file, e-mails and generated secrets
    #[arg(long, env, default_value = "./delivery-data")]
    data_dir: String,
    /// sqlite://PATH, or postgres://… for several servers [default: sqlite://DATA_DIR/delivery.db]
    #[arg(long, env, hide_env_values = true)]
    database_url: Option<String>,
    /// redis://… for limits that several servers share [default: each server limits by itself]
    #[arg(long, env, hide_env_values = true)]
    redis_url: Option<String>,
    /// Secret that the commerce platform sends, at least 16 characters [default: made on first start]
    #[arg(long, env, hide_env_values = true)]
    webhook_secret: Option<String>,
    /// Bearer token of the admin endpoints, at least 16 characters [default: made on first start]
    #[arg(long, env, hide_env_values = true)]
    admin_token: Option<String>,
    /// Tokens of several sellers, whom the audit log then tells apart: alice:TOKEN,bob:TOKEN
    #[arg(long, env, hide_env_values = true)]
    admin_tokens: Option<String>,
    /// Secrets that sign keys, newest first, comma-separated [default: made on first start]
    #[arg(long, env, hide_env_values = true)]
    key_secret: Option<String>,
    /// smtp://user:pass@host:587?tls=required or smtps://… [default: messages become files in DATA_DIR/mail]
    #[arg(long, env, hide_env_values = true)]
    smtp_url: Option<String>,
    /// Sender of e-mails; required with SMTP_URL [default: Digital Delivery <delivery@localhost>]
    #[arg(long, env)]
    mail_from: Option<String>,
    /// DNS name that mail servers are greeted with, in HELO [default: the host of BASE_URL, else the domain of MAIL_FROM]
    #[arg(long, env)]
    mail_helo: Option<String>,
    /// Address that buyers see; required with SMTP_URL [default: http://BIND]
    #[arg(long, env)]
    base_url: Option<String>,
    /// Language of e-mails about products that have none of their own, en or de, or one that MAIL_TEMPLATES has
    #[arg(long, env, default_value = "en")]
    language: String,
    /// Folder of e-mail templates that take the places of the built-in ones
    #[arg(long, env)]
    mail_templates: Option<String>,
    /// Days before a key expires at which its buyer is told; 0 tells nobody
    #[arg(long, env, default_value = "14")]
    expiry_notice_days: String,
    /// Seconds, 6 to 300, after which another server sends the e-mails of one that crashed
    #[arg(long, env, default_value = "45")]
    mail_lease: String,
    /// MiB, 4 to 4096, that the bodies of requests may hold together while nobody knows yet who sends them; beyond that the one that
    /// has been open longest gives way
    #[arg(long, env, default_value = "32")]
    body_budget: String,
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
    /// New events per minute and commerce platform; those beyond it are applied later
    #[arg(long, env, default_value = "600")]
    limit_events: String,
    /// Requests for lost keys per minute and address
    #[arg(long, env, default_value = "5")]
    limit_resend: String,
    /// Views of the desk per minute and session
    #[arg(long, env, default_value = "300")]
    limit_desk: String,
    /// Days a key is valid where neither order nor product says otherwise; -1 for ever
    #[arg(long, env, default_value = "365", allow_hyphen_values = true)]
    key_days: String,
    /// Uses of a key where neither order nor product says otherwise; -1 without limit
    #[arg(long, env, default_value = "-1", allow_hyphen_values = true)]
    key_uses: String,
    #[command(flatten)]
    listen: ListenArguments,
    #[command(flatten)]
    platforms: PlatformArguments,
    #[command(flatten)]
    pages: PageArguments,
    #[command(flatten)]
    pub watch: WatchArguments,
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The files that secrets were read from.
    #[arg(skip)]
    files: Files,
}

/// Settings that make sense.
pub(crate) struct Settings {
    pub listen: Listen,
    pub data_dir: PathBuf,
    pub database: Database,
    pub redis_url: Option<String>,
    pub webhook_secret: Option<String>,
    pub admin_token: Option<String>,
    pub admin_tokens: AdminTokens,
    pub key_secret: Option<String>,
    /// The files that secrets were read from.
    pub files: Files,
    pub smtp_url: Option<String>,
    /// Sends by `SMTP_URL`.
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

impl Arguments {
    /// Reads flags and environment. What is empty counts as not set, as deployment tools leave it.
    pub(crate) fn read() -> Result<Self, Refusal> {
        // Each may stand before a command or behind it.
        let mut command = files::with_twins(Self::command()).mut_args(|arg| arg.global(true));
        for name in command.get_arguments().filter_map(|arg| arg.get_env()) {
            if std::env::var_os(name).is_some_and(|value| value.to_str().is_none()) {
                return Err(format!("{} must be text in UTF-8", name.display()).into());
            }
        }
        let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        command = command.mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
        let matches = command.clone().get_matches();
        let (command, files) = files::with_contents(command, &matches)?;
        let mut read = Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
        read.files = files;
        for optional in [
            &mut read.database_url,
            &mut read.redis_url,
            &mut read.webhook_secret,
            &mut read.admin_token,
            &mut read.admin_tokens,
            &mut read.key_secret,
            &mut read.smtp_url,
            &mut read.mail_from,
            &mut read.mail_helo,
            &mut read.base_url,
            &mut read.mail_templates,
        ] {
            optional.take_if(|value| value.is_empty());
        }
        Ok(read)
    }

    /// Checks every setting; a refusal names the setting and what it takes, and repeats no value.
    pub(crate) fn check(self) -> Result<Settings, Refusal> {
        let data_dir = PathBuf::from(&self.data_dir);
        let database = match &self.database_url {
            None => Database::Sqlite(data_dir.join("delivery.db")),
            Some(url) => database(url)?,
        };
        let smtp = self.smtp_url.as_deref().map(|url| read("SMTP_URL", url, str::parse::<SmtpMailer>)).transpose()?;
        if let Some(url) = &self.redis_url {
            read("REDIS_URL", url, |url| RedisLimiter::new(url, [0; 32]))?;
        }
        // Buyers would be told an address of this machine, by a sender that no mail server believes.
        if self.smtp_url.as_ref().is_some_and(|url| !SmtpMailer::is_loopback(url)) {
            for (name, set) in [("BASE_URL", self.base_url.is_some()), ("MAIL_FROM", self.mail_from.is_some())] {
                if !set {
                    return Err(refusal(name, "must be set when e-mails are sent by SMTP_URL (--smtp-url)"));
                }
            }
        }
        let listen = self.listen.check()?;
        let watch = self.watch.check()?;
        if watch.alert.is_some() && self.smtp_url.is_none() {
            return Err(refusal(
                "ALERT_EMAIL",
                "needs SMTP_URL (--smtp-url): without it e-mails become files, and none fails",
            ));
        }
        // Those that are left out are made later, when the folder is there.
        let given = |secret: &Option<String>| Some(secret.clone().unwrap_or_else(|| PLACEHOLDER.to_owned()));
        let text = |name| match name {
            "WEBHOOK_SECRET" => given(&self.webhook_secret),
            "ADMIN_TOKEN" => given(&self.admin_token),
            "KEY_SECRET" => given(&self.key_secret),
            "MAIL_FROM" => self.mail_from.clone(),
            "BASE_URL" => self.base_url.clone(),
            "LANGUAGE" => Some(self.language.clone()),
            "EXPIRY_NOTICE_DAYS" => Some(self.expiry_notice_days.clone()),
            "TRUSTED_PROXIES" => self.trusted_proxies.clone(),
            "LIMIT_PRODUCT" => Some(self.limit_product.clone()),
            "LIMIT_VALIDATE" => Some(self.limit_validate.clone()),
            "LIMIT_WEBHOOK" => Some(self.limit_webhook.clone()),
            "LIMIT_ADMIN" => Some(self.limit_admin.clone()),
            "LIMIT_FAILURES" => Some(self.limit_failures.clone()),
            "LIMIT_EVENTS" => Some(self.limit_events.clone()),
            "LIMIT_RESEND" => Some(self.limit_resend.clone()),
            "LIMIT_DESK" => Some(self.limit_desk.clone()),
            "KEY_DAYS" => Some(self.key_days.clone()),
            "KEY_USES" => Some(self.key_uses.clone()),
            name => self.platforms.text(name),
        };
        let options = delivery::Settings::read(text).map_err(|error| refusal(error.name(), error.expected()))?.options;
        let smtp = smtp.map(|mailer| greeting(mailer, self.mail_helo.as_deref(), &options)).transpose()?;
        let admin_tokens = self
            .admin_tokens
            .as_deref()
            .map_or(Ok(AdminTokens::default()), |text| read("ADMIN_TOKENS", text, str::parse))?;
        let body_budget = read("BODY_BUDGET", &self.body_budget, |text| {
            let mib = text.parse().ok().filter(|mib: &usize| (4..=4096).contains(mib));
            mib.map(|mib| mib << 20).ok_or("must be 4 to 4096 MiB")
        })?;
        let mail_lease = read("MAIL_LEASE", &self.mail_lease, |text| {
            let seconds = text.parse().ok().filter(|seconds| (6..=300).contains(seconds));
            seconds.map(Duration::from_secs).ok_or("must be 6 to 300 seconds")
        })?;
        let templates = match &self.mail_templates {
            Some(folder) => {
                let templates = Templates::from_folder(folder);
                templates.map_err(|error| refusal("MAIL_TEMPLATES", format!("cannot be used: {}", explain(&error))))?
            }
            None => Templates::default(),
        };
        if !templates.speak(&options.language) {
            return Err(refusal(
                "LANGUAGE",
                "must be a language that there are templates in: en, de, or one of MAIL_TEMPLATES",
            ));
        }
        let look = self.pages.check()?;
        let Self { redis_url, webhook_secret, admin_token, key_secret, smtp_url, files, .. } = self;
        Ok(Settings {
            listen,
            data_dir,
            database,
            redis_url,
            webhook_secret,
            admin_token,
            admin_tokens,
            key_secret,
            files,
            smtp_url,
            smtp,
            templates,
            mail_lease,
            body_budget,
            look,
            options,
            watch,
        })
    }
}

impl Settings {
    /// Refuses if there is no database file where one should be.
    pub(crate) fn expect_database(&self) -> Result<(), Refusal> {
        match &self.database {
            Database::Sqlite(path) => match path.try_exists() {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let place = path.display();
                    Err(format!("there is no database at {place}: DATA_DIR or DATABASE_URL names another place").into())
                }
                Err(error) => Err(format!("the database {} cannot be looked at: {error}", path.display()).into()),
            },
            Database::Postgres(_) => Ok(()),
        }
    }
}

/// Stands for a secret that is not there yet, while the others are checked.
const PLACEHOLDER: &str = "not-made-until-the-folder-is-there";

/// The mailer, which greets with `helo`, else with the host of `BASE_URL`, or the domain of `MAIL_FROM` if that is no DNS name.
fn greeting(mailer: SmtpMailer, helo: Option<&str>, options: &Options) -> Result<SmtpMailer, Refusal> {
    if let Some(name) = helo {
        return read("MAIL_HELO", name, |name| mailer.helo(name));
    }
    let site = options.base_url.as_deref().and_then(|url| url.parse::<hyper::Uri>().ok());
    let names = [site.as_ref().and_then(hyper::Uri::host), Some(options.sender.domain())];
    let known = names.into_iter().flatten().find_map(|name| mailer.clone().helo(name).ok());
    Ok(known.unwrap_or(mailer))
}

fn database(url: &str) -> Result<Database, Refusal> {
    let parse = |url: &str| match url.strip_prefix("sqlite://") {
        _ if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(Database::Postgres(url.to_owned()))
        }
        Some(path) if !path.is_empty() && !path.contains('?') => Ok(Database::Sqlite(path.into())),
        _ => Err("must be sqlite://PATH or postgres://user:password@host/database"),
    };
    read("DATABASE_URL", url, parse)
}
