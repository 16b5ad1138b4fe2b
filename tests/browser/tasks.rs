//! What sellers do most often, each task from the desk's menu to the sentence that says that it is done.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::journey::signs_in;
use crate::shop::{Shop, WRITTEN};
use support::process::TOKEN;

const TYPED: &str = "grcae@example.com";
const GRACE: &str = "grace@example.com";
const ADA: &str = "ada@example.com";
const SEARCH: &str = "Address, order, payment or key";

/// A product, and a seller who is signed in.
pub async fn prepares(seller: &Browser, shop: &Shop) {
    let refs = json!({ "stripe": ["plink_guide"], "gumroad": ["guide"] });
    shop.by_seller("product", &json!({ "name": "Field guide", "content": "# Maps", "refs": refs }));
    signs_in(seller).await;
}

pub async fn issues_a_key_by_hand(seller: &Browser) {
    seller.click("Keys").await;
    seller.click("Issue a key by hand").await;
    seller.fill("The buyer's address", TYPED).await;
    seller.fill("Uses", "3").await;
    seller.click("Issue the key").await;
    seller.reads(WRITTEN).await;
    seller.reads("0 / 3").await;
}

pub async fn corrects_an_address(seller: &Browser) {
    seller.click("Keys").await;
    seller.click(TYPED).await;
    seller.click("Send again, or correct the address").await;
    seller.fill("Another address", GRACE).await;
    seller.click("Send the e-mail").await;
    seller.reads(WRITTEN).await;
    seller.reads(&format!("Key of {GRACE}")).await;
    seller.reads(&format!("from {TYPED} to {GRACE}")).await;
}

pub async fn extends_and_resends(seller: &Browser) {
    seller.click("Change its terms").await;
    seller.fill("Valid until the end of", "2099-01-31").await;
    seller.fill("Or further uses", "2").await;
    seller.click("Change the key").await;
    seller.reads("The key has its new terms.").await;
    seller.reads("31 January 2099").await;
    seller.reads("0 / 5").await;
    seller.click("Send again, or correct the address").await;
    seller.click("Send the e-mail").await;
    seller.reads(WRITTEN).await;
}

/// The key is found by the id of its payment, which a refund's e-mail from Stripe names.
pub async fn restores_what_was_refunded(seller: &Browser, shop: &Shop) {
    shop.is_paid("7", "plink_guide", ADA);
    shop.is_refunded("7");
    seller.click("Keys").await;
    seller.fill(SEARCH, "pi_7").await;
    seller.click("Search").await;
    seller.click(ADA).await;
    seller.shows(".figures .badge", "revoked").await;
    seller.back().await;
    seller.reads("What was found").await;
    seller.click(ADA).await;
    seller.shows(".figures .badge", "revoked").await;
    seller.click("Restore it").await;
    seller.click("Restore the key").await;
    seller.reads("The key can be used again.").await;
    seller.shows(".figures .badge", "valid").await;
}

/// From the overview, where the event waits.
pub async fn links_an_unknown_product(seller: &Browser, shop: &Shop) {
    shop.is_paid("8", "plink_unknown", ADA);
    opens_the_newest_event(seller).await;
    seller.pick("Product", "Field guide (1)").await;
    seller.click("Link it to this product").await;
    seller.reads("The product is linked. Sales of it that waited were applied.").await;
    seller.reads("issued").await;
}

pub async fn dismisses_a_foreign_product(seller: &Browser, shop: &Shop) {
    shop.is_paid("9", "plink_foreign", ADA);
    opens_the_newest_event(seller).await;
    seller.click("It is not sold here: put all its events aside").await;
    seller.reads("The event is put aside.").await;
    shop.is_paid("10", "plink_foreign", ADA);
    seller.click("Overview").await;
    let overview = seller.text().await;
    assert!(!overview.contains("could not be applied"), "{overview}");
}

async fn opens_the_newest_event(seller: &Browser) {
    seller.click("Overview").await;
    seller.click("1 event of a platform could not be applied").await;
    let first = seller.run("return document.querySelector('table.list tbody a').getAttribute('href')").await;
    seller.go(first.as_str().unwrap()).await;
}

pub async fn puts_a_product_back(seller: &Browser) {
    seller.click("Products").await;
    seller.click("Field guide").await;
    seller.click("Stop selling this product").await;
    seller.click("Stop selling it").await;
    seller.reads("The product is no longer sold.").await;
    seller.click("Products").await;
    seller.click("Field guide").await;
    seller.click("Sell it again").await;
    seller.reads("The product is sold again.").await;
}

/// Both servers accept what is signed with it, and neither is started again.
pub async fn sets_a_secret(seller: &Browser, shops: [&Shop; 2]) {
    const SECRET: &str = "a-token-of-the-sellers";
    assert!(shops.iter().all(|shop| !shop.is_sold_by_gumroad("G-0", SECRET, GRACE)));
    seller.click("Setup").await;
    seller.unfold("Gumroad").await;
    seller.enter("A token of your own", SECRET).await;
    seller.reads("The secret is set. Every server accepts events that are signed with it.").await;
    assert!(!seller.text().await.contains(SECRET), "it is never shown again");
    for (number, shop) in ["G-1", "G-2"].iter().zip(shops) {
        assert!(shop.is_sold_by_gumroad(number, SECRET, GRACE), "{number}: at its first report");
    }
    seller.click("Keys").await;
    seller.fill(SEARCH, "G-2").await;
    seller.click("Search").await;
    seller.reads(GRACE).await;
}

pub async fn exports(seller: &Browser, shop: &Shop) {
    seller.click("Keys").await;
    seller.pick("Sold by", "gumroad").await;
    seller.click("Filter").await;
    let table = seller.download("Download the keys as CSV", "keys.csv", shop.downloads()).await;
    let lines: Vec<&str> = table.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("\u{feff}id,"), "{table}");
    assert!(lines[1..].iter().all(|line| line.contains(GRACE) && line.contains(",gumroad,")), "{table}");
    seller.click("Activity").await;
    seller.click("Audit log").await;
    let log = seller.download("Download as CSV", "events.csv", shop.downloads()).await;
    assert!(log.contains("platform_secret") && !log.contains("a-token-of-the-sellers"), "{log}");
}

pub async fn forgets_a_person(seller: &Browser, shop: &Shop) {
    seller.click("Setup").await;
    seller.click("Forget a person").await;
    seller.fill("Address", "Ada@example.com").await;
    let says = "Download what is known of this person";
    let known = seller.download(says, "person.json", shop.downloads()).await;
    let known: Value = serde_json::from_str(&known).expect(&known);
    assert_eq!(known["keys"].as_array().map(Vec::len), Some(2), "{known}");
    seller.tick("I have checked the address").await;
    seller.click("Forget this person").await;
    seller.reads("The person is forgotten.").await;
    seller.click("Keys").await;
    let keys = seller.text().await;
    assert!(keys.contains(GRACE) && !keys.contains(ADA), "{keys}");
}

/// A preview loads no page, and nothing moves.
pub async fn previews_in_place(seller: &Browser) {
    seller.click("Products").await;
    seller.click("Field guide").await;
    seller.shows(".content h2", "Maps").await;
    seller.fill("Content", "# Atlas").await;
    seller.run("window.isLeft = false; window.scrollTo(0, 1e6); window.was = window.scrollY").await;
    seller.press_button("Preview").await;
    seller.shows(".content h2", "Atlas").await;
    assert_eq!(seller.run("return [window.isLeft, window.scrollY - window.was]").await, json!([false, 0]));
    // A form that is refused is shown as without a script.
    seller.fill("Price", "a lot").await;
    seller.click("Preview").await;
    seller.reads("The price").await;
}

/// The list shows the beginning and the end of an order's number, and copies the whole.
pub async fn copies_an_order(seller: &Browser, shop: &Shop) {
    let order = "a1".repeat(29);
    shop.is_paid(&order, "plink_guide", ADA);
    seller.click("Keys").await;
    seller.reads("cs_a1a1a1a1a…a1a1a1").await;
    // The newest key is the first.
    seller.press_at(".copy").await;
    seller.reads("✓").await;
}

/// Finds an endpoint in the reference, and tries it.
pub async fn tries_the_api(developer: &Browser) {
    developer.go("/docs").await;
    developer.fill("Admin token", TOKEN).await;
    developer.fill("Search", "/api/admin/stats").await;
    let found = "return [...document.querySelectorAll('article:not([hidden])')].map(it => it.id).join(' ')";
    assert_eq!(developer.run(found).await, "showStats");
    developer.run("document.querySelector('#showStats details.tool').open = true").await;
    developer.run("document.querySelector('#showStats form button').click()").await;
    developer.reads("Answered 200").await;
    developer.reads("\"revenue\"").await;
}
