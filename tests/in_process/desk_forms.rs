//! Forms of the desk and of the buyer's page that are opened, sent, and sent again.

use std::sync::Arc;
use std::time::Duration;

use delivery_core::http::{Call, Endpoint, Page, Reply};
use delivery_core::key::{Actor, KeyId, LimitChange};
use delivery_core::look::Look;
use delivery_core::object_store::memory::InMemory;
use delivery_core::product::ProductId;
use delivery_core::store::KeyQuery;
use delivery_core::terms::UseLimit;
use delivery_testing::{Behaviour, Shop};
use http::{HeaderValue, Method, StatusCode, header};

use super::calls::header_of;
use super::desk::{cookie_of, desk, field, form, get, look, post, see, shop, text};

async fn issue(shop: &Shop, form: &str, more: &str) -> Reply {
    let [csrf, key, seal] = ["csrf", "key", "seal"].map(|name| field(form, name));
    let body = format!("csrf={csrf}&key={key}&seal={seal}&product_id={}&{more}", shop.product.id());
    post(shop, Page::Issue, body).await
}

async fn keys(shop: &Shop) -> usize {
    shop.delivery.keys(&KeyQuery { limit: 10, ..KeyQuery::default() }).await.unwrap().items.len()
}

#[tokio::test]
async fn a_form_that_issues_a_key_issues_one_however_often_it_is_sent() {
    let shop = shop().await;
    let form = get(&shop, Page::Issue).await;
    let ada = "customer_email=ada%40example.com&uses=3&sends=yes";
    for _ in 0..3 {
        let issued = issue(&shop, &form, ada).await;
        assert_eq!(issued.status(), 303, "{}", text(&issued));
    }
    assert_eq!((keys(&shop).await, shop.messages().await.len()), (1, 1));
    // Sent again with something else, it says so and issues nothing.
    for other in ["customer_email=eve%40example.com&uses=3&sends=yes", "customer_email=ada%40example.com&sends=yes"] {
        let refused = issue(&shop, &form, other).await;
        assert!(text(&refused).contains("This form has issued a key before."), "{}", text(&refused));
    }
    assert_eq!((keys(&shop).await, shop.messages().await.len()), (1, 1));
    let (one, other) = tokio::join!(get(&shop, Page::Issue), get(&shop, Page::Issue));
    assert_ne!(field(&one, "key"), field(&other, "key"));
    // A key that never expires is the same key seconds later, too.
    for _ in 0..2 {
        let issued = issue(&shop, &other, "customer_email=ada%40example.com&days=-1&sends=yes").await;
        assert_eq!(issued.status(), 303, "{}", text(&issued));
        shop.clock.advance(Duration::from_secs(5));
    }
    // Of submissions that race, each is answered with the one key.
    let (one, other) = tokio::join!(issue(&shop, &one, ada), issue(&shop, &one, ada));
    assert_eq!(
        (one.status(), other.status(), keys(&shop).await),
        (303.try_into().unwrap(), 303.try_into().unwrap(), 3)
    );
}

#[tokio::test]
async fn a_key_that_is_not_sent_is_shown_once() {
    let shop = shop().await;
    let form = get(&shop, Page::Issue).await;
    let shown = text(&issue(&shop, &form, "customer_email=ada%40example.com").await);
    let key = &shop.delivery.keys(&KeyQuery { limit: 1, ..KeyQuery::default() }).await.unwrap().items[0];
    assert!(shown.contains("dlv_") && shown.contains("It was not sent by e-mail."), "{shown}");
    assert!(shop.messages().await.is_empty());
    let later = look(&shop, Page::Key, &format!("id={}", key.id())).await;
    assert!(later.contains(&key.id().to_string()) && !later.contains("dlv_"), "{later}");
}

#[tokio::test]
async fn a_key_leads_to_the_one_whose_place_it_took_however_often_it_was_changed() {
    let shop = shop().await;
    let (old, admin) = (shop.paid("A-1").await.key.id(), Actor::admin());
    let seller_desk = shop.delivery.desk(&admin);
    let new = seller_desk.rotate(old).await.unwrap().key.id();
    for uses in 1..=60 {
        let limit = UseLimit::from_count(uses).ok().map(LimitChange::Set);
        seller_desk.set_terms(new, None, limit).await.unwrap();
    }
    let page = look(&shop, Page::Key, &format!("id={new}")).await;
    assert!(page.contains(&format!("id={old}\">the key whose place it took")), "{page}");
}

#[tokio::test]
async fn a_key_that_took_over_the_count_of_another_is_not_called_unused() {
    let shop = shop().await;
    let (old, admin) = (shop.paid("A-1").await.key.id(), Actor::admin());
    let page = async |id: KeyId| look(&shop, Page::Key, &format!("id={id}")).await;
    assert!(page(old).await.contains("Not used yet."));
    shop.delivery.fetch(old, shop.product.id()).await.unwrap();
    let new = shop.delivery.desk(&admin).rotate(old).await.unwrap().key.id();
    let shown = page(new).await;
    assert!(shown.contains("1 &#x2f; ∞") && !shown.contains("Not used yet."), "{shown}");
}

#[tokio::test]
async fn a_form_that_was_open_for_long_is_shown_again_so_that_its_key_has_the_right_time() {
    let shop = shop().await;
    let ada = "customer_email=ada%40example.com&sends=yes";
    let (issued, waiting) = (get(&shop, Page::Issue).await, get(&shop, Page::Issue).await);
    issue(&shop, &issued, ada).await;
    shop.clock.advance(Duration::from_mins(61));
    let again = text(&issue(&shop, &waiting, ada).await);
    assert!(
        again.contains("This form was open for more than an hour.") && again.contains("ada@example.com"),
        "{again}"
    );
    assert_eq!(keys(&shop).await, 1);
    assert_eq!(issue(&shop, &issued, ada).await.status(), StatusCode::SEE_OTHER, "it has issued its key");
    assert_eq!(issue(&shop, &again, ada).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(keys(&shop).await, 2);
}

#[tokio::test]
async fn files_whose_bytes_arrive_all_at_once_are_all_added() {
    let shop = Shop::with(|builder| desk(builder).files(Arc::new(InMemory::new()))).await;
    let csrf = field(&get(&shop, Page::Keys).await, "csrf");
    let part = |head: &str, content: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"{head}\"\r\n\r\n{content}\r\n")
    };
    let file = |name: &str| part(&format!("file\"; filename=\"{name}"), &"x".repeat(1 << 20));
    let query = format!("id={}", shop.product.id());
    let upload = async |files: [String; 3]| {
        let form = format!("{}{}--x--\r\n", part("csrf", &csrf), files.concat());
        let call = [(header::ORIGIN, "http://localhost"), (header::CONTENT_TYPE, "multipart/form-data; boundary=x")]
            .into_iter()
            .fold(Call::new(Method::POST), |call, (name, value)| call.header(name, HeaderValue::from_static(value)));
        let call = Call { body: form.into(), ..call }.query(&query);
        Endpoint::Page(Page::PutFiles).call(&shop.delivery, call).await
    };
    let reply = upload([file("a.bin"), file("b.bin"), file("c.bin")]).await;
    assert_eq!(reply.status(), StatusCode::SEE_OTHER, "{}", text(&reply));
    let reply = upload([file("d.bin"), file(".."), file("e.bin")]).await;
    assert_eq!(reply.status(), StatusCode::BAD_REQUEST);
    assert!(text(&reply).contains("and not . or .. alone. The files before it were added."), "{}", text(&reply));
    let page = look(&shop, Page::Product, &query).await;
    for (name, is_there) in [("a.bin", true), ("b.bin", true), ("c.bin", true), ("d.bin", true), ("e.bin", false)] {
        assert_eq!(page.contains(name), is_there, "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn setup_is_shown_at_once_however_often() {
    let shop = shop().await;
    for _ in 0..3 {
        let shown = tokio::time::timeout(Duration::from_millis(1), get(&shop, Page::Setup)).await;
        assert!(shown.unwrap().contains("Stripe"));
    }
}

/// The guide for sellers names the same events as the desk.
#[tokio::test]
async fn setup_names_the_events_that_the_guide_names() {
    let guide = include_str!("../../examples/server/platforms.md");
    let setup = get(&shop().await, Page::Setup).await;
    let mut named = 0;
    for line in guide.split("- **Events").skip(1) {
        let item = line.split("\n- **").next().unwrap();
        for event in item
            .split(['`', '*'])
            .skip(1)
            .step_by(2)
            .filter(|it| !it.contains([' ', '/', '=', ':']) && it.contains(['.', '_']))
        {
            if event.starts_with("data.") {
                continue;
            }
            assert!(setup.contains(event), "{event} is in the guide and not in Setup");
            named += 1;
        }
    }
    assert!(named >= 25, "{named} events were compared");
}

#[tokio::test]
async fn a_page_for_buyers_is_in_the_language_of_the_shop_if_the_browser_names_none() {
    let shop = Shop::with(|builder| builder.pages(Look::default()).language("de".parse().unwrap())).await;
    for (header, lang) in [(None, "de"), (Some("ja"), "de"), (Some("en"), "en")] {
        let call = Call::new(Method::GET);
        let call = match header {
            Some(header) => call.header(header::ACCEPT_LANGUAGE, HeaderValue::from_static(header)),
            None => call,
        };
        let (_, page) = see(&shop.delivery, Page::Buyer, call).await;
        assert!(page.contains(&format!("<html lang=\"{lang}\">")), "{header:?}: {page}");
    }
}

#[tokio::test]
async fn a_preview_shows_the_e_mail_in_the_chosen_language() {
    let shop = shop().await;
    let page = look(&shop, Page::Email, "kind=revoked&language=de").await;
    assert!(page.contains("kind=revoked&amp;language=de&amp;part=html"), "{page}");
    let call = Call::new(Method::GET).query("kind=revoked&language=de&part=html");
    let frame = Endpoint::Page(Page::Email).call(&shop.delivery, call).await;
    assert!(text(&frame).contains("<html lang=\"de\""), "{}", text(&frame));
    let policy = header_of(&frame, "content-security-policy").unwrap();
    assert!(policy.ends_with("frame-ancestors 'self'; sandbox"), "{policy}");
}

/// Posts the form that confirms a change of a key, and returns where it leads.
async fn sends_again(shop: &Shop, form: &str, email: &str) -> StatusCode {
    let [csrf, id, newest] = ["csrf", "id", "newest"].map(|name| field(form, name));
    let body = format!("csrf={csrf}&id={id}&do=resend&newest={newest}&email={email}");
    post(shop, Page::ChangeKey, body).await.status()
}

#[tokio::test]
async fn a_form_that_sends_a_key_again_sends_it_once_and_always_corrects_the_address() {
    let shop = shop().await;
    let key = shop.paid("A").await.key.id();
    let form = look(&shop, Page::ChangeKey, &format!("id={key}&do=resend")).await;
    for _ in 0..2 {
        assert_eq!(sends_again(&shop, &form, "").await, 303);
    }
    assert_eq!(shop.messages().await.len(), 2, "of the purchase, and the one that was sent again");
    // The form is older than the second e-mail.
    let right = || sends_again(&shop, &form, "right%40example.com");
    assert_eq!(tokio::join!(right(), right()), (StatusCode::SEE_OTHER, StatusCode::SEE_OTHER));
    assert_eq!(shop.delivery.key(key).await.unwrap().unwrap().email().as_str(), "right@example.com");
    assert_eq!(shop.messages().await.len(), 3);
}

#[tokio::test]
async fn a_form_that_sends_several_keys_again_sends_each_once() {
    let shop = shop().await;
    let (one, other) = (shop.paid("A").await.key.id(), shop.paid("B").await.key.id());
    let csrf = field(&get(&shop, Page::Keys).await, "csrf");
    let chosen = format!("csrf={csrf}&do=resend&id={one}&id={other}");
    let confirm = text(&post(&shop, Page::Keys, chosen.clone()).await);
    let sure = format!("{chosen}&sure=yes&newest={}", field(&confirm, "newest"));
    for _ in 0..2 {
        let sent = post(&shop, Page::Keys, sure.clone()).await;
        assert_eq!(header_of(&sent, "location"), Some("/desk/keys?done=all_resent"));
    }
    assert_eq!(shop.messages().await.len(), 4, "two of purchases, and each once more");
}

#[tokio::test]
async fn a_message_that_failed_needs_the_seller_until_another_one_is_sent() {
    let shop = shop().await;
    let key = shop.paid("A").await.key.id();
    shop.mailer.then(Behaviour::FailPermanent);
    shop.delivery.maintenance().outbox().work().await.unwrap();
    assert!(get(&shop, Page::Overview).await.contains("1 message could not be sent"));
    shop.delivery.desk(&Actor::admin()).resend(key, "right@example.com".parse().ok()).await.unwrap();
    let overview = get(&shop, Page::Overview).await;
    assert!(!overview.contains("could not be sent"), "{overview}");
}

/// Sends a form twice at once, and returns where both lead.
async fn sent_twice(shop: &Shop, page: Page, form: &str) -> String {
    let csrf = field(&get(shop, page).await, "csrf");
    let send = || post(shop, page, format!("csrf={csrf}&{form}"));
    let (one, other) = tokio::join!(send(), send());
    let [one, other] = [one, other].map(|sent| header_of(&sent, "location").unwrap().to_owned());
    assert_eq!(one, other);
    one
}

/// Not promised: that two servers which get the form at the same moment add one.
#[tokio::test]
async fn a_form_that_adds_a_product_or_a_post_adds_one_however_often_it_is_sent() {
    let shop = shop().await;
    let product = async |content: &str| {
        let form = format!("name=Atlas&content={content}");
        sent_twice(&shop, Page::Product, &form).await
    };
    let first = product("one").await;
    assert_eq!(product("one").await, first);
    assert_ne!(product("two").await, first, "it says something else");
    shop.delivery.desk(&Actor::admin()).archive_product(ProductId::new(2).unwrap()).await.unwrap().unwrap();
    assert_ne!(product("one").await, first, "it is sold no more");
    assert_eq!(shop.delivery.products().await.unwrap().len(), 3, "that of the shop, and both that are sold");
    let news = async |content: &str| {
        shop.clock.advance(Duration::from_mins(1));
        let form = format!("title=Atlas&category=news&content={content}");
        sent_twice(&shop, Page::Post, &form).await
    };
    let first = news("one").await;
    assert_eq!(news("one").await, first);
    assert_ne!(news("two").await, first, "it says something else");
    assert_ne!(news("one").await, first, "it is not the newest");
}

/// Posts a form of the buyer's page.
async fn buyer(shop: &Shop, body: String, cookie: &str) -> Reply {
    let call = Call::new(Method::POST).header(header::COOKIE, cookie.parse().unwrap());
    Endpoint::Page(Page::Buyer).call(&shop.delivery, form(call, "http://localhost", body)).await
}

#[tokio::test]
async fn a_refused_key_leads_to_what_was_opened_only_where_that_is_shown() {
    let shop = shop().await;
    let sold = shop.paid("A").await;
    let (key, id) = (sold.text.expose().to_owned(), sold.key.id());
    let opened = buyer(&shop, format!("key={key}&do=open&request=1"), "").await;
    let cookie = cookie_of(&opened);
    let admin = Actor::admin();
    let desk = shop.delivery.desk(&admin);
    let shown = async || text(&buyer(&shop, format!("key={key}&do=show"), cookie).await).contains("Go on");
    desk.set_terms(id, None, Some(LimitChange::Set(UseLimit::from_count(1).unwrap()))).await.unwrap();
    assert!(shown().await, "a key that is used up");
    desk.revoke(id, None).await.unwrap();
    assert!(!shown().await, "a revoked key");
}

#[tokio::test]
async fn the_state_of_a_key_can_be_loaded_again_and_opening_it_twice_counts_once() {
    let shop = shop().await;
    let sold = shop.paid("A").await;
    let key = sold.text.expose().to_owned();
    let asked = buyer(&shop, format!("key={key}&do=show"), "").await;
    let (location, cookie) = (header_of(&asked, "location").unwrap(), cookie_of(&asked));
    let look = async |cookie: &str| {
        let call = Call::new(Method::GET).query(location.split('?').nth(1).unwrap().to_owned());
        see(&shop.delivery, Page::Buyer, call.header(header::COOKIE, cookie.parse().unwrap())).await
    };
    for _ in 0..2 {
        let (status, page) = look(cookie).await;
        assert_eq!((status, page.contains(&key)), (StatusCode::OK, false), "the page has no key: {page}");
        let [id, request] = ["id", "request"].map(|name| field(&page, name));
        assert_eq!(buyer(&shop, format!("id={id}&do=open&request={request}"), cookie).await.status(), 303);
    }
    assert_eq!(shop.delivery.key(sold.key.id()).await.unwrap().unwrap().used(), 1);
    // Without the cookie, or with one for something else, the browser has asked about no key.
    let (name, value) = cookie.split_once('=').unwrap();
    let opened = buyer(&shop, format!("key={key}&do=open&request=1"), "").await;
    let ticket = cookie_of(&opened).split_once('=').unwrap().1;
    for other in [String::new(), format!("{name}={}A", &value[1..]), format!("{name}={ticket}")] {
        assert_eq!(look(&other).await.0, 410, "{other}");
    }
    shop.clock.advance(Duration::from_hours(1));
    assert_eq!(look(cookie).await.0, 410, "after an hour");
}
