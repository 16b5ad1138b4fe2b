//! The seller's desk and the buyer's page, in a real browser, as people use them, on both example servers.
//!
//! The browser is Chromium with its `chromedriver`. axe-core, which npm gets, checks what keeps people from using a page.

mod axe;
mod browser;
mod journey;
mod looks;
mod shop;
mod tasks;

use crate::browser::{Browser, View};
use crate::shop::Shop;
use support::postgres::postgres;

const SERVERS: [&str; 2] = ["axum_server", "rocket_server"];

/// On one server with the script of the buyer's page, on the other without.
#[tokio::test]
#[cfg_attr(any(without = "chromium", without = "chromedriver"), ignore = "needs chromium and chromedriver")]
async fn a_sale_from_the_first_product_to_the_last_use() {
    for (server, scripts) in [(SERVERS[0], true), (SERVERS[1], false)] {
        let shop = Shop::open(server);
        let site = shop.site();
        let seller = Browser::open(&site, View { scripts, ..View::default() }).await;
        journey::sells(&seller, &shop).await;
        let buyer = Browser::open(&site, View { scripts, width: 390, ..View::default() }).await;
        journey::buys(&buyer, &shop, scripts).await;
        journey::revokes(&seller).await;
        journey::is_refused(&buyer).await;
        journey::signs_out(&seller).await;
        buyer.close().await;
        seller.close().await;
    }
}

/// Two servers share a PostgreSQL database. The seller is at the first, with and without scripts.
#[tokio::test]
#[cfg_attr(
    any(without = "chromium", without = "chromedriver", without = "postgres"),
    ignore = "needs chromium, chromedriver and postgres"
)]
async fn the_tasks_of_a_seller() {
    for scripts in [true, false] {
        let database = tokio::task::spawn_blocking(|| postgres().database()).await.unwrap();
        let [shop, other] = SERVERS.map(|server| Shop::open_with(server, &[("DATABASE_URL", &database)]));
        let seller = Browser::open(&shop.site(), View { scripts, ..View::default() }).await;
        tasks::prepares(&seller, &shop).await;
        tasks::issues_a_key_by_hand(&seller).await;
        tasks::corrects_an_address(&seller).await;
        tasks::extends_and_resends(&seller).await;
        tasks::restores_what_was_refunded(&seller, &shop).await;
        tasks::links_an_unknown_product(&seller, &shop).await;
        tasks::dismisses_a_foreign_product(&seller, &shop).await;
        tasks::puts_a_product_back(&seller).await;
        tasks::sets_a_secret(&seller, [&shop, &other]).await;
        tasks::exports(&seller, &shop).await;
        tasks::forgets_a_person(&seller, &shop).await;
        if scripts {
            tasks::previews_in_place(&seller).await;
            tasks::copies_an_order(&seller, &shop).await;
            tasks::tries_the_api(&seller).await;
        }
        seller.close().await;
    }
}

/// Light and dark, 320 to 1,920 pixels wide, with much data.
#[tokio::test]
#[cfg_attr(
    any(without = "chromium", without = "chromedriver", without = "npm"),
    ignore = "needs chromium, chromedriver and npm"
)]
async fn every_page_can_be_read_by_everybody_everywhere() {
    let shop = Shop::open(SERVERS[0]);
    let browser = Browser::open(&shop.site(), View::default()).await;
    let axe = axe::source();
    journey::signs_in(&browser).await;
    shop.fill();
    for page in shop.pages(&browser).await {
        page.open(&browser).await;
        looks::is_as_wide_as_the_window(&browser, &page).await;
        looks::has_no_violation(&browser, &page, &axe).await;
        looks::can_be_used_by_keyboard(&browser, &page).await;
    }
    browser.close().await;
}
