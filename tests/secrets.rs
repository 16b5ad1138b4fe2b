//! Secrets in this process: what `Debug` shows, what a log at its most talkative has, and what a panic prints.

use std::io::Write;
use std::panic;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::delivery::Settings;
use delivery_core::http::{Call, Endpoint};
use delivery_core::mail::{MailError, Mailer, Message, SmtpMailer};
use delivery_core::platform::{Event, Line, Notification, Sale};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::terms::OwnTerms;
use delivery_testing::MemoryStore;
use http::{HeaderName, Method, header};
use serde_json::json;
use tracing::level_filters::LevelFilter;

const WEBHOOK: &str = "a-canary-for-the-webhook";
const TOKEN: &str = "a-canary-for-the-admin";
const SIGNING: &str = "a-canary-that-signs-keys";
const PASSWORD: &str = "a-canary-for-the-mail-server";

const QUOTED: &str = "quoted@example.com";

/// Everything that was written, by whom ever.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Panics with the e-mail in its hands, and says so.
#[derive(Debug)]
struct Clumsy;

#[async_trait]
impl Mailer for Clumsy {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        panic!("dropped {message:?}");
    }
}

#[tokio::test]
async fn debug_output_logs_and_panics_hold_no_secret() {
    let written = Written::default();
    let log = written.clone();
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(move || log.clone()).init();
    let panics = written.clone();
    panic::set_hook(Box::new(move |panic| writeln!(panics.clone(), "{panic}").unwrap()));

    let delivery = Delivery::builder(Arc::new(MemoryStore::new()), Arc::new(Clumsy), SIGNING.parse().unwrap())
        .webhook_secret(WEBHOOK.parse().unwrap())
        .admin_token(TOKEN.parse().unwrap())
        .build();
    delivery.add_product(NewProduct::new("Guide").unwrap().content("x").unwrap()).await.unwrap();
    let (product, email) = (ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
    let issued = delivery.issue_by_hand(product, email, OwnTerms::default(), true).await.unwrap();
    let key = issued.text.expose().to_owned();
    // The mailer panics with the e-mail.
    delivery.maintenance().outbox().work().await.unwrap();

    let settings = Settings::read(|name| {
        let value = match name {
            "WEBHOOK_SECRET" => WEBHOOK,
            "ADMIN_TOKEN" => TOKEN,
            "KEY_SECRET" => SIGNING,
            _ => return None,
        };
        Some(value.to_owned())
    });
    let smtp: SmtpMailer = format!("smtp://shop:{PASSWORD}@127.0.0.1:2525").parse().unwrap();
    let bearer = format!("Bearer {TOKEN}").parse().unwrap();
    let body = json!({ "secret": WEBHOOK, "order_id": "A", "product_id": 1, "customer_email": "a@example.com" });
    let sent = Call::new(Method::POST)
        .query(format!("key={key}"))
        .header(header::AUTHORIZATION, bearer)
        .header(HeaderName::from_static("x-api-key"), key.parse().unwrap())
        .json(body.to_string());
    let mut shown = written.clone();
    writeln!(shown, "{issued:?} {issued:#?} {delivery:?} {settings:?} {smtp:?} {sent:?} {sent:#?}").unwrap();
    let reply = Endpoint::Order.call(&delivery, sent).await;
    writeln!(shown, "{reply:?} {reply:#?}").unwrap();
    assert_eq!(reply.status(), 200);
    // What a platform calls its orders and events may quote an address.
    let named = json!({ "secret": WEBHOOK, "order_id": format!("of {QUOTED}"), "product_id": 1, "customer_email": "a@example.com" });
    assert_eq!(Endpoint::Order.call(&delivery, Call::new(Method::POST).json(named.to_string())).await.status(), 200);
    let line = Line::named([Some(format!("guide of {QUOTED}"))]);
    let sale = Sale { lines: vec![line], ..Sale::new(format!("event of {QUOTED}").parse().unwrap()) };
    let (id, kind, events) = (format!("evt of {QUOTED}"), "sale".to_owned(), Ok(vec![Event::Paid(sale)]));
    let notification = Notification { id, kind, is_test: false, events };
    delivery.receive(&"own".parse().unwrap(), notification).await.unwrap();
    // A key that is in an error's way.
    let missing = delivery.validate(&format!("{key}0")).await.unwrap_err();
    writeln!(shown, "{missing:?} {missing}").unwrap();

    let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(written.contains("dropped Message"), "the panic was printed: {written}");
    assert!(written.contains("Issued"), "and so was the rest");
    for order in ["of …", "event of …", "evt of …"] {
        assert!(written.contains(order), "{order} in {written}");
    }
    for secret in [&key[4..], WEBHOOK, TOKEN, SIGNING, PASSWORD, QUOTED] {
        assert!(!written.contains(secret), "{secret} in {written}");
    }
}
