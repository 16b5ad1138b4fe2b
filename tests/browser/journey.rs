//! What people do, step by step.

use crate::browser::Browser;
use crate::shop::{Shop, WRITTEN};
use support::process::TOKEN;

const BUYER: &str = "grace@example.com";

pub async fn signs_in(seller: &Browser) {
    seller.go("/desk").await;
    seller.is_at("/desk/sign-in").await;
    seller.fill("Admin token", "a token of somebody else").await;
    seller.click("Sign in").await;
    seller.reads("This token is not right.").await;
    seller.fill("Admin token", TOKEN).await;
    seller.click("Sign in").await;
    seller.is_at("/desk").await;
}

/// From the first product, by a sale at Stripe, to a key that is found and looked after.
pub async fn sells(seller: &Browser, shop: &Shop) {
    signs_in(seller).await;
    seller.click("Products").await;
    seller.click("Add a product").await;
    seller.fill("Name", "Field guide").await;
    seller.fill("Content", "# Maps\n\nThank **you**. <script>document.title = 'hacked'</script>").await;
    seller.fill("Price", "12.50").await;
    seller.fill("Uses of a key", "1").await;
    seller.press_button("Preview").await;
    seller.shows(".content h2", "Maps").await;
    seller.click("Save").await;
    seller.reads("Saved.").await;

    adds_files(seller, shop).await;

    // A sale of something that the seller has not linked yet waits, and is applied once it is.
    shop.is_paid("1", "plink_guide", BUYER);
    seller.click("Overview").await;
    seller.reads("1 event of a platform could not be applied").await;
    seller.click("Field guide is not linked to any platform yet").await;
    seller.pick("Platform", "Stripe").await;
    seller.fill("Its ID of the product", "plink_guide").await;
    seller.click("Save").await;
    seller.reads("Saved.").await;
    let (subject, _) = shop.mail(1);
    assert!(subject.contains("Field guide"), "{subject}");

    seller.click("Keys").await;
    seller.fill("Address, order, payment or key", "GRACE@example.com").await;
    seller.click("Search").await;
    assert!(!seller.path().await.contains("GRACE"), "what was typed is not in the address");
    seller.click(BUYER).await;
    seller.reads("0 / 1").await;
    seller.click("Change its terms").await;
    seller.fill("Or further uses", "1").await;
    seller.click("Change the key").await;
    seller.reads("The key has its new terms.").await;
    seller.reads("0 / 2").await;
    seller.click("Send again, or correct the address").await;
    seller.click("Send the e-mail").await;
    seller.reads(WRITTEN).await;
    shop.mail(2);
}

/// Adds two files to the product that was saved, replaces one of them, and deletes the other.
async fn adds_files(seller: &Browser, shop: &Shop) {
    const FIRST: &str = "#files ~ table tbody th";
    seller.choose("Add files", &[shop.file("Draft.txt", "a draft"), shop.file("Maps.pdf", "old maps")]).await;
    seller.click("Upload").await;
    seller.reads("Maps.pdf").await;
    seller.shows(FIRST, "Draft.txt").await;
    seller.choose("Add files", &[shop.file("maps.PDF", "new maps")]).await;
    seller.click("Upload").await;
    seller.reads("maps.PDF").await;
    seller.click("Delete").await;
    seller.reads("Draft.txt").await;
    seller.click("Delete it").await;
    seller.shows(FIRST, "maps.PDF").await;
    // A name that no file may have is refused, and the page says so.
    let refused = shop.file(&"n".repeat(201), "a long name");
    seller.choose("Add files", &[refused]).await;
    seller.press_button("Upload").await;
    seller.reads("must be 1 to 200 characters").await;
    seller.go("/desk/products").await;
    seller.click("Field guide").await;
}

/// From the e-mail's button to the last use, and a key that was lost.
pub async fn buys(buyer: &Browser, shop: &Shop, scripts: bool) {
    let (_, button) = shop.mail(2);
    let (_, key) = button.split_once('#').unwrap();
    buyer.go(&button).await;
    if scripts {
        assert_eq!(buyer.value("#key").await, key, "the script takes the key from the address");
        buyer.is_at("/key").await;
    } else {
        assert_eq!(buyer.value("#key").await, "");
        buyer.fill("Your key", key).await;
    }
    buyer.click("Continue").await;
    buyer.reads("Field guide").await;
    buyer.reads("Opening it counts as one use.").await;
    buyer.click("Open").await;
    buyer.shows("article h2", "Maps").await;
    buyer.reads("<script>").await;
    for _ in 0..2 {
        assert_eq!(buyer.download("maps.PDF", "maps.PDF", shop.downloads()).await, "new maps");
    }
    // As often as one likes, as the same use: reloaded, and come back to.
    for _ in 0..12 {
        buyer.reload().await;
        buyer.shows("article h2", "Maps").await;
    }
    let opened = buyer.path().await;
    // Back leads to the page with the button, and never to the browser's own question.
    buyer.back().await;
    buyer.reads("You have opened it").await;
    buyer.go(&opened).await;
    buyer.shows("article h2", "Maps").await;
    assert_eq!(buyer.run("return document.querySelector('[data-copy]').hidden").await, !scripts);
    looks_at_the_key(buyer, key).await;
    buyer.reads("This is the last use of the key.").await;
    buyer.click("Open").await;
    looks_at_the_key(buyer, key).await;
    buyer.reads("This key is used up").await;

    buyer.click("I have lost my key").await;
    buyer.fill("The address that you bought with", "GRACE@example.com").await;
    buyer.click("Send my keys").await;
    let (_, button) = shop.mail(3);
    assert!(button.ends_with(key), "the key that was lost");
}

async fn looks_at_the_key(buyer: &Browser, key: &str) {
    buyer.go("/key").await;
    buyer.fill("Your key", key).await;
    buyer.click("Continue").await;
}

/// All that was done stands in the audit log.
pub async fn revokes(seller: &Browser) {
    seller.click("Keys").await;
    seller.click(BUYER).await;
    seller.reads("2 / 2").await;
    seller.click("Revoke it").await;
    seller.fill("Reason", "<b>asked</b> for").await;
    seller.click("Revoke the key").await;
    seller.reads("The key is revoked.").await;
    seller.reads("<b>asked</b> for").await;
    seller.click("Activity").await;
    seller.click("Audit log").await;
    let log = seller.text().await;
    for done in ["revoked", "resent", "terms changed", "product"] {
        assert!(log.contains(done), "{done} is not in\n{log}");
    }
    seller.reads("admin").await;
}

pub async fn is_refused(buyer: &Browser) {
    buyer.click("I have my key").await;
    buyer.is_at("/key").await;
    buyer.fill("Your key", "dlv_not-a-key").await;
    buyer.click("Continue").await;
    buyer.reads("This key is not valid.").await;
}

pub async fn signs_out(seller: &Browser) {
    seller.click("Sign out (admin)").await;
    seller.go("/desk/keys?status=valid").await;
    seller.is_at("/desk/sign-in?next=%2Fdesk%2Fkeys%3Fstatus%3Dvalid").await;
    seller.fill("Admin token", TOKEN).await;
    seller.click("Sign in").await;
    seller.is_at("/desk/keys?status=valid").await;
}
