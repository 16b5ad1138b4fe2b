//! The desk behind the host's own sign-in, in place of a token of ours.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use chrono::DateTime;
use delivery_core::Delivery;
use delivery_core::delivery::Builder;
use delivery_core::http::{Call, Endpoint, Page};
use delivery_core::key::Actor;
use delivery_core::ledger::Action;
use delivery_core::limit::{Quota, Quotas};
use delivery_core::look::Look;
use delivery_core::post::NewPost;
use delivery_core::product::NewProduct;
use delivery_core::seller::{Head, Seller};
use delivery_core::store::{AuditQuery, SqliteStore};
use delivery_rocket::DeliveryFairing;
use delivery_testing::Shop;
use http::{Method, StatusCode, header};
use rocket::local::asynchronous::Client;

use super::calls::{Staff, quiet};
use super::desk::{cookie_of, field, form, see, text};

async fn shop(look: Option<Look>) -> (Delivery, Arc<Staff>) {
    let staff = Arc::new(Staff::default());
    let quotas = Quotas { desk: Quota::per_minute(5).unwrap(), ..Quotas::default() };
    let build = |it: Builder| look.into_iter().fold(it.seller(staff.clone()).quotas(quotas), Builder::pages);
    (Shop::with(build).await.delivery, staff)
}

fn from(address: &str, cookie: &str) -> Call {
    let call = Call { peer: Some(address.parse().unwrap()), ..Call::new(Method::GET) };
    call.header(header::COOKIE, cookie.parse().unwrap())
}

/// A user whom the host's own code has found.
#[derive(Clone)]
struct User(String);

#[derive(Debug)]
struct Found;

#[async_trait]
impl Seller for Found {
    async fn authenticate(&self, head: &Head<'_>) -> Option<Actor> {
        head.extensions.get::<User>()?.0.parse().ok()
    }
}

#[tokio::test]
async fn what_rocket_knows_of_a_request_signs_in() {
    let shop = Shop::with(|builder| builder.seller(Arc::new(Found))).await;
    let fairing = DeliveryFairing::new(shop.delivery).extensions(|request, extensions| {
        if let Some(user) = request.cookies().get("user") {
            extensions.insert(User(user.value().to_owned()));
        }
    });
    let client = Client::untracked(rocket::custom(quiet()).attach(fairing)).await.unwrap();
    for (cookie, status) in [("user", 200), ("staff", 401)] {
        let asked = client.get("/api/admin/keys").cookie((cookie, "ada"));
        assert_eq!(asked.dispatch().await.status().code, status);
    }
}

#[tokio::test]
async fn whoever_the_host_has_signed_in_is_at_the_desk() {
    let (delivery, _) = shop(Some(Look::default())).await;
    for (cookie, page, status) in [
        ("staff=ada", Page::Overview, StatusCode::OK),
        ("guest=ada", Page::Overview, StatusCode::UNAUTHORIZED),
        ("staff=platform:stripe", Page::Overview, StatusCode::UNAUTHORIZED),
        ("staff=ada", Page::SignIn, StatusCode::NOT_FOUND),
        ("guest=ada", Page::Buyer, StatusCode::OK),
    ] {
        let (answered, html) = see(&delivery, page, from("192.0.2.1", cookie)).await;
        assert_eq!(answered, status, "{cookie} {page:?}");
        assert!(!html.contains("Sign out"), "the host signs its sellers out");
    }
}

#[tokio::test]
async fn what_they_do_is_done_in_their_name_and_by_a_form_of_their_own() {
    let (delivery, _) = shop(Some(Look::default())).await;
    let (_, html) = see(&delivery, Page::Product, from("192.0.2.1", "staff=ada")).await;
    let csrf = field(&html, "csrf");
    for (cookie, origin, status) in [
        ("staff=bob", "http://localhost", StatusCode::FORBIDDEN),
        ("staff=ada", "https://evil.example", StatusCode::FORBIDDEN),
        ("staff=ada", "http://localhost", StatusCode::SEE_OTHER),
    ] {
        let call = form(from("192.0.2.2", cookie), origin, format!("name=Atlas&content=x&csrf={csrf}"));
        let (answered, _) = see(&delivery, Page::Product, call).await;
        assert_eq!(answered, status, "{cookie} {origin}");
    }
    let all = AuditQuery { limit: 10, ..AuditQuery::default() };
    let audit = delivery.desk(&Actor::system()).audit(&all).await.unwrap().items;
    assert_eq!(audit.iter().map(|entry| entry.actor.as_str()).collect::<Vec<_>>(), ["ada", "admin"]);
}

/// Whatever of it the other one changed.
#[tokio::test]
async fn a_product_that_somebody_else_changed_is_not_overwritten() {
    let (delivery, _) = shop(Some(Look::default())).await;
    let facts = |content: &str| NewProduct::new("Atlas").unwrap().content(content).unwrap();
    let id = delivery.add_product(facts("one")).await.unwrap().id();
    let (_, html) = see(&delivery, Page::Product, from("192.0.2.1", "staff=ada").query(format!("id={id}"))).await;
    let (csrf, seen) = (field(&html, "csrf"), field(&html, "seen"));
    let save = async |content: &str| {
        let body = format!("id={id}&name=Atlas&content={content}&csrf={csrf}&seen={seen}");
        see(&delivery, Page::Product, form(from("192.0.2.1", "staff=ada"), "http://localhost", body)).await
    };
    let content = async || delivery.product(id).await.unwrap().unwrap().content().to_owned();
    assert_eq!((save("two").await.0, content().await.as_str()), (StatusCode::SEE_OTHER, "two"));
    assert_eq!(save("two").await.0, StatusCode::SEE_OTHER, "a form that is sent twice");
    delivery.update_product(id, facts("three")).await.unwrap();
    let (status, html) = save("four").await;
    assert_eq!((status, content().await.as_str()), (StatusCode::OK, "three"));
    assert!(html.contains("Somebody else changed this product") && html.contains("four"), "{html}");
}

#[tokio::test]
async fn a_post_that_somebody_else_changed_is_not_overwritten() {
    let (delivery, _) = shop(Some(Look::default())).await;
    let actor = Actor::system();
    let desk = delivery.desk(&actor);
    let news = NewPost::new("News", "tips".parse().unwrap(), DateTime::UNIX_EPOCH).unwrap();
    let facts = |content: &str| news.clone().content(content).unwrap();
    let id = desk.add_post(facts("one")).await.unwrap().id();
    let (_, html) = see(&delivery, Page::Post, from("192.0.2.1", "staff=ada").query(format!("id={}", id.get()))).await;
    let (csrf, seen) = (field(&html, "csrf"), field(&html, "seen"));
    let save = async |content: &str| {
        let body = format!("id={}&title=News&category=tips&content={content}&csrf={csrf}&seen={seen}", id.get());
        see(&delivery, Page::Post, form(from("192.0.2.1", "staff=ada"), "http://localhost", body)).await
    };
    let said = async || desk.post(id).await.unwrap().unwrap().facts().clone();
    assert_eq!((save("two").await.0, said().await), (StatusCode::SEE_OTHER, facts("two")));
    assert_eq!(save("two").await.0, StatusCode::SEE_OTHER, "a form that is sent twice");
    desk.update_post(id, facts("three")).await.unwrap();
    let (status, html) = save("four").await;
    assert_eq!((status, said().await), (StatusCode::OK, facts("three")));
    assert!(html.contains("Somebody else changed this post") && html.contains("four"), "{html}");
}

/// A store ends a list at 1 MiB of content, so pages are of any length.
#[tokio::test]
async fn the_pages_of_the_list_lead_to_every_post() {
    const MIB: usize = 1 << 20;
    let imported: Vec<_> = (0..100).map(|_| (1, 10)).chain([(2, 10)]).collect();
    for posts in [
        vec![(1, 10), (2, MIB), (3, 600_000), (3, 400_000), (4, 600_000), (9, MIB)],
        vec![(1, 300_000), (1, 300_000), (3, 600_000)],
        imported,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path().join("shop.db")).await.unwrap());
        let staffed = |builder: Builder| builder.seller(Arc::new(Staff::default())).pages(Look::default());
        let delivery = Shop::over(store, staffed).await.delivery;
        for (second, length) in &posts {
            let at = DateTime::from_timestamp(*second, 0).unwrap();
            let post = NewPost::new("News", "tips".parse().unwrap(), at).unwrap();
            delivery.add_post(post.content("x".repeat(*length)).unwrap()).await.unwrap();
        }
        let (mut shown, mut query) = (BTreeSet::new(), Some(String::new()));
        while let Some(asked) = query {
            let (_, html) = see(&delivery, Page::Posts, from("192.0.2.1", "staff=ada").query(asked)).await;
            let ids = html.split("/desk/post?id=").skip(1).map(|link| link.split('"').next().unwrap().to_owned());
            shown.extend(ids);
            let next = html.split_once("?before=").and_then(|(_, link)| link.split_once('"'));
            query = next.map(|(second, _)| format!("before={second}"));
        }
        assert_eq!(shown.len(), posts.len(), "{:?}", &posts[..3]);
    }
}

/// What a host does to sign somebody in may be dear.
#[tokio::test]
async fn a_stranger_has_the_host_asked_no_more_often_than_the_limit_allows() {
    let (delivery, staff) = shop(Some(Look::default())).await;
    for _ in 0..20 {
        see(&delivery, Page::Overview, from("192.0.2.1", "guest=x")).await;
    }
    assert_eq!(staff.0.load(Ordering::Relaxed), 5);
    let (refused, _) = see(&delivery, Page::Overview, from("192.0.2.1", "staff=ada")).await;
    let (elsewhere, _) = see(&delivery, Page::Overview, from("192.0.2.2", "staff=ada")).await;
    assert_eq!((refused, elsewhere), (StatusCode::TOO_MANY_REQUESTS, StatusCode::OK));
}

#[tokio::test]
async fn who_is_not_signed_in_is_led_to_where_the_host_signs_in() {
    for (look, link) in [
        (Look::default(), None),
        (Look::default().sign_in_at("https://shop.example/staff?a=\"b"), Some("staff?a=&quot;b\">Sign in</a>")),
    ] {
        let (delivery, _) = shop(Some(look)).await;
        let (status, html) = see(&delivery, Page::Overview, from("192.0.2.1", "guest=ada")).await;
        assert_eq!((status, html.contains("Sign in first")), (StatusCode::UNAUTHORIZED, true));
        assert!(link.map_or(!html.contains("<p><a"), |link| html.contains(link)), "{html}");
    }
}

#[tokio::test]
async fn there_is_nothing_of_it_unless_the_host_turns_it_on() {
    let look = Look::default;
    for (look, desk, key) in
        [(None, 404, 404), (Some(look().desk(false)), 404, 200), (Some(look().buyer(false)), 200, 404)]
    {
        let (delivery, _) = shop(look).await;
        for (page, status) in [(Page::Overview, desk), (Page::Erase, desk), (Page::Buyer, key), (Page::Lost, key)] {
            let (answered, _) = see(&delivery, page, from("192.0.2.1", "staff=ada")).await;
            assert_eq!(answered.as_u16(), status, "{page:?}");
        }
    }
}

/// However often a stranger tries, one entry tells of it.
#[tokio::test]
async fn wrong_tokens_are_told_of_together() {
    let shop = Shop::with(|builder| builder.pages(Look::default())).await;
    let (delivery, opened) = (&shop.delivery, shop.now());
    for authorization in
        ["Bearer another-token", "Bearer yet-another-token", "Basic bm9ib2R5", "Bearer the-seller's-token"]
    {
        let call = from("192.0.2.1", "x=y").header(header::AUTHORIZATION, authorization.parse().unwrap());
        Endpoint::Keys.call(delivery, call).await;
    }
    let page = Endpoint::Page(Page::SignIn).call(delivery, from("192.0.2.1", "x=y")).await;
    let body = format!("token=wrong&csrf={}", field(&text(&page), "csrf"));
    let call = form(from("192.0.2.1", cookie_of(&page)), "http://localhost", body);
    let (status, _) = see(delivery, Page::SignIn, call).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    shop.clock.advance(Duration::from_mins(1));
    for count in [3, 0] {
        assert_eq!(delivery.maintenance().report_wrong_sign_ins().await.unwrap(), count);
    }
    let all = AuditQuery { limit: 10, ..AuditQuery::default() };
    let audit = delivery.desk(&Actor::system()).audit(&all).await.unwrap().items;
    let told: Vec<_> = audit.iter().map(|it| (it.at, it.actor.as_str(), it.action, it.detail.as_deref())).collect();
    let refused = (shop.now(), "system", Action::SignInRefused, Some("attempts 3"));
    assert_eq!(told, [refused, (opened, "admin", Action::ProductAdded, None)]);
}
