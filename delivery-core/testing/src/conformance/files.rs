//! The rows of products' files.

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::catalog::{Port, Shop};
use super::fixtures::{at, edit, now};
use super::{Case, cases};
use delivery_core::ledger::Edit;
use delivery_core::product::{File, MOST_FILES, MediaType, NewProduct, ObjectName, ProductId};
use delivery_core::store::{FileRow, Files, StoreError};

cases![
    /// The promises of a catalog that keeps the rows of [`Files`].
    FILES: dyn Shop, each_files_case,
    a_product_has_its_files_by_name,
    a_replaced_file_stays_as_a_former_row,
    a_deleted_file_stays_as_a_former_row,
    names_differ_by_more_than_case,
    a_product_has_at_most_a_hundred_files,
    a_change_of_the_product_keeps_its_files,
    files_of_unknown_products_are_refused,
    one_of_many_files_of_a_name_is_current,
    rows_are_listed_page_by_page,
    only_former_rows_are_forgotten,
];

fn files(shop: &Port) -> &dyn Files {
    shop.files().expect("a catalog with files")
}

/// Returns a file whose object and contents depend on `number`.
pub(super) fn file(name: &str, number: u8) -> File {
    File {
        object: ObjectName::from_bytes([number; 16]),
        name: name.parse().expect("a name"),
        size: u64::from(number) << 32,
        sha256: [number; 32],
        media_type: "application/pdf".parse().expect("a media type"),
        added_at: now() + TimeDelta::milliseconds(number.into()),
    }
}

async fn product(shop: &Port) -> ProductId {
    shop.add_product(NewProduct::new("Guide").expect("a name"), edit()).await.expect("added").id()
}

async fn listed(shop: &Port, product: ProductId) -> Vec<File> {
    shop.product(product).await.expect("found").expect("known").files().to_vec()
}

async fn rows(shop: &Port) -> Vec<FileRow> {
    files(shop).file_rows(None, 1000).await.expect("listed")
}

async fn a_product_has_its_files_by_name(shop: Port) {
    let id = product(&shop).await;
    assert_eq!(listed(&shop, id).await, []);
    let odd = File { media_type: MediaType::default(), size: 0, ..file("Äpfel \u{202e}😀'\"%.zip", 3) };
    for added in [file("b.pdf", 1), file("A.pdf", 2), odd.clone()] {
        assert_eq!(files(&shop).put_file(id, added.clone(), edit()).await.expect("added"), Some(false));
        assert!(listed(&shop, id).await.contains(&added), "a product is never older than an answer");
        assert_eq!(files(&shop).file(id, added.object).await.expect("found"), Some(added));
    }
    assert_eq!(listed(&shop, id).await, [file("A.pdf", 2), file("b.pdf", 1), odd]);
    let other = product(&shop).await;
    assert_eq!(files(&shop).file(other, ObjectName::from_bytes([1; 16])).await.expect("answered"), None);
    assert_eq!(listed(&shop, other).await, []);
}

async fn a_replaced_file_stays_as_a_former_row(shop: Port) {
    let id = product(&shop).await;
    files(&shop).put_file(id, file("guide.pdf", 1), edit()).await.expect("added");
    let edited = Edit { at: at(1), ..edit() };
    assert_eq!(files(&shop).put_file(id, file("guide.pdf", 2), edited).await.expect("replaced"), Some(true));
    assert_eq!(listed(&shop, id).await, [file("guide.pdf", 2)]);
    let former = files(&shop).file(id, ObjectName::from_bytes([1; 16])).await.expect("found");
    assert_eq!(former, Some(file("guide.pdf", 1)), "whoever downloads it can finish");
    let ended: Vec<_> = rows(&shop).await.into_iter().map(|row| row.ended_at).collect();
    assert_eq!(ended, [Some(at(1)), None]);
}

async fn a_deleted_file_stays_as_a_former_row(shop: Port) {
    let id = product(&shop).await;
    files(&shop).put_file(id, file("guide.pdf", 1), edit()).await.expect("added");
    let name = |name: &str| name.parse().expect("a name");
    assert!(!files(&shop).delete_file(id, &name("other.pdf"), edit()).await.expect("answered"));
    let edited = Edit { at: at(1), ..edit() };
    assert!(files(&shop).delete_file(id, &name("GUIDE.pdf"), edited).await.expect("deleted"));
    assert_eq!(listed(&shop, id).await, []);
    assert!(!files(&shop).delete_file(id, &name("guide.pdf"), edit()).await.expect("answered"), "it is gone");
    assert_eq!(rows(&shop).await, [FileRow { object: ObjectName::from_bytes([1; 16]), ended_at: Some(at(1)) }]);
    files(&shop).put_file(id, file("guide.pdf", 2), edit()).await.expect("added again");
    assert_eq!(listed(&shop, id).await, [file("guide.pdf", 2)]);
}

async fn names_differ_by_more_than_case(shop: Port) {
    let id = product(&shop).await;
    files(&shop).put_file(id, file("Über.pdf", 1), edit()).await.expect("added");
    for (name, number) in [("über.PDF", 2), ("u\u{308}ber.pdf", 3)] {
        assert_eq!(files(&shop).put_file(id, file(name, number), edit()).await.expect("replaced"), Some(true));
        assert_eq!(listed(&shop, id).await, [file(name, number)]);
    }
}

async fn a_product_has_at_most_a_hundred_files(shop: Port) {
    let id = product(&shop).await;
    for number in (1..).take(MOST_FILES) {
        let added = files(&shop).put_file(id, file(&format!("{number}.pdf"), number), edit()).await;
        assert_eq!(added.expect("added"), Some(false));
    }
    let refused = files(&shop).put_file(id, file("more.pdf", 200), edit()).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!(files(&shop).put_file(id, file("7.PDF", 200), edit()).await.expect("replaced"), Some(true));
    assert_eq!(listed(&shop, id).await.len(), MOST_FILES);
}

async fn a_change_of_the_product_keeps_its_files(shop: Port) {
    let id = product(&shop).await;
    files(&shop).put_file(id, file("guide.pdf", 1), edit()).await.expect("added");
    let renamed = NewProduct::new("Atlas").expect("a name");
    let updated = shop.update_product(id, renamed, None, edit()).await.expect("updated").expect("known");
    assert_eq!(updated.files(), [file("guide.pdf", 1)]);
    let archived = shop.set_archived(id, true, edit()).await.expect("archived").expect("known");
    assert_eq!(archived.files(), [file("guide.pdf", 1)]);
    assert_eq!(listed(&shop, id).await, [file("guide.pdf", 1)]);
}

async fn files_of_unknown_products_are_refused(shop: Port) {
    let unknown = ProductId::new(99).expect("1 or more");
    assert_eq!(files(&shop).put_file(unknown, file("guide.pdf", 1), edit()).await.expect("answered"), None);
    let name = "guide.pdf".parse().expect("a name");
    assert!(!files(&shop).delete_file(unknown, &name, edit()).await.expect("answered"));
    assert_eq!(rows(&shop).await, []);
}

async fn one_of_many_files_of_a_name_is_current(shop: Port) {
    let id = product(&shop).await;
    let mut racing = JoinSet::new();
    for number in 1..=16 {
        let shop = shop.clone();
        racing.spawn(async move { files(&shop).put_file(id, file("guide.pdf", number), edit()).await });
    }
    let put = racing.join_all().await.into_iter().map(|put| put.expect("added"));
    assert_eq!(put.filter(|put| *put == Some(false)).count(), 1, "the others replaced it");
    assert_eq!(listed(&shop, id).await.len(), 1);
    assert_eq!(rows(&shop).await.iter().filter(|row| row.ended_at.is_none()).count(), 1);
}

async fn rows_are_listed_page_by_page(shop: Port) {
    let id = product(&shop).await;
    for number in [3, 1, 250, 2] {
        files(&shop).put_file(id, file(&format!("{number}.pdf"), number), edit()).await.expect("added");
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = files(&shop).file_rows(after, 2).await.expect("listed");
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.object);
        seen.extend(page.iter().map(|row| row.object));
    }
    assert_eq!(seen, [1, 2, 3, 250].map(|number| ObjectName::from_bytes([number; 16])));
}

async fn only_former_rows_are_forgotten(shop: Port) {
    let id = product(&shop).await;
    for (name, number) in [("a.pdf", 1), ("a.pdf", 2), ("b.pdf", 3), ("b.pdf", 4)] {
        files(&shop).put_file(id, file(name, number), edit()).await.expect("added");
    }
    let objects = [1, 2, 200].map(|number| ObjectName::from_bytes([number; 16]));
    for _ in 0..2 {
        files(&shop).forget_files(&objects).await.expect("forgotten");
        let left: Vec<_> = rows(&shop).await.into_iter().map(|row| row.object).collect();
        assert_eq!(left, [2, 3, 4].map(|number| ObjectName::from_bytes([number; 16])));
    }
    assert_eq!(listed(&shop, id).await, [file("a.pdf", 2), file("b.pdf", 4)]);
}
