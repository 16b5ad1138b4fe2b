//! The settings that only the servers have, and how each is read. Those of the service are in the library's
//! [`Setting::all`].

use std::error::Error;
use std::fmt::Display;
use std::net::Ipv4Addr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::delivery::Setting;
use delivery_core::explain;
use delivery_core::limit::RedisLimiter;
use delivery_core::mail::Templates;

use super::listen::address;
use super::objects::size;
use super::{Database, Settings, database, greeting};
use crate::Refusal;

type Read = fn(&mut Settings, &str) -> Result<(), Refusal>;

/// A setting, and how its text is read. An error says what the setting expects.
pub(super) struct Row {
    pub setting: Setting,
    /// Reads the setting's text. If the setting is absent, its default is read.
    pub read: Read,
}

const fn row(name: &'static str, default: Option<&'static str>, read: Read) -> Row {
    Row { setting: Setting::new(name, default, ""), read }
}

const fn secret(name: &'static str, read: Read) -> Row {
    Row { setting: Setting::secret(name, ""), read }
}

impl Row {
    const fn help(mut self, help: &'static str) -> Self {
        self.setting.help = help;
        self
    }
}

/// Settings that `--help` lists before those of the service.
pub(super) const FIRST: &[Row] = &[
    row("DATA_DIR", Some("./delivery-data"), |settings, text| {
        settings.data_dir = text.into();
        settings.database = Database::Sqlite(settings.data_dir.join("delivery.db"));
        settings.objects.folder = settings.data_dir.join("files");
        Ok(())
    })
    .help("Folder of the database file, e-mails and generated secrets"),
    secret("DATABASE_URL", |settings, text| set(&mut settings.database, database(text)))
        .help("sqlite://PATH, or postgres://… for several servers [default: sqlite://DATA_DIR/delivery.db]"),
    row("FILES_URL", None, |settings, text| settings.objects.keep_at(text)).help(
        "Where the files of products are kept: file://FOLDER, or s3://, gs:// or az:// with a bucket and a prefix \
         [default: file://DATA_DIR/files]",
    ),
    row("FILES_PROXY", Some("false"), |settings, text| {
        set(&mut settings.objects.streams, one_of(text, &["true", "on"], &["false", "off"], "must be true or false"))
    })
    .help("Whether files in a bucket are sent by this server, not from the bucket: true or false"),
    row("MAX_FILE_SIZE", Some("5 GiB"), |settings, text| set(&mut settings.objects.max_size, size(text)))
        .help("Largest file of a product, in bytes, or with KiB, MiB or GiB"),
    secret("REDIS_URL", |settings, text| {
        RedisLimiter::new(text, [0; 32])?;
        settings.redis_url = Some(text.to_owned());
        Ok(())
    })
    .help("redis://… for limits that several servers share [default: each server limits by itself]"),
    secret("SMTP_URL", |settings, text| {
        set(&mut settings.smtp, text.parse().map(|mailer| Some(greeting(mailer, &settings.options))))
    })
    .help("smtp://user:pass@host:587?tls=required or smtps://… [default: messages become files in DATA_DIR/mail]"),
    row("MAIL_HELO", None, |settings, text| {
        change(&mut settings.smtp, |smtp| smtp.map(|mailer| mailer.helo(text)).transpose())
    })
    .help(
        "DNS name that mail servers are greeted with, in HELO [default: the host of BASE_URL, else the domain of \
         MAIL_FROM]",
    ),
    row("MAIL_CONNECTIONS", None, |settings, text| {
        let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= 256);
        let number = number.ok_or("must be 1 to 256")?;
        settings.smtp = settings.smtp.take().map(|mailer| mailer.connections(number));
        Ok(())
    })
    .help(
        "Connections to the mail server at once, 1 to 256, by each server [default: 16, and more while it confirms \
         slowly]",
    ),
    row("MAIL_RATE", None, |settings, text| {
        let rate = text.parse().ok().filter(|rate: &NonZeroU32| rate.get() <= 1000);
        let rate = rate.ok_or("must be 1 to 1000 e-mails a second")?;
        settings.smtp = settings.smtp.take().map(|mailer| mailer.rate(rate));
        Ok(())
    })
    .help("E-mails a second, 1 to 1000, that each server sends at most [default: no limit]"),
    row("MAIL_TEMPLATES", None, |settings, text| {
        set(&mut settings.templates, Templates::from_folder(text).map_err(|error| unusable(&error)))
    })
    .help("Folder of e-mail templates that take the places of the built-in ones"),
    row("MAIL_LEASE", Some("45"), |settings, text| set(&mut settings.mail_lease, seconds(text, 6..=300)))
        .help("Seconds, 6 to 300, after which another server sends the e-mails of one that crashed"),
    // These two are read together, after all others: see `webhooks.rs`.
    secret("WEBHOOK_URLS", |_, _| Ok(()))
        .help("Addresses of programs of your own that get signed requests about keys, comma-separated, at most 8"),
    secret("WEBHOOK_URLS_SECRET", |_, _| Ok(())).help(
        "Secret that signs these requests, whsec_ and the base64 of 24 to 64 bytes; two, comma-separated, while \
         receivers learn the new one",
    ),
    row("BODY_BUDGET", Some("32"), |settings, text| {
        let mebibytes = number(text, 4..=4096_usize, " MiB");
        set(&mut settings.body_budget, mebibytes.map(|mebibytes| mebibytes << 20))
    })
    .help(
        "MiB, 4 to 4096, that the bodies of requests may hold together while nobody knows yet who sends them; beyond \
         that the one that has been open longest gives way",
    ),
];

/// Settings that `--help` lists after those of the service, each group under its heading.
pub(super) const LAST: &[(&str, &[Row])] = &[("Connections", CONNECTIONS), ("Pages", PAGES), ("Watching", WATCHING)];

const CONNECTIONS: &[Row] = &[
    row("BIND", None, |settings, text| set(&mut settings.listen.bind, address(text)))
        .help("Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080]"),
    row("PORT", None, |settings, text| {
        // Hosting platforms set PORT even if BIND is set.
        if settings.given.text("BIND").is_none() {
            let port = text.parse::<u16>().map_err(|_| "must be a port such as 8080")?;
            settings.listen.bind = (Ipv4Addr::UNSPECIFIED, port).into();
        }
        Ok(())
    })
    .help("Port to listen on at every address where BIND is not set, as hosting platforms set it"),
    row("MAX_CONNECTIONS", Some("10000"), |settings, text| {
        set(&mut settings.listen.max_connections, connections(text))
    })
    .help(
        "Connections served at once; when all are taken, the one that has been idle longest, or has sent next to \
         nothing of a body for a second, makes room for a client that sends a request; if there is none, the one that \
         has been sending a body longest, once that is two seconds",
    ),
    row("MAX_CONNECTIONS_PER_ADDRESS", Some("1000"), |settings, text| {
        set(&mut settings.listen.max_connections_per_address, connections(text))
    })
    .help("Connections served at once for one address, four thousand more wait in a queue; trusted proxies are exempt"),
    row("HEAD_TIMEOUT", Some("15"), |settings, text| set(&mut settings.listen.head_timeout, seconds(text, 1..=300)))
        .help(
            "Seconds, 1 to 300, that a client may take over the head of a request, and that a connection may be idle",
        ),
    row("ANSWER_TIMEOUT", Some("30"), |settings, text| {
        set(&mut settings.listen.answer_timeout, seconds(text, 1..=300))
    })
    .help("Seconds, 1 to 300, that a client may take nothing of an answer"),
    row("STOP_DELAY", Some("0"), |settings, text| set(&mut settings.listen.stop_delay, seconds(text, 0..=20))).help(
        "Seconds, 0 to 20 of the 30 in which it ends, that a server which is asked to stop still takes connections \
         while /readyz answers 503, for a load balancer",
    ),
];

const PAGES: &[Row] = &[
    row("DESK", Some("on"), |settings, text| {
        let desk = one_of(text, &["on"], &["off"], "must be on or off");
        change(&mut settings.look, |look| desk.map(|desk| look.desk(desk)))
    })
    .help("Whether sellers have a desk at /desk: on or off"),
    row("SHOP_NAME", Some("Digital Delivery"), |settings, text| change(&mut settings.look, |look| look.name(text)))
        .help("The shop's name, on the pages of sellers and buyers"),
    row("SHOP_COLOR", Some("#1a56db"), |settings, text| {
        change(&mut settings.look, |look| text.parse().map(|colour| look.colour(colour)))
    })
    .help("The colour of buttons and links, such as #1a56db"),
    row("SHOP_LOGO", None, |settings, text| change(&mut settings.look, |look| look.logo(text)))
        .help("The path of the shop's logo on its own host, such as /static/logo.svg"),
    row("SUPPORT_EMAIL", None, |settings, text| {
        change(&mut settings.look, |look| text.parse().map(|email| look.support(email)))
    })
    .help("Address that buyers can write to, shown on pages"),
    row("PAGE_TEMPLATES", None, |settings, text| {
        change(&mut settings.look, |look| look.from_folder(text).map_err(|error| unusable(&error)))
    })
    .help("Folder of templates of pages that take the places of the built-in ones"),
];

const WATCHING: &[Row] = &[
    row("METRICS_BIND", None, |settings, text| set(&mut settings.watch.metrics, address(text).map(Some))).help(
        "Address and port of GET /metrics in Prometheus' text format, which is no part of the API; port 0 takes a free \
         one",
    ),
    row("LOG_FORMAT", Some("text"), |settings, text| set(&mut settings.watch.log_format, text.parse()))
        .help("How the log is written: text, or json for one object a line"),
    row("ALERT_EMAIL", None, |settings, text| {
        settings.watch.alert = Some(text.parse()?);
        if settings.smtp.is_none() {
            return Err("needs SMTP_URL (--smtp-url): without it e-mails become files, and none fails".into());
        }
        Ok(())
    })
    .help("Address that is notified of e-mails to buyers and webhooks that failed for good, at most once an hour"),
    row("HISTORY_DAYS", Some("-1"), |settings, text| {
        settings.watch.history = match text.parse() {
            Ok(-1) => None,
            Ok(days @ 1..=36500) => Some(TimeDelta::days(days)),
            _ => return Err("must be 1 to 36500 days, or -1 to keep records of uses for ever".into()),
        };
        Ok(())
    })
    .help("How long records of single uses are kept, in days, 1 to 36500; -1 for ever. Counts stay"),
];

/// Sets a field to a value that was read.
fn set<T, E: Into<Refusal>>(field: &mut T, value: Result<T, E>) -> Result<(), Refusal> {
    value.map(|value| *field = value).map_err(Into::into)
}

/// Replaces the value of a field by what `change` makes of it.
fn change<T: Clone, E: Into<Refusal>>(field: &mut T, change: impl FnOnce(T) -> Result<T, E>) -> Result<(), Refusal> {
    let changed = change(field.clone());
    set(field, changed)
}

fn one_of(text: &str, yes: &[&str], no: &[&str], expected: &'static str) -> Result<bool, &'static str> {
    let is_yes = yes.contains(&text);
    if is_yes || no.contains(&text) { Ok(is_yes) } else { Err(expected) }
}

fn number<T: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<T>, unit: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("must be {} to {}{unit}", range.start(), range.end()))
}

fn seconds(text: &str, range: RangeInclusive<u64>) -> Result<Duration, String> {
    number(text, range, " seconds").map(Duration::from_secs)
}

fn connections(text: &str) -> Result<usize, &'static str> {
    text.parse().map(NonZeroUsize::get).map_err(|_| "must be 1 or more connections")
}

fn unusable(error: &(dyn Error + 'static)) -> String {
    format!("cannot be used: {}", explain(error))
}
