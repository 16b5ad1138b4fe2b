//! Tables that are longer than what is read at a time.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use chrono::TimeDelta;
use delivery_core::email::Email;
use delivery_core::http::{Call, Endpoint, Reply};
use delivery_core::key::{Actor, KeyId};
use delivery_core::store::StoreError;
use delivery_testing::{Fault, Faulty, MemoryStore, Shop};
use http::{Method, StatusCode};

use super::calls::by_seller;

/// Two pages and a half.
const KEYS: usize = 2_500;

async fn shop() -> (Shop, Arc<Faulty<MemoryStore>>, Vec<KeyId>) {
    let faulty = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
    let shop = Shop::over(faulty.clone(), |builder| builder).await;
    let mut keys = Vec::with_capacity(KEYS);
    for order in 0..KEYS {
        keys.push(shop.paid(&order.to_string()).await.key.id());
    }
    keys.sort_unstable_by(|one, other| other.cmp(one));
    (shop, faulty, keys)
}

async fn export(shop: &Shop, what: &str) -> Reply {
    Endpoint::Export.call(&shop.delivery, by_seller(Call::new(Method::GET).query(format!("what={what}")))).await
}

/// The pieces of a body, until it ends or breaks off.
async fn pieces(reply: Reply, mut after_each: impl FnMut(usize)) -> (Vec<u8>, usize, io::Result<()>) {
    let (mut body, mut text, mut count) = (reply.into_body(), Vec::new(), 0);
    let end = loop {
        match poll_fn(|context| body.poll_piece(context)).await {
            Some(Ok(piece)) => text.extend(piece),
            Some(Err(error)) => break Err(error),
            None => break Ok(()),
        }
        count += 1;
        after_each(count);
    };
    (text, count, end)
}

fn first_cells(text: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(text).unwrap();
    text.split("\r\n").skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_table_has_every_key_once_and_is_sent_in_pieces() {
    let (shop, _, keys) = shop().await;
    let reply = export(&shop, "keys").await;
    assert_eq!((reply.status(), reply.length(), reply.is_streamed()), (StatusCode::OK, None, true));
    let (text, count, end) = pieces(reply, |_| {}).await;
    end.unwrap();
    let ids = first_cells(&text);
    assert_eq!(ids.len(), KEYS + 1, "the last line ends");
    assert!(ids.iter().zip(&keys).all(|(cell, key)| *cell == key.to_string()));
    assert!(count >= 3, "{count} pieces");
}

#[tokio::test]
async fn filters_hold_on_every_page() {
    let (shop, _, _) = shop().await;
    let rows = async |what: &str| {
        let (text, _, end) = pieces(export(&shop, what).await, |_| {}).await;
        end.unwrap();
        first_cells(&text).len() - 1
    };
    assert_eq!(rows("messages&state=queued").await, KEYS);
    assert_eq!(rows("messages&state=failed").await, 0);
    assert_eq!(rows("keys&email_prefix=BUYER").await, KEYS);
    let tomorrow = (shop.now() + TimeDelta::days(1)).date_naive();
    assert_eq!(rows(&format!("keys&since={tomorrow}")).await, 0);
    let admin = Actor::admin();
    let desk = shop.delivery.desk(&admin);
    for _ in 0..KEYS / 2 {
        desk.archive_product(shop.product.id()).await.unwrap();
        desk.restore_product(shop.product.id()).await.unwrap();
    }
    assert_eq!(rows("events&action=product_archived").await, KEYS / 2);
    assert_eq!(rows("events&actor=system").await, 0);
}

#[tokio::test]
async fn a_table_that_cannot_be_read_to_its_end_breaks_off() {
    let (shop, faulty, _) = shop().await;
    let reply = export(&shop, "keys").await;
    // The first page was read before the answer began.
    assert_eq!(reply.status(), StatusCode::OK);
    let (text, _, end) = pieces(reply, |piece| {
        if piece == 1 {
            faulty.otherwise(Fault::Before(StoreError::unavailable("away")));
        }
    })
    .await;
    end.unwrap_err();
    let cells = first_cells(&text);
    assert!(cells.len() > 500 && cells.len() < KEYS, "{}", cells.len());
    // Rocket ends the body as if it were complete.
    assert_eq!(cells.last().unwrap(), "INCOMPLETE: the store could not be read. Download the table again.");
}

#[tokio::test]
async fn eight_tables_are_read_at_once() {
    let shop = Shop::new().await;
    let mut under_way = Vec::new();
    for _ in 0..8 {
        under_way.push(export(&shop, "keys").await);
    }
    assert!(under_way.iter().all(|reply| reply.status() == StatusCode::OK));
    assert_eq!(export(&shop, "keys").await.status(), StatusCode::SERVICE_UNAVAILABLE);
    under_way.pop();
    assert_eq!(export(&shop, "keys").await.status(), StatusCode::OK, "one is done");
}

#[tokio::test]
async fn the_uses_of_a_key_are_all_in_the_table() {
    let shop = Shop::new().await;
    let key = shop.paid("1").await.key.id();
    let unused = shop.paid("2").await.key.id();
    for _ in 0..1_200 {
        shop.delivery.fetch(key, shop.product.id()).await.unwrap();
    }
    let (text, _, end) = pieces(export(&shop, "uses").await, |_| {}).await;
    end.unwrap();
    let cells = first_cells(&text);
    assert_eq!(cells.iter().filter(|cell| **cell == key.to_string()).count(), 1_200);
    assert!(!cells.contains(&unused.to_string()));
}

/// Grace's address was mistyped, so that her key was Mallory's for a while.
#[tokio::test]
async fn what_is_known_of_a_person_tells_of_no_other() {
    let shop = Shop::new().await;
    let [mallory, grace] = ["Mallory@example.com", "grace@example.com"].map(|text| text.parse::<Email>().unwrap());
    let key = shop.paid_by("1", shop.product.id(), mallory.as_str()).await.key.id();
    shop.paid_by("2", shop.product.id(), "bob@example.com").await;
    shop.delivery.fetch(key, shop.product.id()).await.unwrap();
    let admin = Actor::admin();
    let desk = shop.delivery.desk(&admin);
    desk.revoke(key, None).await.unwrap();
    desk.restore(key).await.unwrap();
    desk.resend(key, Some(grace.clone())).await.unwrap();
    let known = async |email: &Email| {
        let person = desk.person(&email.as_str().to_ascii_uppercase().parse().unwrap()).await.unwrap();
        let keys: Vec<_> = person.keys.iter().map(|known| (known.key.id(), known.uses.len())).collect();
        let to: Vec<_> = person.messages.iter().map(|message| message.recipient.to_string()).collect();
        let done: Vec<_> = person.changes.iter().map(|change| change.action.as_str()).collect();
        (keys, to, done.join(" "))
    };
    let (keys, to, done) = known(&grace).await;
    assert_eq!((keys, &*done), (vec![(key, 1)], "resent restored revoked"));
    assert_eq!(to, ["grace@example.com"]);
    let (keys, to, done) = known(&mallory).await;
    assert_eq!((keys, &*done), (vec![], "email_changed"));
    assert_eq!(to, ["Mallory@example.com"]);
    // A second key of Mallory's went to Grace and back between two corrections of the first: nothing is listed twice.
    let other = shop.paid_by("3", shop.product.id(), mallory.as_str()).await.key.id();
    for (id, to) in [(other, &grace), (key, &mallory), (key, &grace)] {
        desk.resend(id, Some(to.clone())).await.unwrap();
    }
    let person = desk.person(&mallory).await.unwrap();
    let numbers: Vec<_> = person.changes.iter().map(|change| change.number).collect();
    let messages: Vec<_> = person.messages.iter().map(|message| message.message).collect();
    let once = |all: &[i64]| all.iter().collect::<std::collections::BTreeSet<_>>().len() == all.len();
    assert!(once(&numbers) && numbers.len() == 3, "{numbers:?}");
    assert!(messages.iter().all(|it| messages.iter().filter(|other| *other == it).count() == 1), "{messages:?}");
    let nobody = known(&"nobody@example.com".parse().unwrap()).await;
    assert_eq!(nobody, (vec![], vec![], String::new()));
}
