//! The lists of the desk, and what its overview says of them.

use std::time::Duration;

use delivery_core::http::Page;
use delivery_core::platform::{LemonSqueezy, Secrets};
use delivery_testing::{Behaviour, Shop};

use crate::desk_forms::{desk, field, get, post, shop, text};
use crate::platform_secrets::sale;

/// Returns the values of the hidden fields of the form whose button has this text.
fn form<'p>(page: &'p str, button: &str, names: [&str; 2]) -> Option<[&'p str; 2]> {
    let form = page.split("<form").find(|form| form.contains(&format!(">{button}</button>")))?;
    Some(names.map(|name| form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap().split('"').next().unwrap()))
}

#[tokio::test]
async fn a_search_leads_to_older_and_newer_pages() {
    let shop = shop().await;
    for order in 0..120 {
        shop.clock.advance(Duration::from_secs(1));
        shop.paid_by(&format!("A-{order}"), shop.product.id(), &format!("ada{order:03}@example.com")).await;
    }
    let csrf = field(&get(&shop, Page::Keys).await, "csrf");
    let search = async |[before, back]: [&str; 2]| {
        let page = text(&post(&shop, Page::Keys, format!("csrf={csrf}&q=ada&before={before}&back={back}")).await);
        let first = page.split("<th scope=\"row\">").nth(1).unwrap().split("title=\"").nth(1).unwrap();
        (first.split('"').next().unwrap().to_owned(), page)
    };
    let page_at = |page: &str, button: &str| form(page, button, ["before", "back"]).map(|it| it.map(str::to_owned));
    let (mut firsts, mut pages) = (Vec::new(), Vec::new());
    let mut at = [String::new(), String::new()];
    for _ in 0..3 {
        let (first, page) = search([&at[0], &at[1]]).await;
        firsts.push(first);
        if let Some(older) = page_at(&page, "Older") {
            at = older;
        }
        pages.push(page);
    }
    assert_eq!(firsts, ["ada119@example.com", "ada069@example.com", "ada019@example.com"]);
    assert!(page_at(&pages[0], "Newer").is_none() && page_at(&pages[2], "Older").is_none());
    let [before, back] = page_at(&pages[2], "Newer").unwrap();
    let (first, page) = search([&before, &back]).await;
    assert_eq!(first, "ada069@example.com");
    let [before, back] = page_at(&page, "Newer").unwrap();
    assert_eq!(search([&before, &back]).await.0, "ada119@example.com");
}

#[tokio::test]
async fn a_key_that_is_chosen_twice_is_sent_once() {
    let shop = shop().await;
    let key = shop.paid("A").await.key.id();
    let csrf = field(&get(&shop, Page::Keys).await, "csrf");
    let sent = shop.messages().await.len();
    let again = post(&shop, Page::Keys, format!("csrf={csrf}&id={key}&id={key}&do=resend&sure=yes")).await;
    assert_eq!((again.status().as_u16(), shop.messages().await.len()), (303, sent + 1));
}

#[tokio::test]
async fn the_first_steps_are_over_with_the_first_sale() {
    let shop = shop().await;
    assert!(get(&shop, Page::Overview).await.contains("First steps"));
    shop.paid("A").await;
    assert!(!get(&shop, Page::Overview).await.contains("First steps"), "although the figures are older");
}

#[tokio::test]
async fn the_overview_says_what_waits_although_it_was_tried() {
    const LINE: &str = "1 message could not be sent yet";
    let shop = shop().await;
    shop.mailer.otherwise(Behaviour::FailTransient);
    shop.paid("A").await;
    let before = get(&shop, Page::Overview).await;
    assert!(!before.contains(LINE) && before.contains("1 message waits"), "{before}");
    shop.messages().await;
    assert!(get(&shop, Page::Overview).await.contains(LINE));
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
