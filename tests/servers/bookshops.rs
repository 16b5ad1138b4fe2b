//! The embedding examples, started and driven by HTTP: one on axum over PostgreSQL, one on Rocket over SQLite.

use std::time::Duration;

use support::process::{JSON, Server, Site, status};
use support::{free_port, wait_for};

/// The status and the body of an answer.
fn ask(app: &Server, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let (head, body) = app.exchange(method, path, headers, body);
    (status(&head), body)
}

fn buy(app: &Server, id: &str, book: &str) -> (u16, String) {
    let order = format!(r#"{{"id":"{id}","book":"{book}","email":"ada@example.com"}}"#);
    ask(app, "POST", "/orders", JSON, &order)
}

fn works(app: &Server) {
    assert_eq!(app.printed, "", "the first line says where it listens");
    let guide = "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a01";
    assert_eq!(ask(app, "GET", "/", "", ""), (200, "A bookshop\n".to_owned()));

    let (status, answer) = buy(app, "1001", guide);
    let key = answer.lines().find(|line| line.starts_with("dlv_")).unwrap_or_else(|| panic!("{status} {answer}"));
    assert_eq!(status, 200);
    let (_, again) = buy(app, "1001", guide);
    assert!(again.contains(key), "a repeated order has the same key");
    let cook_book = "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a02";
    assert_eq!(buy(app, "1001", cook_book).0, 409, "an order is for one book");
    assert_eq!(buy(app, "1002", "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a99").0, 404);
    wait_for(Duration::from_secs(10), || app.later.lock().unwrap().contains(key));

    let bearer = format!("Authorization: Bearer {key}\r\n");
    assert_eq!(ask(app, "HEAD", "/download", &bearer, "").0, 200, "which counts nothing");
    assert_eq!(ask(app, "GET", "/download", "", "").0, 400);
    assert_eq!(ask(app, "GET", "/download", "Authorization: Bearer dlv_nonsense\r\n", "").0, 401);
    let mut link = String::new();
    for times in 1..=2 {
        let (status, body) = ask(app, "GET", "/download", &bearer, "");
        assert!(status == 200 && body.contains(&format!("{times} times")), "{status} {body}");
        body.trim_end().rsplit(' ').next().unwrap().clone_into(&mut link);
    }
    for _ in 0..3 {
        assert_eq!(ask(app, "GET", &link, "", ""), (200, "# Birds".to_owned()), "which counts nothing");
    }
    let other = link.replace(guide, "0197a3f0-5c1e-7c7e-9d59-3f6f0c6f1a02");
    for path in [&other, &link.replace("/books/", "/books/A"), "/books/x/..%2Fbookshop.db"] {
        assert_eq!(ask(app, "GET", path, "", "").0, 404, "{path}");
    }
    let (status, body) = ask(app, "GET", &format!("/api/validate?key={key}"), "", "");
    assert!(status == 200 && body.contains("\"used_count\":2"), "{body}");

    let by_hand = r#"{"product_id":1,"customer_email":"bob@example.com","send_email":false}"#;
    assert_eq!(ask(app, "POST", "/api/admin/issue-key", JSON, by_hand).0, 401);
    let by_ada = format!("{JSON}Cookie: theme=dark; session=demo-session-of-ada\r\n");
    assert_eq!(ask(app, "POST", "/api/admin/issue-key", &by_ada, by_hand).0, 200);
    assert_eq!(ask(app, "POST", "/api/webhook/order", JSON, "{}").0, 404, "not mounted");

    // The staff's own sign-in opens the desk; buyers need none.
    let (status, page) = ask(app, "GET", "/desk", "Cookie: session=demo-session-of-ada\r\n", "");
    assert!(status == 200 && page.contains("Bookshop") && page.contains("Overview"), "{status} {page}");
    let (status, page) = ask(app, "GET", "/desk", "", "");
    assert!(status == 401 && page.contains("Sign in first") && page.contains("\"&#x2f;staff\""), "{status} {page}");
    assert_eq!(ask(app, "GET", "/desk/sign-in", "", "").0, 404, "no token of ours opens it");
    let (status, page) = ask(app, "GET", "/key", "", "");
    assert!(status == 200 && page.contains("Open what you bought"), "{status} {page}");

    // The e-mail is counted once its outcome is stored.
    let sent = "delivery_messages_total{outcome=\"sent\"} 1";
    wait_for(Duration::from_secs(10), || ask(app, "GET", "/metrics", "", "").1.contains(sent));
    let (_, metrics) = ask(app, "GET", "/metrics", "", "");
    for line in ["delivery_uses_total 2", "delivery_keys_issued_total 2"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(!metrics.contains("dlv_"));
}

#[test]
#[cfg_attr(without = "postgres", ignore = "needs postgres")]
fn a_bookshop_on_axum_over_its_own_postgres_pool() {
    let url = support::postgres::postgres().database();
    let site = Site::new("embed_axum");
    works(&site.start(&[("DATABASE_URL", &url)]));
}

#[test]
fn a_bookshop_on_rocket_in_one_file() {
    let site = Site::new("embed_rocket");
    works(&site.start(&[("PORT", &free_port().to_string())]));
}
