//! Starting: the first time, again, with good settings and with bad ones.

use std::fs;
use std::process::Command;

use support::free_port;
use support::process::Site;

pub fn the_first_start_prints_three_lines_that_work_and_later_starts_are_silent(site: &Site) {
    let server = site.start(&[]);
    let lines: Vec<&str> = server.printed.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(lines.len(), 3, "{}", server.printed);
    let secrets = fs::read_to_string(site.data().join("secrets.env")).unwrap();
    for secret in secrets.lines().filter_map(|line| line.split_once('=')).map(|(_, secret)| secret) {
        assert!(secret.len() > 50 && !server.printed.contains(secret), "secrets stay in their file");
    }
    let mut output = String::new();
    for line in &lines {
        let ran = Command::new("sh").args(["-c", line]).current_dir(site.path()).output().unwrap();
        output = String::from_utf8(ran.stdout).unwrap();
    }
    assert!(
        output.starts_with(r##"{"product":{"id":1,"name":"Field Guide","type":"digital","content":"# Field Guide"##),
        "{output}"
    );
    server.terminate();
    let later = site.start(&[]);
    assert_eq!(later.printed, "");
    later.terminate();
}

pub fn what_makes_no_sense_is_a_refusal_that_names_the_setting_and_repeats_no_secret(site: &Site) {
    for (name, value, takes) in [
        ("BIND", "nowhere", "address and a port"),
        ("DATABASE_URL", "mysql://x", "sqlite://PATH"),
        ("DATABASE_URL", "postgres://user:hunter2@127.0.0.1:1/shop", "cannot be connected to"),
        ("DATABASE_URL", "postgres://user:12/hunter2@127.0.0.1:1/shop", "/ is %2F"),
        ("DATABASE_URL", "postgres://user:hunter2@127.0.0.1:1/shop?sslmod=require", "unknown parameter sslmod"),
        ("REDIS_URL", "http://user:hunter2@localhost", "redis://"),
        ("REDIS_URL", "redis://user:12#hunter2@localhost", "# is %23"),
        ("WEBHOOK_SECRET", "hunter2", "16 characters"),
        ("ADMIN_TOKEN", "hunter2", "16 characters"),
        ("ADMIN_TOKENS", "alice:hunter2", "16 characters"),
        ("KEY_SECRET", "long-enough-for-one,hunter2", "16 characters"),
        ("SMTP_URL", "http://user:hunter2@mail.example.com", "smtp://"),
        ("SMTP_URL", "smtps://user:12/hunter2@mail.example.com", "/ is %2F"),
        ("SMTP_URL", "smtp://user:hunter2@mail.example.com", "tls=required"),
        ("SMTP_URL", "smtps://user:hunter2@mail.example.com", "BASE_URL (--base-url) must be set"),
        ("MAIL_FROM", "nobody", "address"),
        ("MAIL_FROM", "a..b@example.com", "address"),
        ("BASE_URL", "https://user:hunter2@shop.example", "https://"),
        ("LANGUAGE", "english", "such as en"),
        ("EXPIRY_NOTICE_DAYS", "-1", "0 to 365"),
        ("SUBSCRIPTION_GRACE_DAYS", "61", "0 to 60 days"),
        ("LANGUAGE", "fr", "that there are templates in"),
        ("MAIL_TEMPLATES", "/nowhere/at/all", "cannot be read"),
        ("DATABASE_URL", "sqlite://nowhere/delivery.db", "does not exist"),
        ("TRUSTED_PROXIES", "10.0.0.0/8,everyone", "networks"),
        ("LIMIT_WEBHOOK", "many", "1 or more"),
        ("KEY_DAYS", "0", "1 to 36500"),
        ("KEY_USES", "0", "1 to 2147483647"),
        ("RUST_LOG", "a=b=c", "log filter"),
        ("RUST_LOG", "debgu", "log filter"),
        ("RUST_LOG", "!!=", "log filter"),
        ("RUST_LOG", "info,,=", "log filter"),
        ("LOG_FORMAT", "xml", "text or json"),
        ("METRICS_BIND", "everywhere", "address and a port"),
        ("ALERT_EMAIL", "nobody", "e-mail address"),
        ("ALERT_EMAIL", "seller@example.com", "needs SMTP_URL"),
        ("WEBHOOK_URLS", "https://crm.example/hunter2", "WEBHOOK_URLS_SECRET (--webhook-urls-secret) must be set"),
        ("WEBHOOK_URLS_SECRET", "hunter2", "whsec_"),
        ("HISTORY_DAYS", "0", "1 to 36500"),
        ("STOP_DELAY", "21", "0 to 20 seconds"),
        ("MAX_CONNECTIONS", "0", "1 or more connections"),
        ("MAIL_LEASE", "5", "6 to 300 seconds"),
        ("MAIL_CONNECTIONS", "0", "1 to 256"),
        ("MAIL_RATE", "0", "1 to 1000"),
        ("HEAD_TIMEOUT", "0", "1 to 300 seconds"),
        ("ANSWER_TIMEOUT", "301", "1 to 300 seconds"),
    ] {
        let site = Site::new(site.program);
        let (good, printed, said) = site.run(&[(name, value)], &[]);
        assert!(!good, "{name}={value}");
        assert!(said.contains(name) && said.contains(takes), "{name}={value}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
        let touched = fs::read_dir(site.path()).unwrap().count();
        assert!(touched == 0 || name == "DATABASE_URL", "{name}={value}: nothing is made before every setting is good");
        assert!(!printed.contains("listening"));
    }
}

pub fn a_port_alone_is_listened_on_at_every_address(site: &Site) {
    let port = free_port().to_string();
    let server = site.start_with(&[("BIND", ""), ("PORT", &port)]);
    assert_eq!(server.address.to_string(), format!("0.0.0.0:{port}"));
    server.terminate();
    site.refuses(&[("BIND", ""), ("PORT", "http")], &["check"], "PORT (--port) must be a port");
    // A platform sets it whatever the seller sets.
    site.start_with(&[("PORT", "http")]).terminate();
}

pub fn an_empty_variable_counts_as_not_set(site: &Site) {
    let empty = ["DATA_DIR", "DATABASE_URL", "WEBHOOK_SECRET", "SMTP_URL", "MAIL_FROM", "BASE_URL", "TRUSTED_PROXIES"];
    let limits = ["LIMIT_PRODUCT", "LIMIT_VALIDATE", "KEY_DAYS", "KEY_USES", "RUST_LOG"];
    let settings: Vec<_> = empty.into_iter().chain(limits).map(|name| (name, "")).collect();
    site.start(&settings).terminate();
    assert!(site.data().join("secrets.env").exists());
}
