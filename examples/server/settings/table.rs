//! The settings that only the servers have. Those of the service are in the library's [`Setting::all`].

use delivery_core::delivery::Setting;

const CONNECTIONS: &str = "Connections";
const PAGES: &str = "Pages";
const WATCHING: &str = "Watching";

/// Settings that `--help` lists before those of the service.
pub(super) const FIRST: &[Setting] = &[
    Setting::new("DATA_DIR", Some("./delivery-data"), "Folder of the database file, e-mails and generated secrets"),
    Setting::secret(
        "DATABASE_URL",
        "sqlite://PATH, or postgres://… for several servers [default: sqlite://DATA_DIR/delivery.db]",
    ),
    Setting::new(
        "FILES_URL",
        None,
        "Where the files of products are kept: file://FOLDER, or s3://, gs:// or az:// with a bucket and a prefix \
         [default: file://DATA_DIR/files]",
    ),
    Setting::new(
        "FILES_PROXY",
        Some("false"),
        "Whether files in a bucket are sent by this server, not from the bucket: true or false",
    ),
    Setting::new("MAX_FILE_SIZE", Some("5 GiB"), "Largest file of a product, in bytes, or with KiB, MiB or GiB"),
    Setting::secret(
        "REDIS_URL",
        "redis://… for limits that several servers share [default: each server limits by itself]",
    ),
    Setting::secret(
        "SMTP_URL",
        "smtp://user:pass@host:587?tls=required or smtps://… [default: messages become files in DATA_DIR/mail]",
    ),
    Setting::new(
        "MAIL_HELO",
        None,
        "DNS name that mail servers are greeted with, in HELO [default: the host of BASE_URL, else the domain of MAIL_FROM]",
    ),
    Setting::new(
        "MAIL_CONNECTIONS",
        None,
        "Connections to the mail server at once, 1 to 256, by each server [default: 16, and more while it confirms slowly]",
    ),
    Setting::new("MAIL_RATE", None, "E-mails a second, 1 to 1000, that each server sends at most [default: no limit]"),
    Setting::new("MAIL_TEMPLATES", None, "Folder of e-mail templates that take the places of the built-in ones"),
    Setting::new(
        "MAIL_LEASE",
        Some("45"),
        "Seconds, 6 to 300, after which another server sends the e-mails of one that crashed",
    ),
    Setting::secret(
        "WEBHOOK_URLS",
        "Addresses of programs of your own that get signed requests about keys, comma-separated, at most 8",
    ),
    Setting::secret(
        "WEBHOOK_URLS_SECRET",
        "Secret that signs these requests, whsec_ and the base64 of 24 to 64 bytes; two, comma-separated, while receivers learn \
         the new one",
    ),
    Setting::new(
        "BODY_BUDGET",
        Some("32"),
        "MiB, 4 to 4096, that the bodies of requests may hold together while nobody knows yet who sends them; beyond that \
         the one that has been open longest gives way",
    ),
];

/// Settings that `--help` lists after those of the service.
pub(super) const LAST: &[Setting] = &[
    Setting::new("BIND", None, "Address and port to listen on; port 0 takes a free one [default: 127.0.0.1:8080]")
        .under(CONNECTIONS),
    Setting::new(
        "PORT",
        None,
        "Port to listen on at every address where BIND is not set, as hosting platforms set it",
    )
    .under(CONNECTIONS),
    Setting::new(
        "MAX_CONNECTIONS",
        Some("10000"),
        "Connections served at once; when all are taken, the one that has been idle longest, or has sent next to nothing \
         of a body for a second, makes room for a client that sends a request; if there is none, the one that has been \
         sending a body longest, once that is two seconds",
    )
    .under(CONNECTIONS),
    Setting::new(
        "MAX_CONNECTIONS_PER_ADDRESS",
        Some("1000"),
        "Connections served at once for one address, four thousand more wait in a queue; trusted proxies are exempt",
    )
    .under(CONNECTIONS),
    Setting::new(
        "HEAD_TIMEOUT",
        Some("15"),
        "Seconds, 1 to 300, that a client may take over the head of a request, and that a connection may be idle",
    )
    .under(CONNECTIONS),
    Setting::new(
        "ANSWER_TIMEOUT",
        Some("30"),
        "Seconds, 1 to 300, that a client may take nothing of an answer",
    )
    .under(CONNECTIONS),
    Setting::new(
        "STOP_DELAY",
        Some("0"),
        "Seconds, 0 to 20 of the 30 in which it ends, that a server which is asked to stop still takes connections while \
         /readyz answers 503, for a load balancer",
    )
    .under(CONNECTIONS),
    Setting::new("DESK", Some("on"), "Whether sellers have a desk at /desk: on or off").under(PAGES),
    Setting::new("SHOP_NAME", Some("Digital Delivery"), "The shop's name, on the pages of sellers and buyers").under(PAGES),
    Setting::new("SHOP_COLOR", Some("#1a56db"), "The colour of buttons and links, such as #1a56db").under(PAGES),
    Setting::new("SHOP_LOGO", None, "The path of the shop's logo on its own host, such as /static/logo.svg").under(PAGES),
    Setting::new("SUPPORT_EMAIL", None, "Address that buyers can write to, shown on pages").under(PAGES),
    Setting::new(
        "PAGE_TEMPLATES",
        None,
        "Folder of templates of pages that take the places of the built-in ones",
    )
    .under(PAGES),
    Setting::new(
        "METRICS_BIND",
        None,
        "Address and port of GET /metrics in Prometheus' text format, which is no part of the API; port 0 takes a free one",
    )
    .under(WATCHING),
    Setting::new("LOG_FORMAT", Some("text"), "How the log is written: text, or json for one object a line").under(WATCHING),
    Setting::new(
        "ALERT_EMAIL",
        None,
        "Address that is notified of e-mails to buyers and webhooks that failed for good, at most once an hour",
    )
    .under(WATCHING),
    Setting::new(
        "HISTORY_DAYS",
        Some("-1"),
        "How long records of single uses are kept, in days, 1 to 36500; -1 for ever. Counts stay",
    )
    .under(WATCHING),
];
