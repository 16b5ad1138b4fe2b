//! From one server on a file to another on PostgreSQL, with the program that moves the store.

use std::process::{Command, Output};

use support::postgres::postgres;
use support::process::{CONFIGURED, Site};

fn move_store(site: &Site, url: &str) -> Output {
    let program = site.binary().with_file_name("move_store");
    Command::new(program).current_dir(site.path()).env_clear().env("DATABASE_URL", url).output().unwrap()
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn keys_that_were_sold_before_a_move_work_after_it_and_the_old_server_starts_no_more() {
    let url = postgres().database();
    let mut site = Site::new("axum_server");
    let server = site.shop(&[]);
    let keys: Vec<String> = (0..20).map(|order| server.sell(&order.to_string())).collect();
    assert!(keys.iter().all(|key| server.fetch(key) == 200));
    // Nothing moves under a server's feet.
    let refused = move_store(&site, &url);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("is in use by another process"), "{said}");
    // A crash leaves uses that are not counted in their keys' rows yet.
    server.kill();

    let moved = move_store(&site, &url);
    let (report, progress) = (String::from_utf8(moved.stdout).unwrap(), String::from_utf8(moved.stderr).unwrap());
    assert!(moved.status.success(), "{progress}");
    for (what, rows) in [("products", 1), ("posts", 0), ("keys", 20), ("uses", 20), ("messages", 20)] {
        let lines: Vec<&str> = report.lines().filter(|line| line.trim_start().starts_with(what)).collect();
        let [line] = lines[..] else { panic!("{report}") };
        assert_eq!(line.split_whitespace().nth(1), Some(rows.to_string().as_str()), "{report}");
    }
    assert!(progress.contains("copying keys: 20\n") && progress.contains("comparing keys: 20\n"), "{progress}");
    let again = move_store(&site, &url);
    assert!(again.status.success() && again.stdout.starts_with(b"The store was moved here already"));

    site.refuses(&CONFIGURED, &[], "was moved to PostgreSQL");
    site.program = "rocket_server";
    let server = site.start_with(&[("DATABASE_URL", &url)]);
    for (order, key) in keys.iter().enumerate() {
        assert_eq!(server.validate(key).1["used_count"], 1);
        assert_eq!(server.fetch(key), 200);
        assert_eq!(server.sell(&order.to_string()), *key);
    }
    server.terminate();
}
