//! Imports that break off because the store fails.

use std::sync::Arc;

use delivery_core::delivery::{Import, ImportSummary, ImportedRow};
use delivery_core::http::{Call, Endpoint, Page};
use delivery_core::store::StoreError;
use delivery_testing::{Fault, Faulty, MemoryStore, Shop};
use http::{HeaderValue, Method, StatusCode, header};

use crate::desk::{desk, field, get, text};
use crate::import::{import, keys, outcomes, sheet};

/// More calls of the store than an import of these tests makes.
const CALLS: usize = 100;

fn away() -> Fault {
    Fault::Before(StoreError::unavailable("away"))
}

/// The store works for this number of calls, and then fails once.
fn fail_after(store: &Faulty<MemoryStore>, calls: usize, fault: Fault) {
    (0..calls).for_each(|_| store.then(Fault::None));
    store.then(fault);
}

#[tokio::test]
async fn the_same_file_continues_an_import_that_broke_off() {
    let rows = [
        "A,ada@example.com,1,,,,,,,OLD-LICENCE-1",
        "B,bob@example.com,1,stripe,,,,,,",
        "C,cy@example.com,1,,,,,,refunded,",
        "A,ada@example.com,1,,,,,,,OLD-LICENCE-1",
        "D,dan@example.com,1,,,,,,,",
    ];
    for fault in [away(), Fault::After(StoreError::Unknown { source: None })] {
        let mut broken_off = 0;
        for calls in 0..CALLS {
            let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
            let shop = Shop::over(store.clone(), |builder| builder).await;
            fail_after(&store, calls, fault.clone());
            let mut so_far = ImportSummary::default();
            let (file, report) = (sheet(&rows), |row: ImportedRow| so_far.count(row.outcome));
            let imported = shop.delivery.import(file.as_bytes(), Import::default(), report).await;
            store.heal();
            broken_off += usize::from(imported.is_err());
            let again = import(&shop.delivery, Import::default(), &rows).await;
            let existing = outcomes(&again).into_iter().filter(|outcome| *outcome == "existing").count();
            assert!(existing as u64 >= so_far.issued, "{so_far:?}: {again:?}");
            let third = import(&shop.delivery, Import::default(), &rows).await;
            assert_eq!(outcomes(&third), ["existing", "existing", "refunded", "existing", "existing"]);
            assert_eq!(keys(&shop.delivery).await.len(), 3);
        }
        assert!((1..CALLS).contains(&broken_off), "{broken_off}");
    }
}

#[tokio::test]
async fn the_desk_says_which_rows_are_in() {
    let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
    let shop = Shop::over(store.clone(), desk).await;
    let csrf = field(&get(&shop, Page::Import).await, "csrf");
    let part = |head: &str, content: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"{head}\"\r\n\r\n{content}\r\n")
    };
    for calls in 0..CALLS {
        // The second row waits until the first is in.
        let row = format!("A{calls},ada@example.com,1,,,,,,,");
        let file = part("file\"; filename=\"sales.csv", &sheet(&[&row, &row]));
        let call = [(header::ORIGIN, "http://localhost"), (header::CONTENT_TYPE, "multipart/form-data; boundary=x")]
            .into_iter()
            .fold(Call::new(Method::POST), |call, (name, value)| call.header(name, HeaderValue::from_static(value)));
        let call = Call { body: format!("{}{file}--x--\r\n", part("csrf", &csrf)).into(), ..call };
        fail_after(&store, calls, away());
        let reply = Endpoint::Page(Page::Import).call(&shop.delivery, call).await;
        store.heal();
        if text(&reply).contains("The import broke off: the store is unavailable: away. Rows that got a new key: 1;") {
            assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(reply.headers().iter().any(|(name, _)| *name == header::RETRY_AFTER));
            assert!(text(&reply).contains("To continue, import the file again"), "{}", text(&reply));
            return;
        }
    }
    panic!("no import broke off after its first row");
}
