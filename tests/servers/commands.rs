//! What the programs do besides serving.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::crash::clients::Done;
use support::free_port;
use support::postgres::postgres;
use support::process::{CONFIGURED, PLENTY, Server, Site, TOKEN, configured};
use support::redis::redis;
use support::smtp::{Script, SmtpServer};

/// Every file of a folder with its content. SQLite's index of a log that a stopped server left is no content: each reader marks
/// there what it reads.
fn files(site: &Site) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(site.data()).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file() && !path.to_string_lossy().ends_with("-shm"));
    files.map(|path| (path.display().to_string(), fs::read(&path).unwrap())).collect()
}

pub fn a_check_says_what_it_finds_and_changes_nothing(site: &Site) {
    let found = |settings: &[(&str, &str)], expected: &[&str]| {
        let before = files(site);
        let (good, said, _) = site.run(settings, &["check"]);
        for text in expected {
            assert!(said.contains(text), "{text}: {said}");
        }
        assert_eq!(good, !said.contains("PROBLEM"), "{said}");
        assert_eq!(good, expected.iter().all(|text| !text.contains("PROBLEM")), "{said}");
        assert!(files(site) == before, "a file has changed");
        for (name, secret) in settings.iter().filter(|(name, _)| !name.contains("URL")) {
            assert!(!said.contains(secret), "{name}: {said}");
        }
    };
    found(&[], &["no store yet", "KEY_SECRET not there yet", "become files", "each server counts for itself"]);
    assert!(site.start(&[]).terminate().contains("reach no buyer"), "without SMTP_URL");
    found(&[], &["a store; KEY_SECRET fits", "KEY_SECRET in ./delivery-data/secrets.env"]);
    // A flag may come behind the command.
    site.says(&[], &["check", "--data-dir", "elsewhere"], "elsewhere is not there yet");
    fs::write(site.path().join("file"), "").unwrap();
    for folder in ["file", "file/data"] {
        let (good, said, _) = site.run(&CONFIGURED, &["check", "--data-dir", folder]);
        assert!(!good && said.contains("data       PROBLEM: file"), "{said}");
        let url = format!("file://{folder}");
        let (good, said, _) = site.run(&CONFIGURED, &["check", "--files-url", &url]);
        assert!(!good && said.contains("files      PROBLEM: file"), "{said}");
    }
    let foreign = [CONFIGURED[0], CONFIGURED[1], ("KEY_SECRET", "quite-another-secret")];
    found(
        &foreign,
        &["database   PROBLEM: it was made with none of the secrets in KEY_SECRET", "ADMIN_TOKEN configured"],
    );
    let smtp = format!("smtp://127.0.0.1:{}", free_port());
    found(&[("SMTP_URL", &smtp)], &["e-mails    PROBLEM: the mail server cannot be reached"]);
    let redis_url = format!("redis://127.0.0.1:{}", free_port());
    found(&[("REDIS_URL", &redis_url)], &["limits     PROBLEM: ", "Redis does not answer"]);
    // Beside a server that has the file open: its log is no business of the check's.
    let server = site.start(&[]);
    site.says(&[], &["check"], "a store; KEY_SECRET fits");
    server.terminate();
    found(&[], &["a store; KEY_SECRET fits"]);
    fs::remove_file(site.data().join("secrets.env")).unwrap();
    found(&[], &["database   PROBLEM: it was made with a KEY_SECRET (--key-secret), which is missing"]);

    let site = Site::new(site.program);
    let mail = SmtpServer::alone(Script::Accept);
    site.says(&[("SMTP_URL", &mail.url)], &["check"], "the mail server answers");
    assert_eq!((mail.connections(), mail.quit(), mail.senders().len()), (1, 1, 0), "nothing is sent");
}

pub fn a_check_reads_a_shared_database_and_redis(site: &Site) {
    let (url, redis) = (postgres().database(), redis().url());
    let settings = configured(&[("DATABASE_URL", &url), ("REDIS_URL", &redis)]);
    let said = site.says(&settings, &["check"], "no store yet");
    assert!(said.contains("Redis answers"), "{said}");
    // Neither the first check nor a dry run has made anything.
    fs::write(site.path().join("sales.csv"), "order_id,customer_email,product_id\n").unwrap();
    site.refuses(&settings, &["import", "sales.csv", "--dry-run"], "there is no store of this version yet");
    site.says(&settings, &["check"], "no store yet");
    site.start(&settings).terminate();
    let said = site.says(&settings, &["check"], "a store; KEY_SECRET fits");
    assert!(said.contains("PostgreSQL"), "{said}");
    let foreign = [&settings[..2], &[("KEY_SECRET", "quite-another-secret")], &settings[3..]].concat();
    let (good, said, _) = site.run(&foreign, &["check"]);
    assert!(!good && said.contains("none of the secrets in KEY_SECRET"), "{said}");
}

/// What clients were told before a moment is in every copy that begins after it.
pub fn a_backup_beside_a_busy_server_has_all_that_was_answered(site: &Site) {
    const CLIENTS: usize = 8;
    let server = site.shop(&PLENTY);
    // The key of each order, with the uses that were answered.
    let (told, done) = (Mutex::new(BTreeMap::<String, u64>::new()), AtomicBool::new(false));
    let client = |client: usize, server: &Server| {
        for order in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
            let key = server.sell(&format!("{client}-{order}"));
            told.lock().unwrap().insert(key.clone(), 0);
            for uses in 1..=3 {
                assert_eq!(server.fetch(&key), 200);
                *told.lock().unwrap().get_mut(&key).unwrap() = uses;
            }
        }
    };
    thread::scope(|scope| {
        let _done = Done(&done);
        for number in 0..CLIENTS {
            let (client, server) = (&client, &server);
            scope.spawn(move || client(number, server));
        }
        let rounds = support::rounds_of("BACKUP_ROUNDS", 2, 3);
        for _ in 0..rounds {
            let sold = told.lock().unwrap().len();
            support::wait_for(std::time::Duration::from_mins(1), || told.lock().unwrap().len() > sold + 40);
            let before = told.lock().unwrap().clone();
            // The second takes the place of the first.
            let said = site.says(&CONFIGURED, &["backup", "copy"], "read in whole");
            assert!(said.contains("Keep your KEY_SECRET"), "{said}");
            restored(site, &before);
        }
    });
    server.terminate();
    let names: Vec<_> =
        fs::read_dir(site.path().join("copy")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["delivery.db"], "nothing else stays there");
}

fn restored(site: &Site, told: &BTreeMap<String, u64>) {
    let other = Site::new(site.program);
    fs::create_dir(other.data()).unwrap();
    fs::copy(site.path().join("copy/delivery.db"), other.data().join("delivery.db")).unwrap();
    let server = other.start_with(&PLENTY);
    for (key, uses) in told {
        let (status, answer) = server.validate(key);
        let used = answer["used_count"].as_u64();
        assert!(status == 200 && used >= Some(*uses), "{answer}: {uses} uses were answered");
    }
    server.terminate();
}

pub fn a_backup_that_cannot_be_made_leaves_the_last_one(site: &Site) {
    site.refuses(&[], &["backup", "copy"], "there is no database at");
    assert!(!site.path().join("copy").exists());
    site.start(&[]).terminate();
    site.says(&[], &["backup", "copy"], "secrets.env too: without the KEY_SECRET in it");
    let copy = site.path().join("copy/delivery.db");
    let last = fs::read(&copy).unwrap();
    site.refuses(&[("DATABASE_URL", "postgres://nobody@127.0.0.1:1/x")], &["backup", "copy"], "pg_dump");
    site.refuses(&[], &["backup", "delivery-data"], "there is a store, which is in use");
    // Half of it, as a crash of the disk leaves it.
    let store = site.data().join("delivery.db");
    let bytes = fs::read(&store).unwrap();
    fs::write(&store, &bytes[..bytes.len() / 2]).unwrap();
    site.refuses(&[], &["backup", "copy"], "is damaged");
    fs::write(&store, "no database at all, but some text that is long enough to be looked at").unwrap();
    site.refuses(&[], &["backup", "copy"], "is not a SQLite database");
    assert!(fs::read(&copy).unwrap() == last, "the last copy is as it was");
    // Nor does a copy take the place of another server's store.
    let other = Site::new(site.program);
    let server = other.start(&[]);
    fs::write(&store, &bytes).unwrap();
    let folder = other.data().display().to_string();
    site.refuses(&[], &["backup", &folder], "there is a store, which is in use");
    server.kill();
    site.refuses(&[], &["backup", &folder], "there is a store, which is in use");
    other.start(&[]).terminate();
    assert_eq!(fs::read_dir(site.path().join("copy")).unwrap().count(), 1);
}

pub fn a_test_mail_says_whether_the_mail_server_took_it(site: &Site) {
    let mail = SmtpServer::alone(Script::KnowsSomeForCertain);
    let settings = [("SMTP_URL", mail.url.as_str()), ("MAIL_FROM", "Shop <shop@example.com>")];
    site.says(&settings, &["test-mail", "seller@example.com"], "the mail server took it");
    let received = mail.received();
    assert!(received.len() == 1 && received[0].contains("To: seller@example.com"), "{received:?}");
    for more in [
        &[("MAIL_HELO", "mx.shop.example"), ("BASE_URL", "https://shop.example")][..],
        &[("BASE_URL", "https://shop.example:8443/keys"), settings[1]],
        &[("BASE_URL", "http://127.0.0.1:8080"), settings[1]],
    ] {
        let settings = [&settings[..1], more].concat();
        site.says(&settings, &["test-mail", "seller@example.com"], "the mail server took it");
    }
    let greeted = ["EHLO example.com", "EHLO mx.shop.example", "EHLO shop.example", "EHLO example.com"];
    assert_eq!(mail.greeted(), greeted);
    site.refuses(&[settings[0], ("MAIL_HELO", "localhost")], &["check"], "MAIL_HELO (--mail-helo) must be a DNS name");
    let elsewhere = [("SMTP_URL", "smtps://mail.example.com"), ("BASE_URL", "https://shop.example")];
    site.refuses(&elsewhere, &["check"], "MAIL_FROM (--mail-from) must be set");
    for (settings, address, why) in [
        (&settings[..], "nobody@example.com", "knows no such recipient (550 5.1.1)"),
        (&settings[..], "nobody", "must be an e-mail address"),
        (&[], "seller@example.com", "SMTP_URL (--smtp-url) is not set"),
    ] {
        site.refuses(settings, &["test-mail", address], why);
    }
    assert!(!site.data().exists(), "nothing is made");
}

pub fn a_health_check_asks_the_server_that_runs(site: &Site) {
    let bind = format!("0.0.0.0:{}", free_port());
    let settings = configured(&[("BIND", &bind)]);
    site.refuses(&settings, &["healthcheck"], "cannot be reached");
    let server = site.start(&settings);
    assert_eq!(site.says(&settings, &["healthcheck"], ""), "ready\n");
    server.terminate();
    assert!(!site.run(&[], &["healthcheck"]).0, "port 0 is nobody's");
    site.says(&[], &["--version"], env!("CARGO_PKG_VERSION"));
}

/// The twin of each secret setting.
pub fn secrets_come_from_files_too(site: &Site) {
    let secrets = [("webhook", CONFIGURED[0].1), ("admin", TOKEN), ("key", CONFIGURED[2].1)];
    for (file, secret) in secrets {
        fs::write(site.path().join(file), format!("{secret}\n")).unwrap();
    }
    let names = [("WEBHOOK_SECRET_FILE", "webhook"), ("ADMIN_TOKEN_FILE", "admin"), ("KEY_SECRET_FILE", "key")];
    let server = site.start(&names);
    // The greeting goes by the files.
    assert!(!site.data().join("secrets.env").exists() && server.printed.is_empty(), "{}", server.printed);
    assert_eq!(server.add_product().0, 200);
    let key = server.sell("1");
    server.terminate();
    let server = site.start(&CONFIGURED);
    assert_eq!(server.fetch(&key), 200, "they are the same secrets");
    server.terminate();
    let (_, said, why) = site.run(&names[1..], &["--webhook-secret-file", "webhook", "check"]);
    assert!(said.contains("WEBHOOK_SECRET configured"), "{said} {why}");

    for (content, settings, why) in [
        ("", [("KEY_SECRET_FILE", "file")], "KEY_SECRET_FILE (--key-secret-file) is an empty file"),
        ("\n", [("ADMIN_TOKEN_FILE", "file")], "ADMIN_TOKEN_FILE (--admin-token-file) is an empty file"),
        // One line break is dropped, and nothing else.
        ("sixteen-characters\n\n", [("ADMIN_TOKEN_FILE", "file")], "ADMIN_TOKEN (--admin-token)"),
        (" sixteen-characters", [("ADMIN_TOKEN_FILE", "file")], "ADMIN_TOKEN (--admin-token)"),
        ("hunter2", [("WEBHOOK_SECRET_FILE", "file")], "16 characters"),
        ("http://hunter2", [("SMTP_URL_FILE", "file")], "SMTP_URL (--smtp-url) must be smtp://"),
        ("mysql://hunter2", [("DATABASE_URL_FILE", "file")], "DATABASE_URL (--database-url) must be"),
        ("short", [("GUMROAD_TOKEN_FILE", "file")], "GUMROAD_TOKEN"),
        (
            "a-secret-that-is-long",
            [("STRIPE_SECRET_FILE", "nowhere")],
            "STRIPE_SECRET_FILE (--stripe-secret-file) cannot be read",
        ),
    ] {
        let site = Site::new(site.program);
        fs::write(site.path().join("file"), content).unwrap();
        // Starts nothing, and refuses what a start refuses.
        let said = site.refuses(&settings, &["check"], why);
        assert!(!said.contains("hunter2"), "{why}: {said}");
        assert!(!site.data().exists());
    }
    let both = [CONFIGURED[0], ("WEBHOOK_SECRET_FILE", "webhook")];
    let why = "WEBHOOK_SECRET_FILE (--webhook-secret-file) must not be set beside WEBHOOK_SECRET";
    site.refuses(&both, &["check"], why);
    // The file counts beside an empty variable.
    let beside = [("KEY_SECRET", ""), ("KEY_SECRET_FILE", "key")];
    let said = site.says(&beside, &["check"], "KEY_SECRET configured");
    assert!(said.contains("KEY_SECRET fits"), "{said}");
    let unread = "KEY_SECRET_FILE (--key-secret-file) cannot be read";
    site.refuses(&[("KEY_SECRET_FILE", "/dev/zero")], &["check"], unread);
    // Empty counts as not set.
    let empty = [CONFIGURED[0], ("WEBHOOK_SECRET_FILE", "")];
    Site::new(site.program).says(&empty, &["check"], "");
}

pub fn sales_from_elsewhere_are_imported_and_each_row_is_reported(site: &Site) {
    site.shop(&PLENTY).terminate();
    let sheet = "order_id;customer_email;product_id;key\nA;ada@example.com;1;LICENCE-1\nB;bob@example.com;99;\n";
    fs::write(site.path().join("sales.csv"), sheet).unwrap();
    for (arguments, outcome, told) in [
        (&["import", "sales.csv", "--dry-run"][..], "issued", "nothing was changed; it would be: 1 keys issued"),
        (&["import", "sales.csv"], "issued", "1 keys issued, 0 there before, 0 orders refunded, 1 rows refused"),
        (&["import", "sales.csv", "--send"], "existing", "0 keys issued, 1 there before"),
    ] {
        let (good, report, said) = site.run(&CONFIGURED, arguments);
        assert!(!good && said.contains(told) && said.contains("not all rows are in"), "{arguments:?}: {said}");
        let lines: Vec<&str> = report.lines().collect();
        assert_eq!((lines.len(), lines[0]), (3, "row,order_id,outcome,key_id,reason"), "{report}");
        assert!(lines[1].starts_with(&format!("2,A,{outcome},")), "{report}");
        assert!(lines[2].starts_with("3,B,refused,,there is no product"), "{report}");
    }
    fs::write(site.path().join("sales.csv"), &sheet[..sheet.find('B').unwrap()]).unwrap();
    site.says(&CONFIGURED, &["import", "sales.csv"], "2,A,existing,");
    // A refused row is not a fault of the database: the log has no error.
    let taken = "order_id,customer_email,product_id,key\nE,e@example.com,1,LICENCE-1\n";
    fs::write(site.path().join("taken.csv"), taken).unwrap();
    let (_, report, said) = site.run(&CONFIGURED, &["import", "taken.csv"]);
    assert!(report.contains("2,E,refused,,another key has the same text"), "{report}");
    assert!(!said.contains("ERROR"), "{said}");
    // A dry run does not register a new secret, so the new secret alone is as foreign as before.
    let next = [CONFIGURED[0], CONFIGURED[1], ("KEY_SECRET", "what-keys-are-signed-with-next")];
    let both = [next[0], next[1], ("KEY_SECRET", "what-keys-are-signed-with-next,what-keys-are-signed-with")];
    site.says(&both, &["import", "sales.csv", "--dry-run"], "2,A,existing,");
    for arguments in [&["check"][..], &["import", "sales.csv", "--dry-run"]] {
        let (good, said, why) = site.run(&next, arguments);
        assert!(!good && format!("{said}{why}").contains("none of the secrets in KEY_SECRET"), "{said}{why}");
    }
    fs::write(site.path().join("sales.csv"), "order_id,customer_email,product_id\n").unwrap();
    let (good, _, said) = site.run(&CONFIGURED, &["import", "sales.csv"]);
    assert!(good && said.contains("the file has a header row and no sales"), "{said}");
    fs::write(site.path().join("sales.csv"), sheet.replace('\n', "\r")).unwrap();
    site.refuses(&CONFIGURED, &["import", "sales.csv"], "its lines end with CR alone");
    let broken = "order_id,customer_email,product_id\nC,c@example.com,1\nC,c@example.com,1\nD,\"\n";
    fs::write(site.path().join("sales.csv"), broken).unwrap();
    let why = "a quotation mark is not closed; before that: 1 keys issued";
    let said = site.refuses(&CONFIGURED, &["import", "sales.csv"], why);
    assert!(said.contains("to continue, import the file again"), "{said}");
    fs::write(site.path().join("sales.csv"), "order_id,product_id\n").unwrap();
    site.refuses(&CONFIGURED, &["import", "sales.csv"], "the column customer_email is missing");
    let server = site.start_with(&[]);
    assert_eq!(server.validate("LICENCE-1").0, 200);
    server.terminate();
}

/// From one server on a file to another on PostgreSQL, with `dump` and `load`.
#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn keys_that_were_sold_before_a_move_work_after_it() {
    let (url, mut site) = (postgres().database(), Site::new("axum_server"));
    let server = site.shop(&[]);
    let keys: Vec<String> = (0..20).map(|order| server.sell(&order.to_string())).collect();
    assert!(keys.iter().all(|key| server.fetch(key) == 200));
    // A crash leaves uses that are not counted in their keys' rows yet.
    server.kill();

    let report = site.says(&[], &["dump", "shop.jsonl"], "");
    for (what, rows) in [("products", 1), ("keys", 20), ("uses", 20), ("messages", 20)] {
        let lines: Vec<&str> = report.lines().filter(|line| line.trim_start().starts_with(what)).collect();
        let [line] = lines[..] else { panic!("{report}") };
        assert_eq!(line.split_whitespace().nth(1), Some(rows.to_string().as_str()), "{report}");
    }
    let piped = site.says(&[], &["dump", "-"], "");
    assert!(piped == fs::read_to_string(site.path().join("shop.jsonl")).unwrap());
    site.refuses(&[], &["dump", "delivery-data/delivery.db"], "belongs to the store itself");
    site.refuses(&[], &["dump", "nowhere/shop.jsonl"], "error: nowhere/shop.jsonl cannot be written");

    let (load, secret) = (["load", "shop.jsonl"], CONFIGURED[2]);
    let shared = [("DATABASE_URL", url.as_str()), secret];
    site.says(&shared, &load, "");
    for (settings, why) in [
        (&shared[..], "the store is not empty"),
        (&[secret], "the store is not empty"),
        (&[("DATA_DIR", "elsewhere")], "load needs the secret that signed the keys"),
        (&[("DATA_DIR", "elsewhere"), ("KEY_SECRET", "another secret that signs keys")], "signed with another secret"),
    ] {
        site.refuses(settings, &load, why);
    }

    site.program = "rocket_server";
    let server = site.start_with(&shared[..1]);
    for (order, key) in keys.iter().enumerate() {
        assert_eq!(server.validate(key).1["used_count"], 1);
        assert_eq!(server.fetch(key), 200);
        assert_eq!(server.sell(&order.to_string()), *key);
    }
    server.terminate();
}
