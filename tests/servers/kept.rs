//! What a start makes and keeps: secrets and files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use support::postgres::postgres;
use support::process::{CONFIGURED, JSON, Server, Site, TOKEN, by_token, configured, key_of, order};

pub fn a_file_of_secrets_is_only_ever_added_to(site: &Site) {
    site.start(&[]).terminate();
    let file = site.data().join("secrets.env");
    let made = fs::read_to_string(&file).unwrap();
    let secret = |name: &str| made.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap().to_owned();
    let (key, admin) = (secret("KEY_SECRET"), secret("ADMIN_TOKEN"));
    let edited = |from: &str, to: &str| made.replace(from, to);
    for (text, refused) in [
        (edited("KEY_SECRET=", "#KEY_SECRET="), true),
        (String::new(), true),
        (edited(&key, &format!("\"{key}\"  # do not lose")), false),
    ] {
        fs::write(&file, &text).unwrap();
        if refused {
            let said = site.refuses(&[], &[], "made with none");
            assert!(said.contains("KEY_SECRET"), "{text}: {said}");
            assert!(!said.contains(&key), "{said}");
        } else {
            let server = site.start(&[]);
            assert_eq!(server.printed, "", "{text}");
            server.terminate();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing is missing, so nothing is written");
        let left: Vec<_> = fs::read_dir(site.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_str().unwrap().contains(".new")), "{left:?}");
    }
    // Another one that is missing is made, and stands behind what was there.
    let text = format!("# mine\nUNKNOWN=kept\nKEY_SECRET={key}\n#ADMIN_TOKEN={admin}");
    fs::write(&file, &text).unwrap();
    site.start(&[]).terminate();
    let now = fs::read_to_string(&file).unwrap();
    let added = now.strip_prefix(&text).expect("only added to");
    assert!(added.starts_with("\nWEBHOOK_SECRET=") && added.contains("\nADMIN_TOKEN=") && !added.contains(&admin));
    // A quote that is not closed has a line.
    fs::write(&file, "A=1\nKEY_SECRET=\"x\n").unwrap();
    let said = site.refuses(&[], &[], "line 2");
    assert!(said.contains("quote"), "{said}");
}

pub fn a_secret_that_a_crash_left_behind_is_found_again(site: &Site) {
    // The database has accepted it, and the start died before the file had its name.
    site.start(&[]).terminate();
    let (file, staged) = (site.data().join("secrets.env"), site.data().join("secrets.env.new.0011223344556677"));
    let made = fs::read_to_string(&file).unwrap();
    fs::rename(&file, &staged).unwrap();
    site.start(&[]).terminate();
    let line = |text: &str| text.lines().find(|line| line.starts_with("KEY_SECRET=")).map(str::to_owned);
    assert_eq!(line(&fs::read_to_string(&file).unwrap()), line(&made));
}

/// Looks at each file of a folder, and of the folders in it. An e-mail that is being written gets another name meanwhile.
fn are_private(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let metadata = match entry.metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            metadata => metadata.unwrap(),
        };
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{:o} {}", mode, entry.path().display());
        if entry.path().is_dir() {
            are_private(&entry.path());
        }
    }
}

/// In a folder that was there before, readable by everybody.
pub fn files_are_for_their_owner_alone(site: &Site) {
    fs::create_dir(site.data()).unwrap();
    fs::set_permissions(site.data(), fs::Permissions::from_mode(0o755)).unwrap();
    let server = site.shop(&[]);
    assert_eq!(server.order("A").0, 200);
    let head = by_token(TOKEN).replace("application/json", "application/pdf");
    assert_eq!(server.call("PUT", "/api/admin/product/file?product_id=1&name=a.pdf", &head, "the guide").0, 200);
    are_private(&site.data());
    server.kill();
    // As an earlier version or a copy may have left it.
    for file in ["delivery.db", "delivery.db-wal", "delivery.db-shm"] {
        fs::set_permissions(site.data().join(file), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let server = site.start(&CONFIGURED);
    are_private(&site.data());
    server.terminate();
    let site = Site::new(site.program);
    site.start(&[]).terminate();
    for mode in [0o600, 0o640, 0o644] {
        fs::set_permissions(site.data().join("secrets.env"), fs::Permissions::from_mode(mode)).unwrap();
        let server = site.start(&[]);
        are_private(&site.data());
        server.terminate();
    }
}

/// Servers that share a database would each make another one, and each refuse the orders of the others.
pub fn no_secret_is_made_for_a_database_that_has_keys(site: &Site) {
    let server = site.shop(&[]);
    server.terminate();
    for missing in ["WEBHOOK_SECRET", "ADMIN_TOKEN"] {
        let rest: Vec<_> = CONFIGURED.into_iter().filter(|(name, _)| *name != missing).collect();
        // Nothing was sold yet.
        site.start(&rest).terminate();
        fs::remove_file(site.data().join("secrets.env")).unwrap();
    }
    let server = site.start(&CONFIGURED);
    assert_eq!(server.order("A").0, 200);
    server.terminate();
    for missing in CONFIGURED.map(|(name, _)| name) {
        let rest: Vec<_> = CONFIGURED.into_iter().filter(|(name, _)| *name != missing).collect();
        let said = site.refuses(&rest, &[], &format!("{missing} (--"));
        assert!(said.contains("secrets.env"), "{said}");
        let left: Vec<_> = fs::read_dir(site.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let secret = |name: &str| name.starts_with("secrets.env") && name != "secrets.env.lock";
        assert!(!left.iter().any(|name| secret(name.to_str().unwrap())), "{left:?}");
    }
    site.start(&CONFIGURED).terminate();
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn two_first_starts_share_one_folder_and_one_new_database() {
    let site = Site::new("axum_server");
    for round in 0..support::rounds(2, 10) {
        let url = postgres().database();
        let data = site.path().join(round.to_string());
        // A signing secret that is configured leaves two others to be made.
        let settings = [("DATABASE_URL", url.as_str()), ("DATA_DIR", data.to_str().unwrap()), CONFIGURED[2]];
        let settings = &settings[..2 + round % 2];
        let rocket = Site::new("rocket_server");
        let servers = std::thread::scope(|scope| {
            let starts = [&site, &rocket].map(|site| scope.spawn(|| Server::start(site.command(settings))));
            starts.map(|start| start.join().unwrap())
        });
        let text = fs::read_to_string(data.join("secrets.env")).unwrap();
        let secret = |name: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap();
        for (index, server) in servers.iter().enumerate() {
            let (head, product) = (by_token(secret("ADMIN_TOKEN")), r#"{"name":"A","content":"a"}"#);
            assert_eq!(server.call("POST", "/api/admin/product", &head, product).0, 200);
            let mut order = order(&index.to_string());
            order["secret"] = secret("WEBHOOK_SECRET").into();
            let key = key_of(server.call("POST", "/api/webhook/order", JSON, &order.to_string()));
            assert_eq!(servers.each_ref().map(|server| server.fetch(&key)), [200, 200]);
        }
        let _logs = servers.map(Server::terminate);
        // What is in the file is what the database knows.
        site.start(settings).terminate();
    }
}

/// Keys with another prefix than the first would not verify.
pub fn keys_begin_as_the_first_start_says(site: &Site) {
    let shop = configured(&[("KEY_PREFIX", "fern7")]);
    let server = site.shop(&[("KEY_PREFIX", "fern7")]);
    let key = server.sell("A");
    assert!(key.starts_with("fern7_"), "{key}");
    assert_eq!(server.fetch(&key), 200);
    server.terminate();
    for other in [configured(&[]), configured(&[("KEY_PREFIX", "moss")])] {
        site.refuses(&other, &[], "KEY_PREFIX");
        site.refuses(&configured(&[("KEY_PREFIX", "Moss")]), &[], "must be 1 to 12 lower-case letters or digits");
    }
    // Nor would those of a secret that has signed since.
    let ring = format!("the-secret-that-signs-next,{}", CONFIGURED[2].1);
    let server = site.start_with(&[("KEY_PREFIX", "fern7"), ("KEY_SECRET", &ring)]);
    assert_eq!(server.fetch(&key), 200);
    server.sell("B");
    server.terminate();
    site.refuses(&shop, &[], "KEY_SECRET (--key-secret): keys were signed most recently");
}
