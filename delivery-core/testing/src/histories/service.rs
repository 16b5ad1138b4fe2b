//! The service under test, on any store. Time, randomness and mail are inputs.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use delivery_core::clock::Clock;
use delivery_core::delivery::{Builder, Stores};
use delivery_core::http::{Call, Endpoint};
use delivery_core::key::{Actor, KeyId, Keyring, Prefix, Rule};
use delivery_core::ledger::{Edit, FailedMessage};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::mail::{Templates, Worked};
use delivery_core::order::OrderId;
use delivery_core::platform::{Buyer, ChargeRef, Event, Line, Links, Notification, Refund, Sale};
use delivery_core::product::{File, MediaType, NewProduct, ObjectName, ProductId};
use delivery_core::store::{CatalogEditor, Files, KeyQuery, Ledger};
use delivery_core::terms::{OwnTerms, UseLimit, Validity};
use delivery_core::{Delivery, Entropy};
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::{Value, json};

use super::Keeps;
use super::model::{BEGINNING, BUYERS, FILES, Model};
use super::step::{Answer, Limit, OrderReport, Step};
use crate::{Fixture, ManualClock, RecordingMailer, SeededEntropy};

const SECRET: &str = "the platform's secret";
const TOKEN: &str = "the-seller's-token";

/// Entropy with random ids but no random delay of e-mails: the four bytes that delay a retry are zero, so each retry is
/// due at the earliest time.
#[derive(Debug)]
struct Punctual(SeededEntropy);

impl Entropy for Punctual {
    fn fill(&self, bytes: &mut [u8]) {
        match bytes.len() {
            4 => bytes.fill(0),
            _ => self.0.fill(bytes),
        }
    }
}

pub(super) struct Service<F: Fixture> {
    fixture: F,
    keeps: Keeps<F::Store>,
    rule: Option<Arc<dyn Rule>>,
    pub(super) delivery: Delivery,
    store: Arc<dyn Ledger>,
    clock: Arc<ManualClock>,
    pub(super) mailer: Arc<RecordingMailer>,
    entropy: Arc<Punctual>,
    /// The editor of products; `None` if the store keeps none.
    editor: Option<Arc<dyn CatalogEditor>>,
    /// The number of files that were added.
    added: u64,
    /// The texts of the keys, in the order in which they were issued.
    pub(super) texts: Vec<String>,
}

impl<F> Service<F>
where
    F: Fixture<Store: Ledger + Sized>,
{
    pub(super) async fn open(fixture: F, keeps: Keeps<F::Store>, rule: Option<Arc<dyn Rule>>) -> Self {
        let (clock, mailer) = (Arc::new(ManualClock::default()), Arc::new(RecordingMailer::default()));
        clock.set(DateTime::from_timestamp_millis(BEGINNING).expect("it is well"));
        let entropy = Arc::new(Punctual(SeededEntropy::new(1)));
        let (delivery, store, editor) = start((&fixture, &keeps), rule.as_ref(), &clock, &mailer, &entropy).await;
        let own = OwnTerms { validity: Validity::from_days(2).ok(), limit: UseLimit::from_count(3).ok() };
        for (name, terms) in [("Product 1", own), ("Product 2", OwnTerms::default())] {
            let product = NewProduct::new(name).expect("it is well").content("# x").expect("it is well").terms(terms);
            delivery.add_product(product).await.expect("it is well");
        }
        Self { fixture, keeps, rule, delivery, store, clock, mailer, entropy, editor, added: 0, texts: Vec::new() }
    }

    pub(super) async fn close(self) {
        self.store.close().await;
    }

    /// Takes the step, and asserts that the answer and the state are the model's.
    pub(super) async fn apply(&mut self, step: &Step, model: &Model) {
        let answer = match *step {
            Step::Order { order, product, buyer } => {
                let (order_id, email) = (format!("order {order}"), BUYERS[buyer]);
                let body =
                    json!({ "secret": SECRET, "order_id": order_id, "product_id": product, "customer_email": email });
                let call = Call::new(Method::POST).json(body.to_string());
                self.issued(Endpoint::Order, call).await
            }
            Step::Event { order, report, buyer, copy } => {
                self.send_report(order, report, buyer, copy).await;
                Answer::None
            }
            Step::Issue { product, buyer, days, uses, message } => {
                let body = json!({
                    "product_id": product, "customer_email": BUYERS[buyer], "expires_days": days, "max_uses": uses,
                    "send_email": message,
                });
                self.issued(Endpoint::IssueKey, seller(&body)).await
            }
            Step::Validate { key } => {
                self.http(Endpoint::Validate, Method::GET, format!("key={}", self.texts[key])).await
            }
            Step::Fetch { key, product } => self.product(Method::GET, &self.texts[key], product).await,
            Step::Head { key, product } => self.product(Method::HEAD, &self.texts[key], product).await,
            Step::Forged { key } => self.product(Method::GET, &forged(&self.texts[key]), 1).await,
            Step::Revoke { key } => {
                self.delivery.revoke(self.id(key)).await.expect("it is well");
                Answer::None
            }
            Step::FetchOnce { key, product, request } => {
                let name = HeaderName::from_static("idempotency-key");
                let call = Call::new(Method::GET).header(name, HeaderValue::from(u16::from(request)));
                let call = call.query(format!("key={}&product_id={product}", self.texts[key]));
                let reply = Endpoint::Product.call(&self.delivery, call).await;
                answer(reply.status().as_u16(), serde_json::from_slice(&reply.body()).unwrap_or_default())
            }
            Step::PutFile { product, name } => {
                self.put_file(product, FILES[name]).await.unwrap_or(model.answer.clone())
            }
            Step::DeleteFile { product, name } => {
                self.delete_file(product, FILES[name]).await.unwrap_or(model.answer.clone())
            }
            Step::Restore { key } => self.desk(Endpoint::RestoreKey, json!({ "id": self.id(key) })).await,
            Step::Change { key, days, limit } => {
                let mut body = json!({ "id": self.id(key) });
                for (name, value) in [
                    ("expires_days", days),
                    ("max_uses", limit.and_then(|limit| if let Limit::Set(uses) = limit { Some(uses) } else { None })),
                    ("add_uses", limit.and_then(|limit| if let Limit::Add(uses) = limit { Some(uses) } else { None })),
                ] {
                    if let Some(value) = value {
                        body[name] = value.into();
                    }
                }
                self.desk(Endpoint::ChangeKey, body).await
            }
            Step::SendAgain { key, buyer } => {
                let body = json!({ "id": self.id(key), "customer_email": buyer.map(|buyer| BUYERS[buyer]) });
                self.desk(Endpoint::ResendKey, body).await
            }
            Step::Rotate { key } => {
                let body = json!({ "id": self.id(key) });
                self.issued(Endpoint::RotateKey, seller(&body)).await
            }
            Step::Chores => {
                self.delivery.maintenance().notify_expiring().await.expect("it is well");
                self.delivery.maintenance().mark_expired().await.expect("it is well");
                self.delivery.maintenance().prune_requests().await.expect("it is well");
                Answer::None
            }
            Step::Clock { milliseconds } => {
                match u64::try_from(milliseconds) {
                    Ok(forward) => self.clock.advance(Duration::from_millis(forward)),
                    Err(_) => self.clock.set(self.clock.now() + chrono::TimeDelta::milliseconds(milliseconds)),
                }
                Answer::None
            }
            Step::Mailer(behaviour) => {
                self.mailer.otherwise(behaviour);
                Answer::None
            }
            Step::Work => {
                let Worked { sent, deferred, failed, .. } =
                    self.delivery.maintenance().outbox().work().await.expect("it is well");
                Answer::Worked(sent, deferred, failed)
            }
            Step::Resend => self.resend().await,
            Step::Restart { crash } => {
                self.restart(crash).await;
                Answer::None
            }
        };
        assert_eq!(answer, model.answer, "left is the service, right the model, after {step:?}");
        self.compare(model).await;
    }

    async fn send_report(&mut self, order: u8, report: OrderReport, buyer: usize, copy: u8) {
        let id = |text: String| text.parse::<OrderId>().expect("it is short");
        let (number, payment) = (id(format!("event order {order}")), id(format!("payment {order}")));
        let charge = ChargeRef::Payment(payment.clone());
        let event = match report {
            OrderReport::Paid => Event::Paid(Sale {
                lines: vec![Line { own: ProductId::new(1).ok(), ..Line::named([]) }],
                buyer: Buyer::by_email(Some(BUYERS[buyer])),
                links: Links { payment: Some(payment), ..Links::default() },
                ..Sale::new(number)
            }),
            OrderReport::Refunded => Event::Refunded(Refund::full(ChargeRef::Order(number))),
            OrderReport::Disputed => Event::Disputed(charge.into()),
            OrderReport::Won => Event::Won(charge.into()),
        };
        let id = format!("{report:?} {order} {buyer} {copy}");
        let notification = Notification { id, kind: format!("{report:?}"), is_test: false, events: Ok(vec![event]) };
        let source = "histories".parse().expect("it is well");
        let received = self.delivery.receive(&source, notification).await.expect("it is well");
        assert!(received.issued.len() <= 1, "one key a sale");
        self.delivery.maintenance().apply_events().await.expect("it is well");
        // Adds the texts of the keys that the event issued. The answer to an event does not contain them.
        let query = KeyQuery { limit: 1000, ..KeyQuery::default() };
        for key in self.delivery.keys(&query).await.expect("it is well").items {
            let text = keyring().text(key.id(), key.granted().secret).expose().to_owned();
            if !self.texts.contains(&text) {
                self.texts.push(text);
            }
        }
    }

    fn files(&self) -> Option<&dyn Files> {
        self.editor.as_deref()?.files()
    }

    /// Returns whether the store keeps the rows of files.
    pub(super) fn has_files(&self) -> bool {
        self.files().is_some()
    }

    fn edit(&self) -> Edit {
        Edit::new(Actor::admin(), self.clock.now())
    }

    async fn put_file(&mut self, id: i64, name: &str) -> Option<Answer> {
        self.added += 1;
        let file = File {
            object: ObjectName::from_bytes(u128::from(self.added).to_be_bytes()),
            name: name.parse().expect("a name"),
            size: self.added,
            sha256: [0; 32],
            media_type: MediaType::default(),
            added_at: self.clock.now(),
        };
        let is_replaced = self.files()?.put_file(product(id), file, self.edit()).await.expect("it is well");
        Some(Answer::File(is_replaced.expect("a product")))
    }

    async fn delete_file(&self, id: i64, name: &str) -> Option<Answer> {
        let name = name.parse().expect("a name");
        Some(Answer::File(self.files()?.delete_file(product(id), &name, self.edit()).await.expect("it is well")))
    }

    /// Returns whether the store keeps what the seller's desk and the platforms need.
    pub(super) fn has_office(&self) -> bool {
        self.store.office().is_some()
    }

    pub(super) fn id(&self, key: usize) -> KeyId {
        self.delivery.verify(&self.texts[key]).expect("a key of ours")
    }

    async fn issued(&mut self, endpoint: Endpoint, call: Call) -> Answer {
        let reply = endpoint.call(&self.delivery, call).await;
        let body: Value = serde_json::from_slice(&reply.body()).expect("it is well");
        let Some(text) = body["api_key"].as_str() else { return answer(reply.status().as_u16(), body) };
        assert_eq!(reply.status(), 200);
        Answer::Key(self.texts.iter().position(|known| known == text).unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        }))
    }

    /// Sends the seller's change of a key. The body of a success is dropped, because the keys are compared anyway.
    async fn desk(&self, endpoint: Endpoint, body: Value) -> Answer {
        let reply = endpoint.call(&self.delivery, seller(&body)).await;
        match reply.status().as_u16() {
            200 => Answer::Http(200, Value::Null),
            status => answer(status, serde_json::from_slice(&reply.body()).expect("it is well")),
        }
    }

    async fn product(&self, method: Method, key: &str, product: i64) -> Answer {
        self.http(Endpoint::Product, method, format!("key={key}&product_id={product}")).await
    }

    async fn http(&self, endpoint: Endpoint, method: Method, query: String) -> Answer {
        let reply = endpoint.call(&self.delivery, Call::new(method).query(query)).await;
        answer(reply.status().as_u16(), serde_json::from_slice(&reply.body()).unwrap_or_default())
    }

    async fn resend(&self) -> Answer {
        let failed = self.delivery.failed_messages(1000).await.expect("it is well");
        assert!(failed.is_sorted_by_key(|message| message.failed_at));
        for message in &failed {
            assert!(self.delivery.retry_message(message.message).await.expect("it is well"));
        }
        let key = |failed: &FailedMessage| (0..self.texts.len()).find(|key| self.id(*key) == failed.key.id());
        let mut keys: Vec<_> = failed.iter().map(|failed| key(failed).expect("it is well")).collect();
        keys.sort_unstable();
        Answer::Resent(keys)
    }

    async fn restart(&mut self, crash: bool) {
        if crash {
            self.fixture.crash();
        } else {
            self.store.close().await;
        }
        (self.delivery, self.store, self.editor) =
            start((&self.fixture, &self.keeps), self.rule.as_ref(), &self.clock, &self.mailer, &self.entropy).await;
    }
}

/// Returns the product of this number.
pub(super) fn product(id: i64) -> ProductId {
    ProductId::new(id).expect("1 or more")
}

/// Returns an API call by the seller.
fn seller(body: &Value) -> Call {
    let token = HeaderValue::try_from(format!("Bearer {TOKEN}")).expect("it is well");
    Call::new(Method::POST).json(body.to_string()).header(header::AUTHORIZATION, token)
}

/// Returns the status and the body without the message of an error.
fn answer(status: u16, mut body: Value) -> Answer {
    if let Some(error) = body.get_mut("error").and_then(Value::as_object_mut) {
        assert!(error.remove("message").is_some_and(|message| message.is_string()));
    }
    Answer::Http(status, body)
}

fn forged(text: &str) -> String {
    let last = if text.ends_with('0') { "1" } else { "0" };
    format!("{}{last}", &text[..text.len() - 1])
}

async fn start<F>(
    (fixture, keeps): (&F, &Keeps<F::Store>),
    rule: Option<&Arc<dyn Rule>>,
    clock: &Arc<ManualClock>,
    mailer: &Arc<RecordingMailer>,
    entropy: &Arc<Punctual>,
) -> (Delivery, Arc<dyn Ledger>, Option<Arc<dyn CatalogEditor>>)
where
    F: Fixture<Store: Ledger + Sized>,
{
    let store = fixture.open().await;
    let stores = keeps(store.clone());
    let editor = stores.editor.clone();
    let builder = rule.into_iter().cloned().fold(builder(stores, mailer), Builder::rule);
    (builder.clock(clock.clone()).entropy(entropy.clone()).build(), store, editor)
}

fn keyring() -> Keyring {
    let secret = "a secret for histories".parse().expect("it is well");
    Keyring::new(Prefix::default(), &[secret]).expect("it is well")
}

fn builder(stores: Stores, mailer: &Arc<RecordingMailer>) -> Builder {
    let plenty = Quota::per_minute(u32::MAX).expect("it is well");
    let quotas = Quotas {
        product: plenty,
        validate: plenty,
        webhook: plenty,
        admin: plenty,
        failures: plenty,
        events: plenty,
        ..Quotas::default()
    };
    let builder = Delivery::builder(stores, mailer.clone(), keyring())
        .webhook_secret(SECRET.parse().expect("it is well"))
        .admin_token(TOKEN.parse().expect("it is well"));
    // The subject of each e-mail is the name of its kind, and the body is the key.
    let files = ["purchase", "revoked", "resend", "successor", "expiring"].into_iter().flat_map(|kind| {
        [(format!("{kind}.subject"), kind.to_owned()), (format!("{kind}.txt"), "{{ key }}".to_owned())]
    });
    builder.templates(Templates::replacing(files).expect("it is well")).quotas(quotas)
}
