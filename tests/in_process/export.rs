//! Tables that are longer than what is read at a time.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use delivery_core::http::{Call, Endpoint, Reply};
use delivery_core::key::{Actor, KeyId};
use delivery_core::store::StoreError;
use delivery_testing::{Fault, Faulty, MemoryStore, Shop};
use http::{HeaderValue, Method, StatusCode, header};

const TOKEN: &str = "the-seller's-own-token";
/// Two pages and a half.
const KEYS: usize = 2_500;

async fn shop() -> (Shop, Arc<Faulty<MemoryStore>>, Vec<KeyId>) {
    let faulty = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
    let shop = Shop::over(faulty.clone(), |builder| builder.admin_token(TOKEN.parse().unwrap())).await;
    let mut keys = Vec::with_capacity(KEYS);
    for order in 0..KEYS {
        keys.push(shop.paid(&order.to_string()).await.key.id());
    }
    keys.sort_unstable_by(|one, other| other.cmp(one));
    (shop, faulty, keys)
}

async fn export(shop: &Shop, what: &str) -> Reply {
    let token = HeaderValue::from_str(&format!("Bearer {TOKEN}")).unwrap();
    let call = Call::new(Method::GET).header(header::AUTHORIZATION, token);
    Endpoint::Export.call(&shop.delivery, Call { query: Some(format!("what={what}")), ..call }).await
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
    let rows = first_cells(&text).len();
    assert!(rows > 500 && rows < KEYS, "{rows}");
}

#[tokio::test]
async fn the_uses_of_a_key_are_all_in_the_table() {
    let shop = Shop::with(|builder| builder.admin_token(TOKEN.parse().unwrap())).await;
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

#[tokio::test]
async fn a_person_is_found_in_any_case_and_no_other_is() {
    let shop = Shop::new().await;
    let ada = shop.paid_by("1", shop.product.id(), "Ada@example.com").await;
    shop.paid_by("2", shop.product.id(), "bob@example.com").await;
    shop.delivery.fetch(ada.key.id(), shop.product.id()).await.unwrap();
    let admin = Actor::admin();
    let person = shop.delivery.desk(&admin).person(&"ADA@EXAMPLE.COM".parse().unwrap()).await.unwrap();
    let keys: Vec<_> = person.keys.iter().map(|(key, uses)| (key.id(), uses.len())).collect();
    assert_eq!(keys, [(ada.key.id(), 1)]);
    assert_eq!(person.messages.len(), 1);
}
