//! The lists of the desk, and what its overview says of them.

use std::time::Duration;

use delivery_core::http::Page;
use delivery_core::key::{Actor, KeyId};
use delivery_core::platform::{LemonSqueezy, Secrets};
use delivery_core::product::NewProduct;
use delivery_testing::{Behaviour, Shop};

use crate::calls::header_of;
use crate::desk::{desk, field, get, look, post, shop, text};
use crate::platform_secrets::sale;

/// Returns the query of the link with this text.
fn link(page: &str, text: &str) -> Option<String> {
    let before = page.split(&format!(">{text}</a>")).next().filter(|before| before.len() < page.len())?;
    let address = before.rsplit("href=\"").next().unwrap().split('"').next().unwrap();
    Some(address.split('?').nth(1).unwrap_or_default().replace("&amp;", "&"))
}

#[tokio::test]
async fn a_search_leads_to_older_and_newer_pages() {
    let shop = shop().await;
    for order in 0..120 {
        shop.clock.advance(Duration::from_secs(1));
        shop.paid_by(&format!("A-{order}"), shop.product.id(), &format!("ada{order:03}@example.com")).await;
    }
    let csrf = field(&get(&shop, Page::Keys).await, "csrf");
    let found = post(&shop, Page::Keys, format!("csrf={csrf}&q=ada")).await;
    let location = header_of(&found, "location").unwrap();
    assert!(!location.contains("ada"), "what was typed is in the address: {location}");
    let list = async |query: &str| {
        let page = look(&shop, Page::Keys, query).await;
        let first = page.split("<th scope=\"row\">").nth(1).unwrap().split("title=\"").nth(1).unwrap();
        (first.split('"').next().unwrap().to_owned(), page)
    };
    let (mut firsts, mut pages) = (Vec::new(), Vec::new());
    let mut at = location.split('?').nth(1).unwrap().to_owned();
    for _ in 0..3 {
        let (first, page) = list(&at).await;
        firsts.push(first);
        at = link(&page, "Older").unwrap_or_default();
        pages.push(page);
    }
    assert_eq!(firsts, ["ada119@example.com", "ada069@example.com", "ada019@example.com"]);
    assert!(link(&pages[0], "Newer").is_none() && link(&pages[2], "Older").is_none());
    let (first, page) = list(&link(&pages[2], "Newer").unwrap()).await;
    assert_eq!(first, "ada069@example.com");
    assert_eq!(list(&link(&page, "Newer").unwrap()).await.0, "ada119@example.com");
}

#[tokio::test]
async fn a_key_that_is_chosen_twice_is_sent_once() {
    let shop = shop().await;
    let key = shop.paid("A").await.key.id();
    let csrf = field(&get(&shop, Page::Keys).await, "csrf");
    let sent = shop.messages().await.len();
    let again = post(&shop, Page::Keys, format!("csrf={csrf}&id={key}&id={key}&do=resend&sure=yes")).await;
    assert_eq!((again.status().as_u16(), shop.messages().await.len()), (303, sent + 1));
    // Where no key is left to be sent, the desk does not say that one was.
    shop.delivery.desk(&Actor::admin()).revoke(key, None).await.unwrap();
    for (id, does, says) in [
        (key, "resend", "none_done"),
        (KeyId::from_bytes([9; 16]), "revoke", "none_done"),
        (key, "revoke", "all_revoked"),
    ] {
        let done = post(&shop, Page::Keys, format!("csrf={csrf}&id={id}&do={does}&sure=yes")).await;
        assert_eq!(header_of(&done, "location"), Some(&*format!("/desk/keys?done={says}")), "{does}");
    }
}

#[tokio::test]
async fn what_is_asked_about_chosen_keys_fits_their_number() {
    let shop = shop().await;
    let ids = [shop.paid("A").await.key.id(), shop.paid("B").await.key.id()].map(|id| format!("&id={id}"));
    let csrf = field(&get(&shop, Page::Keys).await, "csrf");
    for (does, chosen, title, sentence) in [
        ("resend", &ids[..1], "Send this key again", "A new e-mail is sent, unless the key is revoked."),
        ("resend", &ids[..], "Send these 2 keys again", "A new e-mail is sent for each of them that is not revoked."),
        ("revoke", &ids[..1], "Revoke this key", "The buyer can no longer use it. You can restore it later."),
        ("revoke", &ids[..], "Revoke these 2 keys", "Their buyers can no longer use them."),
    ] {
        let asked = text(&post(&shop, Page::Keys, format!("csrf={csrf}&do={does}{}", chosen.concat())).await);
        for said in [format!(">{title}</h1>"), format!(">{title}</button>"), format!("<p>{sentence}")] {
            assert!(asked.contains(&said), "{said} in {asked}");
        }
    }
}

#[tokio::test]
async fn a_shop_without_keys_is_not_told_that_none_matches() {
    let shop = shop().await;
    for (query, says) in [("", "There is no key yet."), ("status=expired", "No key matches.")] {
        let page = look(&shop, Page::Keys, query).await;
        assert!(page.contains(&format!("<p>{says}</p>")), "{query}: {page}");
    }
}

/// Each page has the starts of the pages before it in its address, but not of all of them.
#[tokio::test]
async fn a_list_of_very_many_pages_leads_back_as_far_as_it_knows() {
    const PAGES: usize = 53;
    let shop = shop().await;
    for number in 1..PAGES * 50 {
        let product = NewProduct::new(format!("Guide {number}")).unwrap().content("x").unwrap();
        shop.delivery.add_product(product).await.unwrap();
    }
    let leads = async |address: &str, link: &str| {
        let query = address.split_once('?').map(|(_, query)| query.replace("&amp;", "&")).unwrap_or_default();
        let page = look(&shop, Page::Products, &query).await;
        let anchor = page.split("<a ").find(|anchor| anchor.contains(&format!(">{link}</a>")))?;
        Some(anchor.split("href=\"").nth(1)?.split('"').next()?.replace("&#x2f;", "/"))
    };
    let mut addresses = vec!["/desk/products".to_owned()];
    while let Some(older) = leads(addresses.last().unwrap(), "Older").await {
        addresses.push(older);
    }
    assert_eq!(addresses.len(), PAGES);
    let (mut at, mut back) = (addresses[PAGES - 1].clone(), 0);
    while let Some(newer) = leads(&at, "Newer").await {
        (at, back) = (newer, back + 1);
        let start =
            |address: &str| address.split("before=").nth(1).map(|rest| rest.split('&').next().unwrap().to_owned());
        assert_eq!(start(&at), start(&addresses[PAGES - 1 - back]), "page {back} from the end");
    }
    assert!((40..PAGES).contains(&back), "{back}");
    assert_eq!(leads(&at, "Newest").await.as_deref(), Some("/desk/products"));
}

#[tokio::test]
async fn the_first_steps_are_over_with_the_first_sale() {
    let shop = shop().await;
    assert!(get(&shop, Page::Overview).await.contains("First steps"));
    shop.paid("A").await;
    assert!(!get(&shop, Page::Overview).await.contains("First steps"), "although the figures are older");
}

#[tokio::test]
async fn the_overview_says_how_many_messages_wait_for_how_long() {
    let attention =
        |page: &str| page.split("Needs attention").nth(1).map(|it| it.split("</section>").next().unwrap().to_owned());
    let shop = shop().await;
    shop.mailer.otherwise(Behaviour::FailTransient);
    for order in 0..1100 {
        shop.paid(&order.to_string()).await;
    }
    shop.messages().await;
    let page = get(&shop, Page::Overview).await;
    assert!(attention(&page).is_none() && page.contains("1,100 messages wait to be sent"), "{page}");
    shop.clock.advance(Duration::from_mins(2));
    let said = attention(&get(&shop, Page::Overview).await).expect("it is not well");
    assert!(said.contains("1,100 messages wait to be sent, the oldest for 2 minutes"), "{said}");
}

#[tokio::test]
async fn the_overview_says_that_a_platform_was_refused_until_it_is_accepted() {
    const LINE: &str = "A request in the name of lemonsqueezy had a wrong signature";
    let platform = LemonSqueezy::new(&Secrets::new(["a secret"]).unwrap());
    let shop = Shop::with(|builder| desk(builder).platform(platform)).await;
    for (order, secret, status, is_said) in
        [("1", "a secret", 200, false), ("2", "another secret", 401, true), ("3", "a secret", 200, false)]
    {
        shop.clock.advance(Duration::from_secs(1));
        assert_eq!(sale(&shop.delivery, order, secret).await, status);
        assert_eq!(get(&shop, Page::Overview).await.contains(LINE), is_said, "{order}");
    }
}

/// The API lists each event: a timeline shows that.
#[tokio::test]
async fn an_unknown_product_is_one_line_of_the_desk_however_often_it_is_sold() {
    let platform = LemonSqueezy::new(&Secrets::new(["a secret"]).unwrap());
    let shop = Shop::with(|builder| desk(builder).platform(platform)).await;
    for order in ["first-order", "second-order", "third-order"] {
        assert_eq!(sale(&shop.delivery, order, "a secret").await, 200);
        shop.clock.advance(Duration::from_hours(24));
    }
    assert!(get(&shop, Page::Overview).await.contains("1 event of a platform could not be applied"));
    // Of a period that is chosen, all are shown: the newest event may be outside it.
    let until = (shop.delivery.now() - chrono::TimeDelta::days(2)).format("%Y-%m-%d");
    for (query, shown) in [
        ("outcome=needs_attention".to_owned(), &["third-order"][..]),
        (format!("outcome=needs_attention&until={until}"), &["first-order", "second-order"]),
        (String::new(), &["first-order", "second-order", "third-order"]),
    ] {
        let page = look(&shop, Page::Events, &query).await;
        let listed = ["first-order", "second-order", "third-order"].into_iter().filter(|order| page.contains(order));
        assert_eq!(listed.collect::<Vec<_>>(), shown, "{query}");
    }
}
