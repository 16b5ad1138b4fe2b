//! Whatever a seller calls a product, its e-mail has the same structure, one subject line, and the key.

#![no_main]

use std::sync::LazyLock;

use delivery_core::product::NewProduct;
use delivery_core::terms::OwnTerms;
use delivery_fuzz::Shop;
use libfuzzer_sys::fuzz_target;

static SHOP: LazyLock<Shop> = LazyLock::new(Shop::new);
static PLAIN: LazyLock<Vec<String>> = LazyLock::new(|| structure(&message("A", "a").unwrap().0));

/// HTML, text, subject and key of the e-mail for such a product, if there can be such a product.
fn message(name: &str, description: &str) -> Option<(String, String, String, String)> {
    let product = NewProduct::new(name).ok()?.description(description).ok()?.content("x").ok()?;
    SHOP.runtime.block_on(async {
        let product = SHOP.delivery.add_product(product).await.unwrap();
        let email = "a@example.com".parse().unwrap();
        let issued = SHOP.delivery.issue_by_hand(product.id(), email, OwnTerms::default(), true).await.unwrap();
        SHOP.delivery.maintenance().outbox().work().await.unwrap();
        let message = SHOP.mailer.0.lock().unwrap().take().unwrap();
        Some((message.html, message.text, message.subject, issued.text.expose().to_owned()))
    })
}

/// The tags, in order.
fn structure(html: &str) -> Vec<String> {
    html.split('<').skip(1).map(|tag| tag.split_once('>').expect("a whole tag").0.to_owned()).collect()
}

fuzz_target!(|input: (String, String)| {
    let (name, description) = input;
    let description = if description.is_empty() { "a" } else { &description };
    let Some((html, text, subject, key)) = message(&name, description) else { return };
    assert_eq!(structure(&html), *PLAIN, "{name:?} changes the e-mail");
    assert!(html.contains(&key) && text.contains(&key));
    let words = name.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!subject.contains(char::is_control) && subject.contains(&words));
});
