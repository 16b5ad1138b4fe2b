//! Sales from elsewhere, imported into every store.

use std::fmt::Write;

use delivery_core::delivery::{Import, ImportOutcome, ImportSummary, Stores};
use delivery_core::product::{NewProduct, Refs};
use delivery_core::store::KeyQuery;
use delivery_testing::{Fixture, Shop};

use super::fixtures::shop;
use super::places::{in_a_folder, in_a_schema};

/// More rows than are submitted at once.
const ROWS: u64 = 600;
/// Orders with two rows each, of which two may race in a store that reads over several connections.
const PAIRS: usize = 60;

async fn import(shop: &Shop, sheet: &str) -> ImportSummary {
    shop.delivery.import(sheet.as_bytes(), Import::default(), |_| {}).await.unwrap()
}

/// How many rows were issued, existed before, were refunded, and were refused.
fn counts(summary: &ImportSummary) -> [u64; 4] {
    [summary.issued, summary.existing, summary.refunded, summary.refused]
}

async fn a_file_is_imported_and_its_texts_are_keys(stores: impl Into<Stores>) {
    let shop = shop(stores).await;
    let header = "order_id;customer_email;product_id;max_uses;used_count;status;key\n";
    let mut sheet = header.to_owned();
    for row in 0..ROWS {
        writeln!(sheet, "{row};buyer{row}@example.com;1;9;{};;LICENCE-{row:04}", row % 10).unwrap();
    }
    // The second has the text of another order.
    sheet.push_str("A;a@example.com;1;;;refunded;\nB;b@example.com;1;;;;LICENCE-0001\n");
    assert_eq!(counts(&import(&shop, &sheet).await), [ROWS, 0, 1, 1]);
    assert_eq!(counts(&import(&shop, &sheet).await), [0, ROWS, 1, 1]);
    for row in [0, 1, 255, 256, 598] {
        let key = shop.delivery.validate(&format!("LICENCE-{row:04}")).await.unwrap();
        assert_eq!((key.email().as_str(), key.used()), (&*format!("buyer{row}@example.com"), row % 10));
        let key = shop.delivery.count_use(key.id(), key.product()).await.unwrap();
        assert_eq!(key.used(), row % 10 + 1);
    }
    let refunded = format!("{header}1;buyer1@example.com;1;;;refunded;\nA;a@example.com;1;;;;\n");
    assert_eq!(counts(&import(&shop, &refunded).await), [0, 0, 1, 1]);
    assert!(shop.delivery.validate("LICENCE-0001").await.is_err());
    let revoked = shop.delivery.keys(&KeyQuery { order: "1".parse().ok(), limit: 2, ..KeyQuery::default() }).await;
    assert!(revoked.unwrap().items[0].revoked_at().is_some());
}

/// The keys of the two rows would have different limits.
async fn the_first_of_two_rows_that_call_one_product_differently_counts(stores: impl Into<Stores>) {
    let shop = shop(stores).await;
    let refs = Refs::new([("own".parse().unwrap(), "guide".parse().unwrap())]).unwrap();
    let guide = shop.delivery.add_product(NewProduct::new("Guide").unwrap().refs(refs)).await.unwrap().id();
    let mut sheet = "order_id;customer_email;source;product_id;product_ref;max_uses\n".to_owned();
    for order in 0..PAIRS {
        writeln!(sheet, "{order};a@example.com;own;{guide};;5\n{order};a@example.com;own;;guide;7").unwrap();
    }
    let mut report = Vec::new();
    shop.delivery.import(sheet.as_bytes(), Import::default(), |row| report.push(row)).await.unwrap();
    assert_eq!(report.len(), 2 * PAIRS);
    for [first, second] in report.as_chunks::<2>().0 {
        assert_eq!((first.outcome, second.outcome), (ImportOutcome::Issued, ImportOutcome::Existing), "{first:?}");
        assert_eq!(first.key, second.key);
        assert!(second.reason.as_ref().is_some_and(|reason| reason.contains("an earlier row")), "{second:?}");
    }
}

/// A test over each store.
macro_rules! over_every_store {
    ($($promise:ident),+ $(,)?) => {
        mod memory { $(test_of!($promise, std::sync::Arc::new(delivery_testing::MemoryStore::new()));)+ }
        mod sqlite { $(test_of!($promise, super::Fixture::open(&super::in_a_folder()).await);)+ }
        mod postgres { $(test_of!(postgres $promise, super::Fixture::open(&super::in_a_schema(false)).await);)+ }
        mod postgres_pool { $(test_of!(postgres $promise, super::Fixture::open(&super::in_a_schema(true)).await);)+ }
    };
}

over_every_store! {
    a_file_is_imported_and_its_texts_are_keys,
    the_first_of_two_rows_that_call_one_product_differently_counts,
}
