//! The seller's desk and the buyer's page, in a real browser, as people use them, on both example servers.
//!
//! The browser is Chromium with its `chromedriver`, the checks for people who use other senses are those of axe-core. Without them
//! the tests are left out loudly; with `CI` set they fail.

mod axe;
mod browser;
mod journey;
mod looks;
#[path = "../private/mod.rs"]
mod private;
#[path = "../server/process.rs"]
#[expect(dead_code, reason = "the tests of the programs ask more")]
mod process;
mod shop;

use crate::browser::{Browser, View};
use crate::shop::Shop;

const SERVERS: [&str; 2] = ["axum_server", "rocket_server"];

/// Each with and without the script of the buyer's page.
#[tokio::test]
async fn a_sale_from_the_first_product_to_the_last_use() {
    for server in SERVERS {
        for scripts in [true, false] {
            let shop = Shop::open(server);
            let site = shop.site();
            let Some(seller) = Browser::open(&site, View { scripts, ..View::default() }).await else { return };
            journey::sells(&seller, &shop).await;
            let Some(buyer) = Browser::open(&site, View { scripts, width: 390, ..View::default() }).await else {
                return;
            };
            journey::buys(&buyer, &shop, scripts).await;
            journey::revokes(&seller).await;
            journey::is_refused(&buyer).await;
            journey::signs_out(&seller).await;
            buyer.close().await;
            seller.close().await;
        }
    }
}

/// Light and dark, 360 to 1,920 pixels wide, with little and with much data.
#[tokio::test]
async fn every_page_can_be_read_by_everybody_everywhere() {
    let shop = Shop::open(SERVERS[0]);
    let Some(browser) = Browser::open(&shop.site(), View::default()).await else { return };
    let Some(axe) = axe::source() else { return };
    journey::signs_in(&browser).await;
    for filled in [false, true] {
        if filled {
            shop.fill();
        }
        for page in shop.pages(&browser).await {
            page.open(&browser).await;
            looks::is_as_wide_as_the_window(&browser, &page).await;
            looks::has_no_violation(&browser, &page, &axe).await;
            if filled {
                looks::can_be_used_by_keyboard(&browser, &page).await;
            }
        }
    }
    browser.close().await;
}
