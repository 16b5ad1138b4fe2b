//! What a buyer's page becomes of a product's Markdown: bounded in time and size, and without a script.

#![no_main]

use std::sync::LazyLock;

use delivery_core::http::{Call, Endpoint, Page};
use delivery_core::look::Look;
use delivery_core::product::{NewProduct, ProductId};
use delivery_fuzz::Shop;
use http::{HeaderValue, Method, header};
use libfuzzer_sys::fuzz_target;

/// The length of a content, in bytes: costs that grow with the square of it show.
const LENGTH: usize = 64 << 10;

static SHOP: LazyLock<Shop> = LazyLock::new(|| Shop::with(|builder| builder.pages(Look::default())));

/// libFuzzer stops what takes longer than ten seconds.
fn page(content: String) -> String {
    let form = format!("do=open&request=one&key={}", SHOP.good);
    let reply = SHOP.runtime.block_on(async {
        let product = NewProduct::new("Guide").unwrap().content(content).unwrap();
        SHOP.delivery.update_product(ProductId::new(1).unwrap(), product).await.unwrap();
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        let call = Call { body: form.into(), ..Call::new(Method::POST).header(header::CONTENT_TYPE, form_type) };
        let opened = Endpoint::Page(Page::Buyer).call(&SHOP.delivery, call).await;
        let field = |name| opened.headers().iter().find(|(field, _)| **field == name).unwrap().1.to_str().unwrap();
        let (page, cookie) = (field(header::LOCATION).to_owned(), field(header::SET_COOKIE).to_owned());
        let call = Call::new(Method::GET).header(header::COOKIE, cookie.split(';').next().unwrap().parse().unwrap());
        let call = call.query(page.split_once('?').unwrap().1);
        Endpoint::Page(Page::Opened).call(&SHOP.delivery, call).await
    });
    assert_eq!(reply.status(), 200);
    String::from_utf8(reply.body().into_owned()).unwrap()
}

fuzz_target!(|piece: String| {
    // Control characters are no content.
    let piece: String = piece.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    if piece.trim().is_empty() {
        return;
    }
    let page = page(piece.repeat(LENGTH / piece.len()));
    assert!(page.len() <= 32 * LENGTH, "{} bytes", page.len());
    assert_eq!(page.matches("<script").count(), 1, "the page's own");
    assert!(!page.contains("href=\"javascript:"));
});
