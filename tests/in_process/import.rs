//! Sales from elsewhere: what comes of each row, and of the texts that buyers already have.

use std::sync::Arc;
use std::time::Duration;

use delivery_core::Delivery;
use delivery_core::clock::timestamp;
use delivery_core::delivery::{Error, Import, ImportFormat, ImportedRow};
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Actor, Key};
use delivery_core::ledger::Received;
use delivery_core::platform::{Buyer, ChargeRef, Event, Line, Notification, Refund, Sale};
use delivery_core::product::{NewProduct, Refs};
use delivery_core::store::{KeyQuery, StoreError};
use delivery_core::terms::OwnTerms;
use delivery_testing::{Fault, Faulty, MemoryStore, RecordingMailer, Shop};
use http::{HeaderName, HeaderValue, Method};

use crate::calls::{call, product, uses};

const DRY: Import = Import { dry_run: true, send: false, from: None };
const SENDING: Import = Import { dry_run: false, send: true, from: None };
const OLD: &str = "OLD-LICENCE-1";

const HEADER: &str = "order_id,customer_email,product_id,source,created_at,expires_at,max_uses,used_count,status,key";

/// A row of each kind.
const SALES: [&str; 9] = [
    "A,ada@example.com,1,,2026-11-01,,,,,",
    "B,bob@example.com,1,stripe,,2027-01-01,5,2,paid,OLD-LICENCE-1",
    "C,cy@example.com,1,,,,,,refunded,",
    "A,ada@example.com,1,,,,,,,",
    "C,cy@example.com,1,,,,,,,",
    "D,dan@example.com,99,,,,,,,",
    "E,eve,1,,,,,,,",
    "F,fay@example.com,1,,,,2,3,,",
    "G,gil@example.com,1,,,,,,,OLD-LICENCE-1",
];
const OUTCOMES: [&str; 9] =
    ["issued", "issued", "refunded", "existing", "refused", "refused", "refused", "refused", "refused"];

/// A file with these rows.
pub fn sheet(rows: &[&str]) -> String {
    format!("{HEADER}\n{}\n", rows.join("\n"))
}

pub async fn import(delivery: &Delivery, options: Import, rows: &[&str]) -> Vec<ImportedRow> {
    let mut report = Vec::new();
    let summary = delivery.import(sheet(rows).as_bytes(), options, |row| report.push(row)).await.unwrap();
    let refused = report.iter().filter(|row| row.outcome.as_str() == "refused").count();
    assert_eq!((summary.refused, summary.is_complete()), (refused as u64, refused == 0));
    report
}

pub fn outcomes(report: &[ImportedRow]) -> Vec<&'static str> {
    report.iter().map(|row| row.outcome.as_str()).collect()
}

pub async fn keys(delivery: &Delivery) -> Vec<Key> {
    delivery.keys(&KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap().items
}

/// A shop that also has product 2, which the platform `own` calls guide.
async fn shop() -> Shop {
    let shop = Shop::new().await;
    let refs = Refs::new([("own".parse().unwrap(), "guide".parse().unwrap())]).unwrap();
    shop.delivery.add_product(NewProduct::new("Guide").unwrap().refs(refs)).await.unwrap();
    shop
}

/// The platform `own` reports an event.
async fn tell(delivery: &Delivery, id: &str, event: Event) -> Received {
    let (id, kind) = (id.to_owned(), "event".to_owned());
    let notification = Notification { id, kind, is_test: false, events: Ok(vec![event]) };
    delivery.receive(&"own".parse().unwrap(), notification).await.unwrap()
}

fn sale(order: &str) -> Event {
    let lines = vec![Line::named([Some("guide".to_owned())])];
    let buyer = Buyer::by_email(Some("ada@example.com"));
    Event::Paid(Sale { lines, buyer, ..Sale::new(order.parse().unwrap()) })
}

fn refund(order: &str) -> Event {
    Event::Refunded(Refund::full(ChargeRef::Order(order.parse().unwrap())))
}

#[tokio::test]
async fn each_row_is_judged_on_its_own() {
    let shop = Shop::new().await;
    let report = import(&shop.delivery, Import::default(), &SALES).await;
    assert_eq!(outcomes(&report), OUTCOMES, "{report:?}");
    assert!(report.iter().map(|row| row.line).eq(2..11));
    assert_eq!(keys(&shop.delivery).await.len(), 2);
    let found = shop.delivery.key(report[0].key.unwrap()).await.unwrap().unwrap();
    assert_eq!(timestamp(found.granted().issued_at), "2026-11-01T00:00:00Z");
    assert_eq!(timestamp(found.expires_at()), "2027-11-01T00:00:00Z", "a year, as for a new sale on that day");
    assert_eq!((found.used(), found.limit().as_count()), (0, -1));
    let found = shop.delivery.validate(OLD).await.unwrap();
    assert_eq!(Some(found.id()), report[1].key);
    assert_eq!(timestamp(found.expires_at()), "2027-01-01T00:00:00Z");
    assert_eq!((found.used(), found.limit().as_count(), found.email().as_str()), (2, 5, "bob@example.com"));
    for (index, reason) in [(5, "no product"), (6, "customer_email"), (7, "used_count"), (8, "same text")] {
        assert!(report[index].reason.as_ref().unwrap().contains(reason), "{:?}", report[index]);
    }
    assert_eq!(report[3].key, report[0].key);
    assert!(shop.messages().await.is_empty(), "nobody gets an e-mail");
}

#[tokio::test]
async fn importing_again_changes_nothing() {
    let shop = Shop::new().await;
    let first = import(&shop.delivery, Import::default(), &SALES).await;
    let before = keys(&shop.delivery).await;
    let second = import(&shop.delivery, SENDING, &SALES).await;
    assert_eq!(outcomes(&second)[..3], ["existing", "existing", "refunded"]);
    assert_eq!(outcomes(&second)[3..], OUTCOMES[3..]);
    assert_eq!([second[0].key, second[1].key], [first[0].key, first[1].key]);
    assert_eq!(keys(&shop.delivery).await, before);
    assert!(shop.messages().await.is_empty());
}

#[tokio::test]
async fn a_dry_run_says_what_a_run_does_and_writes_nothing() {
    let shop = Shop::new().await;
    let dry = import(&shop.delivery, DRY, &SALES).await;
    assert_eq!(outcomes(&dry), OUTCOMES, "{dry:?}");
    assert!(keys(&shop.delivery).await.is_empty());
    assert!(matches!(shop.delivery.validate(OLD).await, Err(Error::UnknownKey)));
    import(&shop.delivery, Import::default(), &SALES).await;
    let run = import(&shop.delivery, Import::default(), &SALES).await;
    assert_eq!(import(&shop.delivery, DRY, &SALES).await, run);
}

#[tokio::test]
async fn a_dry_run_does_not_register_the_keyring() {
    let store = Arc::new(MemoryStore::new());
    let server = |secret: &str| {
        Delivery::builder(store.clone(), Arc::new(RecordingMailer::default()), secret.parse().unwrap()).build()
    };
    import(&server("the secret of a dry run"), DRY, &SALES).await;
    server("the secret of the shop").register().await.unwrap();
}

#[tokio::test]
async fn new_keys_are_sent_if_that_is_asked_for() {
    let shop = Shop::new().await;
    let report = import(&shop.delivery, SENDING, &SALES[..2]).await;
    let messages = shop.messages().await;
    assert_eq!((report.len(), messages.len()), (2, 2));
    let key = shop.delivery.key(report[0].key.unwrap()).await.unwrap().unwrap();
    assert!(messages.iter().any(|message| message.to == *key.email()), "also of a sale three weeks ago");
}

#[tokio::test]
async fn a_refund_revokes_the_key_and_none_is_issued_later() {
    let shop = Shop::new().await;
    let paid = "A,ada@example.com,1,,,,,,,OLD-LICENCE-1";
    let refunded = "A,ada@example.com,1,,,,,,refunded,";
    let issued = import(&shop.delivery, Import::default(), &[paid]).await;
    let report = import(&shop.delivery, Import::default(), &[refunded, paid]).await;
    assert_eq!(outcomes(&report), ["refunded", "refunded"]);
    assert_eq!(report[0].key, issued[0].key);
    assert!(matches!(shop.delivery.validate(OLD).await, Err(Error::UnknownKey)), "it is revoked");
    assert!(keys(&shop.delivery).await[0].revoked_at().is_some());
    assert!(shop.messages().await.is_empty(), "the buyer is not told");
    // A refund may be about a part of the order.
    shop.delivery.add_product(NewProduct::new("Map").unwrap()).await.unwrap();
    let part = ["B,bob@example.com,1,,,,,,,", "B,bob@example.com,2,,,,,,refunded,"];
    for options in [DRY, Import::default()] {
        assert_eq!(outcomes(&import(&shop.delivery, options, &part).await), ["issued", "refused"]);
    }
    // A refund that is repeated is one, whichever product it names.
    let rows = ["C,cy@example.com,1,,,,,,,", "C,cy@example.com,1,,,,,,refunded,", "C,cy@example.com,2,,,,,,refunded,"];
    for options in [DRY, Import::default()] {
        let report = import(&shop.delivery, options, &rows).await;
        assert_eq!(outcomes(&report), ["issued", "refunded", "refunded"]);
    }
}

#[tokio::test]
async fn a_row_whose_order_has_a_key_says_what_was_not_done() {
    let shop = Shop::new().await;
    let rows = [
        ("A,ada@example.com,1,,,,,,,OLD-LICENCE-1", None),
        ("B,bob@example.com,1,,,,,,,", None),
        ("A,ada@example.com,1,,,,,,,OLD-LICENCE-1", Some("an earlier row is about the same product")),
        ("A,ada@example.com,1,,,,,,,OLD-LICENCE-2", Some("was not kept")),
        ("B,bob@example.com,1,,,,,,,OLD-LICENCE-1", Some("belongs to another key")),
    ];
    let file = rows.map(|(row, _)| row);
    for (options, first) in
        [(DRY, "issued"), (Import::default(), "issued"), (DRY, "existing"), (Import::default(), "existing")]
    {
        let report = import(&shop.delivery, options, &file).await;
        assert_eq!(outcomes(&report), [first, first, "existing", "existing", "existing"]);
        for ((_, expected), ImportedRow { line, reason, .. }) in rows.iter().zip(&report) {
            let is_told = reason.as_ref().zip(*expected).is_some_and(|(reason, expected)| reason.contains(expected));
            assert_eq!((reason.is_some(), is_told), (expected.is_some(), expected.is_some()), "{line}: {reason:?}");
        }
    }
    assert!(matches!(shop.delivery.validate("OLD-LICENCE-2").await, Err(Error::UnknownKey)));
    // The text of a key that was replaced is still the order's own.
    let key = shop.delivery.validate(OLD).await.unwrap();
    shop.delivery.desk(&Actor::admin()).rotate(key.id()).await.unwrap();
    for options in [DRY, Import::default()] {
        let report = import(&shop.delivery, options, &file[..1]).await;
        assert_eq!((outcomes(&report), &report[0].reason), (vec!["existing"], &None));
    }
}

#[tokio::test]
async fn an_event_of_a_platform_about_an_imported_sale_changes_nothing() {
    let shop = shop().await;
    let row = "A,ada@example.com,2,own,2026-11-01,,5,2,,";
    import(&shop.delivery, Import::default(), &[row]).await;
    let before = keys(&shop.delivery).await;
    let received = tell(&shop.delivery, "1", sale("A")).await;
    assert!(received.issued.is_empty() && received.changed.is_empty(), "{received:?}");
    assert_eq!(keys(&shop.delivery).await, before);
    assert_eq!(outcomes(&import(&shop.delivery, Import::default(), &[row]).await), ["existing"]);
    // The other way around.
    let issued = tell(&shop.delivery, "2", sale("B")).await.issued;
    let report = import(&shop.delivery, Import::default(), &["B,ada@example.com,2,own,,,,,,"]).await;
    assert_eq!((outcomes(&report), report[0].key), (vec!["existing"], Some(issued[0].id())));
}

#[tokio::test]
async fn a_refund_by_a_platform_revokes_an_imported_key() {
    let shop = shop().await;
    let row = |order: &str| format!("{order},ada@example.com,2,own,,,,,,");
    import(&shop.delivery, Import::default(), &[&row("A"), &row("B")]).await;
    // The platform has reported the sale of one of the two orders before.
    tell(&shop.delivery, "1", sale("A")).await;
    for (id, order) in [("2", "A"), ("3", "B")] {
        let received = tell(&shop.delivery, id, refund(order)).await;
        assert_eq!(received.changed.len(), 1, "{order}: {received:?}");
    }
    assert!(keys(&shop.delivery).await.iter().all(|key| key.revoked_at().is_some()));
    // An event has sold one product of an order, and another one is imported.
    tell(&shop.delivery, "5", sale("D")).await;
    import(&shop.delivery, Import::default(), &["D,ada@example.com,1,own,,,,,,"]).await;
    assert_eq!(tell(&shop.delivery, "6", refund("D")).await.changed.len(), 2);
    // A sale that is reported after its refund was imported brings no key.
    let refunded = "C,ada@example.com,2,own,,,,,refunded,";
    import(&shop.delivery, Import::default(), &[refunded]).await;
    assert!(tell(&shop.delivery, "4", sale("C")).await.issued.is_empty());
    assert_eq!(keys(&shop.delivery).await.len(), 4);
    // A newer key of the order was replaced very often.
    import(&shop.delivery, Import::default(), &["E,ada@example.com,1,own,,,,,,"]).await;
    shop.clock.advance(Duration::from_secs(1));
    let mut key = import(&shop.delivery, Import::default(), &["E,ada@example.com,2,own,,,,,,"]).await[0].key.unwrap();
    for _ in 0..40 {
        key = shop.delivery.desk(&Actor::admin()).rotate(key).await.unwrap().key.id();
    }
    assert_eq!(tell(&shop.delivery, "7", refund("E")).await.changed.len(), 2);
}

#[tokio::test]
async fn a_dry_run_says_of_a_refund_between_two_rows_what_the_import_does() {
    let rows =
        ["A,ada@example.com,1,,,,,,paid,", "A,ada@example.com,1,,,,,,refunded,", "A,ada@example.com,1,,,,,,paid,"];
    let shop = shop().await;
    for options in [DRY, Import::default()] {
        assert_eq!(outcomes(&import(&shop.delivery, options, &rows).await), ["issued", "refunded", "refunded"]);
    }
}

#[tokio::test]
async fn several_pieces_have_the_uses_of_all_of_them() {
    let shop = Shop::new().await;
    for (name, terms) in [("guide", uses(5)), ("map", OwnTerms::default())] {
        let refs = Refs::new([("gumroad".parse().unwrap(), name.parse().unwrap())]).unwrap();
        shop.delivery.add_product(NewProduct::new(name).unwrap().refs(refs).terms(terms)).await.unwrap();
    }
    let sheet = "Purchase ID,Purchase Email,Product ID,Fully Refunded?,Quantity\n\
        A,ada@example.com,guide,0,3\nB,bob@example.com,map,0,3\n";
    let (options, mut report) = (Import { from: Some(ImportFormat::Gumroad), ..Import::default() }, Vec::new());
    shop.delivery.import(sheet.as_bytes(), options, |row| report.push(row)).await.unwrap();
    for (row, uses) in report.iter().zip([15, -1]) {
        assert_eq!(shop.delivery.key(row.key.unwrap()).await.unwrap().unwrap().limit().as_count(), uses);
    }
    assert_eq!(report.len(), 2);
}

#[tokio::test]
async fn a_forged_key_in_our_form_is_refused_without_asking_the_store() {
    let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
    let shop = Shop::over(store.clone(), |builder| builder).await;
    import(&shop.delivery, Import::default(), &["A,ada@example.com,1,,,,,,,OLD-LICENCE-1"]).await;
    store.otherwise(Fault::Before(StoreError::unavailable("away")));
    let forged = format!("dlv_{}", "0".repeat(48));
    assert_eq!(shop.delivery.identify(&forged).await.unwrap(), None);
    assert!(shop.delivery.identify(OLD).await.is_err());
}

#[tokio::test]
async fn a_text_from_elsewhere_works_wherever_a_key_does() {
    let shop = Shop::new().await;
    import(&shop.delivery, Import::default(), &["A,ada@example.com,1,,,,5,2,,OLD-LICENCE-1"]).await;
    let ask = |query: &str| Call::new(Method::GET).query(query);
    let validate = async |key: &str| call(&shop.delivery, Endpoint::Validate, ask(&format!("key={key}"))).await;
    let (status, answer) = validate(OLD).await;
    assert_eq!((status, answer["used_count"].as_u64()), (200, Some(2)), "{answer}");
    let fetch = ask("product_id=1").header(HeaderName::from_static("x-api-key"), HeaderValue::from_static(OLD));
    assert_eq!(call(&shop.delivery, Endpoint::Product, fetch).await.0, 200);
    let forged = format!("dlv_{}", "0".repeat(48));
    assert_eq!(validate("OLD-LICENCE-2").await, validate(&forged).await, "a miss looks like a forged key");
    assert_eq!(shop.delivery.validate(OLD).await.unwrap().used(), 3);
}

#[tokio::test]
async fn misses_count_as_failures() {
    let shop = Shop::new().await;
    import(&shop.delivery, Import::default(), &["A,ada@example.com,1,,,,,,,OLD-LICENCE-1"]).await;
    let fetch = async |key: &str| {
        let call = Call::new(Method::GET).query(format!("key={key}&product_id=1"));
        Endpoint::Product.call(&shop.delivery, call).await.status().as_u16()
    };
    for _ in 0..60 {
        assert_eq!(fetch("OLD-LICENCE-2").await, 401);
    }
    assert_eq!(fetch("OLD-LICENCE-2").await, 429);
    assert_eq!(fetch(OLD).await, 200, "a key has a limit of its own");
}

#[tokio::test]
async fn another_server_learns_of_the_first_text_within_seconds() {
    let store = Arc::new(MemoryStore::new());
    let (one, other) = (Shop::over(store.clone(), |builder| builder).await, Shop::over(store, |builder| builder).await);
    let is_known = async |shop: &Shop| shop.delivery.identify(OLD).await.unwrap().is_some();
    assert!(!is_known(&one).await && !is_known(&other).await);
    import(&one.delivery, Import::default(), &["A,ada@example.com,1,,,,,,,OLD-LICENCE-1"]).await;
    assert!(is_known(&one).await, "at once on this server");
    assert!(!is_known(&other).await, "it does not ask again yet");
    other.clock.advance(Duration::from_secs(3));
    assert!(is_known(&other).await);
}

#[tokio::test]
async fn a_text_is_known_by_an_older_secret_and_gives_way_to_a_text_of_ours() {
    let store = Arc::new(MemoryStore::new());
    let server = |secrets: &str| {
        let mailer = Arc::new(RecordingMailer::default());
        Delivery::builder(store.clone(), mailer, secrets.parse().unwrap()).build()
    };
    let before = server("the secret that signed until now");
    before.add_product(NewProduct::new("Guide").unwrap()).await.unwrap();
    import(&before, Import::default(), &["A,ada@example.com,1,,,,,,,OLD-LICENCE-1"]).await;
    let after = server("the secret that takes its place,the secret that signed until now");
    let key = after.validate(OLD).await.unwrap();
    assert_eq!(key.product(), product(1));
    let rows = ["A,ada@example.com,1,,,,,,,OLD-LICENCE-1", "B,bob@example.com,1,,,,,,,OLD-LICENCE-1"];
    for options in [DRY, Import::default()] {
        assert_eq!(outcomes(&import(&after, options, &rows).await), ["existing", "refused"]);
    }
    let admin = Actor::admin();
    let rotated = after.desk(&admin).rotate(key.id()).await.unwrap();
    assert!(matches!(after.validate(OLD).await, Err(Error::UnknownKey)));
    assert_eq!(after.validate(rotated.text.expose()).await.unwrap().email(), key.email());
}
