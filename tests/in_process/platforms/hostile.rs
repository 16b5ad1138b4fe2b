//! Requests that somebody who knows the secret could send, and those of somebody who does not.

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::platform::{Event, Notification, Received, Recurrence, Term, Unauthentic};
use proptest::prelude::*;

use super::signing::{PLATFORMS, SECRET, adapter, now, signed};

fn read_at(
    name: &str,
    headers: &[(&str, String)],
    query: &str,
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<Received, Unauthentic> {
    let platform = adapter(name, SECRET).unwrap();
    super::signing::read(&*platform, headers.iter().map(|(field, value)| (*field, value)), query, body, now)
}

pub(crate) fn read(name: &str, topic: &str, body: &[u8]) -> Notification {
    let (headers, query) = signed(name, topic, body);
    match read_at(name, &headers, &query, body, now()) {
        Ok(Received::Notification(notification)) => notification,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn an_address_of_gumroads_has_one_token() {
    for (query, is_authentic) in [
        (format!("token={SECRET}"), true),
        (format!("a=1&token={SECRET}&b"), true),
        (format!("token={SECRET}&token={SECRET}"), false),
        (format!("token={SECRET}&token"), false),
        (format!("token&token={SECRET}"), false),
        (format!("token={SECRET}&token=%ff"), false),
        (format!("token={SECRET}&%74oken=x"), false),
        (format!("a=b&%74oken={}", SECRET.replace('_', "%5F")), true),
        (format!("Token={SECRET}"), false),
        ("token=whsec_".to_owned(), false),
        ("token=".to_owned(), false),
        ("token".to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(read_at("gumroad", &[], &query, b"sale_id=1", now()).is_ok(), is_authentic, "{query}");
    }
}

/// Whoever can send it knows the secret, so it is kept; and it means nothing.
#[test]
fn what_is_no_json_of_the_platform_cannot_be_read() {
    let nested = |lists: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(lists), "]".repeat(lists));
    assert!(read("standard", "", nested(63).as_bytes()).events.is_ok());
    let [deeper, deepest] = [64, 10_000].map(nested);
    let bodies: [&[u8]; 12] = [
        b"{",
        b"[]",
        b"1",
        b"null",
        br#"{"id":"evt_1"} x"#,
        br#"{"id":"evt_1","id":"evt_2"}"#,
        br#"{"id":"evt_1","data":{"object":{"a":1,"a":2}}}"#,
        br#"{"id":"evt_1","data":{"object":{"a":1,"\u0061":2}}}"#,
        b"{\"id\":\"\xff\"}",
        b"{\"id\":\"\xc3",
        deeper.as_bytes(),
        deepest.as_bytes(),
    ];
    for name in PLATFORMS.iter().copied() {
        for body in bodies {
            let notification = read(name, "orders/paid", body);
            assert!(notification.events.is_err(), "{name}: {:?}", String::from_utf8_lossy(&body[..body.len().min(60)]));
            assert!(!notification.id.is_empty());
        }
    }
}

#[test]
fn a_form_bomb_cannot_be_read() {
    let fields = |count: usize| format!("{}sale_id=1", "a=1&&".repeat(count - 1));
    assert!(read("gumroad", "", fields(1000).as_bytes()).events.is_ok());
    let [more, many] = [1001, 100_000].map(fields);
    let distinct = (0..20_000).map(|number| format!("f{number}")).collect::<Vec<_>>().join("=1&");
    for body in [
        more.as_str(),
        many.as_str(),
        distinct.as_str(),
        "sale_id=1&sale_id=2",
        "sale_id=1&%ff=a",
        "sale_id=%ff",
        "sale_id=",
        "resource_name=sale",
    ] {
        assert!(read("gumroad", "", body.as_bytes()).events.is_err(), "{}", &body[..body.len().min(40)]);
    }
}

/// What a buyer was asked for stands beside Gumroad's own fields, under whatever name the seller gave the question.
#[test]
fn an_answer_of_the_buyer_takes_no_place_of_a_field() {
    let sale = "resource_name=sale&sale_id=S1&short_product_id=QMGY&email=buyer%40example.com&test=false";
    let with = |name: &str| format!("{sale}&custom_fields%5B{name}%5D=x");
    for name in ["sale_id", "resource_name"] {
        assert!(read("gumroad", "", with(name).as_bytes()).events.is_err(), "{name}");
    }
    let sold = |body: String| match read("gumroad", "", body.as_bytes()).events.unwrap().remove(0) {
        Event::Paid(sale) => sale,
        other => panic!("{other:?}"),
    };
    // Whether something was sold, and what, the seller decides then.
    for name in ["test", "refunded", "quantity", "subscription_id", "is_preorder_authorization"] {
        assert_eq!(sold(with(name)).lines[0].quantity, 0, "{name}");
    }
    let recurs = |body: String| format!("{body}&subscription_id=sub&recurrence=yearly");
    let line = |body: String| sold(body).lines.remove(0);
    assert_eq!(line(recurs(with("company"))).term, Term::Every(Recurrence::Months(12)));
    let answered = line(recurs(with("recurrence")));
    assert_eq!((answered.quantity, answered.term), (0, Term::Unsaid));
    // What decides nothing is left out.
    for name in ["company", "is_recurring_charge"] {
        let line = line(with(name));
        assert_eq!((line.names, line.quantity), (vec!["QMGY".to_owned()], 1), "{name}");
    }
    assert!(sold(with("short_product_id")).lines[0].names.is_empty());
    assert_eq!(sold(with("email")).buyer.email, None);
    assert_eq!(sold(with("sale_timestamp")).at, None);
}

#[test]
fn ten_thousand_signatures_cost_no_more_than_twenty() {
    let body = b"{}";
    for (name, field, wrong, separator) in [
        ("stripe", "stripe-signature", format!("v1={}", "ab".repeat(32)), ","),
        ("paddle", "paddle-signature", format!("h1={}", "ab".repeat(32)), ";"),
    ] {
        let (headers, query) = signed(name, "", body);
        let (_, right) = headers[0].clone();
        let many = |count: usize| vec![wrong.as_str(); count].join(separator);
        let (time, signature) = right.split_once(separator).unwrap();
        for (count, accepted) in [(19, true), (10_000, false)] {
            let value = [time, &many(count), signature].join(separator);
            let judged = read_at(name, &[(field, value)], &query, body, now());
            assert_eq!(judged.is_ok(), accepted, "{name}: {count}");
        }
    }
    let (mut headers, query) = signed("standard", "", body);
    headers[2].1 =
        [vec!["v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="; 10_000].join(" ").as_str(), &headers[2].1].join(" ");
    assert_eq!(read_at("standard", &headers, &query, body, now()), Err(Unauthentic));
}

#[test]
fn a_header_field_that_is_there_twice_proves_nothing() {
    for name in PLATFORMS.iter().copied().filter(|name| *name != "gumroad") {
        let (headers, query) = signed(name, "orders/paid", b"{}");
        assert!(read_at(name, &headers, &query, b"{}", now()).is_ok(), "{name}");
        let twice = [headers.clone(), headers].concat();
        assert_eq!(read_at(name, &twice, &query, b"{}", now()), Err(Unauthentic), "{name}");
    }
}

#[test]
fn a_signature_is_good_for_the_time_that_the_platform_gives_it() {
    for (name, old, ahead) in
        [("stripe", 300, None), ("paddle", 5, None), ("polar", 300, Some(300)), ("standard", 300, Some(300))]
    {
        let (headers, query) = signed(name, "", b"{}");
        let at = |seconds: i64| read_at(name, &headers, &query, b"{}", now() + TimeDelta::seconds(seconds)).is_ok();
        assert_eq!([at(0), at(old), at(old + 1)], [true, true, false], "{name}");
        assert_eq!([at(-300), at(-301)], [true, ahead.is_none()], "{name}");
    }
    // What has no time in it never expires.
    for name in ["shopify", "lemonsqueezy", "woocommerce"] {
        let (headers, query) = signed(name, "orders/paid", b"{}");
        assert!(read_at(name, &headers, &query, b"{}", now() + TimeDelta::days(3650)).is_ok(), "{name}");
    }
}

#[test]
fn a_ping_of_woocommerce_is_its_number_and_nothing_else() {
    let ping = |body: &[u8]| read_at("woocommerce", &[], "", body, now());
    assert_eq!(ping(b"webhook_id=17"), Ok(Received::Ping));
    for body in
        [b"webhook_id=".as_slice(), b"webhook_id=17&a=b", b"webhook_id=x", b"webhook_id=123456789012345678901", b""]
    {
        assert_eq!(ping(body), Err(Unauthentic), "{:?}", String::from_utf8_lossy(body));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// An authentic body is read or it is not, whatever is in it.
    #[test]
    fn no_body_breaks_an_adapter(name in prop::sample::select(&PLATFORMS[..]), body in any::<Vec<u8>>()) {
        prop_assume!(!body.is_empty());
        read(name, "orders/paid", &body);
    }

    /// A request of which one bit was changed on its way is not the platform's.
    #[test]
    fn a_changed_bit_is_noticed(
        name in prop::sample::select(&PLATFORMS[..]).prop_filter("it signs nothing", |name| *name != "gumroad"),
        mut body in prop::collection::vec(any::<u8>(), 1..200),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let (headers, query) = signed(name, "orders/paid", &body);
        let at = at.index(body.len());
        body[at] ^= 1 << bit;
        prop_assert_eq!(read_at(name, &headers, &query, &body, now()), Err(Unauthentic));
    }
}
