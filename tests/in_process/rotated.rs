//! Two servers while their signing secret is replaced, in the steps that the documentation names: what one gives to a
//! seller's browser or to a buyer, the other accepts.

use std::sync::Arc;

use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint, Page, Reply};
use delivery_core::look::Look;
use delivery_core::product::NewProduct;
use delivery_testing::{MemoryStore, RecordingMailer};
use http::{Method, header};

use crate::calls::{TOKEN, paid};
use crate::desk::{cookie_of, field, form, text};

const OLD: &str = "the secret that signed until now";
const NEW: &str = "the secret that takes its place";

async fn server(store: &Arc<MemoryStore>, secrets: &[&str]) -> Delivery {
    let mailer = Arc::new(RecordingMailer::default());
    let builder = Delivery::builder(store.clone(), mailer, secrets.join(",").parse().unwrap());
    let delivery = builder.admin_token(TOKEN.parse().unwrap()).pages(Look::default()).build();
    delivery.register().await.unwrap();
    delivery
}

fn by(cookie: &str) -> Call {
    Call::new(Method::GET).header(header::COOKIE, cookie.parse().unwrap())
}

async fn get(server: &Delivery, page: Page, cookie: &str) -> Reply {
    Endpoint::Page(page).call(server, by(cookie)).await
}

async fn post(server: &Delivery, page: Page, cookie: &str, body: String) -> Reply {
    Endpoint::Page(page).call(server, form(by(cookie), "http://localhost", body)).await
}

#[tokio::test]
async fn keys_sessions_and_forms_hold_on_both() {
    for [before, after] in
        [[&[OLD][..], &[OLD, NEW][..]], [&[OLD, NEW], &[OLD]], [&[OLD, NEW], &[NEW, OLD]], [&[NEW, OLD], &[OLD, NEW]]]
    {
        let store = Arc::new(MemoryStore::new());
        let (one, other) = (server(&store, before).await, server(&store, after).await);
        let product = one.add_product(NewProduct::new("Guide").unwrap()).await.unwrap();
        // A key of one opens the product at the other, which answers the same order with the same text.
        for (order, [sells, opens]) in [("A", [&one, &other]), ("B", [&other, &one])] {
            let sold = sells.order(paid(order)).await.unwrap().text;
            assert_eq!(opens.order(paid(order)).await.unwrap().text.expose(), sold.expose(), "{before:?} {after:?}");
            opens.fetch(opens.verify(sold.expose()).unwrap(), product.id()).await.unwrap();
        }
        // The form to sign in is opened at one, and sent to the other.
        let opened = get(&one, Page::SignIn, "").await;
        let sent = format!("csrf={}&token={TOKEN}", field(&text(&opened), "csrf"));
        let signed_in = post(&other, Page::SignIn, cookie_of(&opened), sent).await;
        assert_eq!(signed_in.status(), 303, "{before:?} {after:?}: {}", text(&signed_in));
        let session = cookie_of(&signed_in);
        // So is a form of the desk, the other way around and back.
        for [shows, takes] in [[&one, &other], [&other, &one]] {
            let form = get(shows, Page::Issue, session).await;
            assert_eq!(form.status(), 200, "{before:?} {after:?}: {}", text(&form));
            let form = text(&form);
            let [csrf, key, seal] = ["csrf", "key", "seal"].map(|name| field(&form, name));
            let ada = format!("product_id={}&customer_email=ada%40example.com&sends=yes", product.id());
            let issued = post(takes, Page::Issue, session, format!("csrf={csrf}&key={key}&seal={seal}&{ada}")).await;
            assert_eq!(issued.status(), 303, "{before:?} {after:?}: {}", text(&issued));
        }
        assert_eq!(post(&one, Page::SignOut, session, String::new()).await.status(), 303);
        for server in [&one, &other] {
            assert_eq!(get(server, Page::Issue, session).await.status(), 303, "the session is over");
        }
    }
}
