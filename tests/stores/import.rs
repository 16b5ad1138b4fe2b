//! Sales from elsewhere, imported into every store.

use std::fmt::Write;

use delivery_core::delivery::{Import, ImportSummary, Stores};
use delivery_core::store::KeyQuery;
use delivery_testing::{Fixture, Shop};

use super::fixtures::shop;
use super::places::{in_a_folder, in_a_schema};

/// More rows than are submitted at once.
const ROWS: u64 = 600;

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
}
