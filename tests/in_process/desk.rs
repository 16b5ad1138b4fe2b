//! A desk at which everybody is signed in, and calls of its pages.

use std::sync::Arc;

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::delivery::Builder;
use delivery_core::http::{Call, Endpoint, Page, Reply};
use delivery_core::key::Actor;
use delivery_core::look::Look;
use delivery_core::seller::{Head, Seller};
use delivery_testing::Shop;
use http::{Method, StatusCode, header};

use super::calls::header_of;

/// A host that signs in everybody.
#[derive(Debug)]
struct Everybody;

#[async_trait]
impl Seller for Everybody {
    async fn authenticate(&self, _: &Head<'_>) -> Option<Actor> {
        Some(Actor::admin())
    }
}

pub async fn shop() -> Shop {
    Shop::with(desk).await
}

/// A desk at which everybody is signed in.
pub fn desk(builder: Builder) -> Builder {
    builder.pages(Look::default()).seller(Arc::new(Everybody))
}

/// Opens a page, or sends a form to it.
pub async fn see(delivery: &Delivery, page: Page, call: Call) -> (StatusCode, String) {
    let reply = Endpoint::Page(page).call(delivery, call).await;
    (reply.status(), text(&reply))
}

pub async fn get(shop: &Shop, page: Page) -> String {
    see(&shop.delivery, page, Call::new(Method::GET)).await.1
}

/// A page with this query.
pub async fn look(shop: &Shop, page: Page, query: &str) -> String {
    see(&shop.delivery, page, Call::new(Method::GET).query(query)).await.1
}

/// The call, with a form that a page of this origin sends.
pub fn form(call: Call, origin: &str, body: String) -> Call {
    let call = Call { method: Method::POST, body: body.into(), ..call };
    [(header::ORIGIN, origin), (header::CONTENT_TYPE, "application/x-www-form-urlencoded")]
        .into_iter()
        .fold(call, |call, (name, value)| call.header(name, value.parse().unwrap()))
}

pub fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body().into_owned()).unwrap()
}

/// The value of a hidden field.
pub fn field(page: &str, name: &str) -> String {
    let value = page.split(&format!("name=\"{name}\" value=\"")).nth(1).expect(name);
    value.split('"').next().unwrap().to_owned()
}

/// The cookie that an answer sets, as a browser sends it back.
pub fn cookie_of(reply: &Reply) -> &str {
    header_of(reply, "set-cookie").unwrap().split(';').next().unwrap()
}

pub async fn post(shop: &Shop, page: Page, body: String) -> Reply {
    Endpoint::Page(page).call(&shop.delivery, form(Call::new(Method::POST), "http://localhost", body)).await
}
