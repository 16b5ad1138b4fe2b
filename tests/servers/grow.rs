//! From one server on a file to another on PostgreSQL, with `dump` and `load`.

use std::process::{Command, Output};

use support::postgres::postgres;
use support::process::{CONFIGURED, Site};

fn program(site: &Site, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut program = Command::new(site.binary());
    program.current_dir(site.path()).env_clear().envs(variables.iter().copied()).args(arguments).output().unwrap()
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn keys_that_were_sold_before_a_move_work_after_it() {
    let url = postgres().database();
    let secret = *CONFIGURED.iter().find(|(name, _)| *name == "KEY_SECRET").unwrap();
    let mut site = Site::new("axum_server");
    let server = site.shop(&[]);
    let keys: Vec<String> = (0..20).map(|order| server.sell(&order.to_string())).collect();
    assert!(keys.iter().all(|key| server.fetch(key) == 200));
    // A crash leaves uses that are not counted in their keys' rows yet.
    server.kill();

    let dumped = program(&site, &["dump", "shop.jsonl"], &[]);
    let report = String::from_utf8(dumped.stdout).unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    for (what, rows) in [("products", 1), ("keys", 20), ("uses", 20), ("messages", 20)] {
        let lines: Vec<&str> = report.lines().filter(|line| line.trim_start().starts_with(what)).collect();
        let [line] = lines[..] else { panic!("{report}") };
        assert_eq!(line.split_whitespace().nth(1), Some(rows.to_string().as_str()), "{report}");
    }
    let piped = program(&site, &["dump", "-"], &[]);
    assert!(piped.status.success() && piped.stdout == std::fs::read(site.path().join("shop.jsonl")).unwrap());

    let itself = program(&site, &["dump", "delivery-data/delivery.db"], &[]);
    assert!(
        !itself.status.success() && String::from_utf8_lossy(&itself.stderr).contains("belongs to the store itself")
    );

    let shared = [("DATABASE_URL", url.as_str()), secret];
    let loaded = program(&site, &["load", "shop.jsonl"], &shared);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    for (settings, said) in [
        (&shared[..], "the store is not empty"),
        (&[secret], "the store is not empty"),
        (&[("DATA_DIR", "elsewhere")], "load needs the secret that signed the keys"),
        (&[("DATA_DIR", "elsewhere"), ("KEY_SECRET", "another secret that signs keys")], "signed with another secret"),
    ] {
        let refused = program(&site, &["load", "shop.jsonl"], settings);
        let told = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && told.contains(said), "{settings:?}: {told}");
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
