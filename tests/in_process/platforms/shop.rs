//! A shop whose events are told to the service directly.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delivery_core::Delivery;
use delivery_core::delivery::Error;
use delivery_core::key::Key;
use delivery_core::ledger::EventOutcome;
use delivery_core::limit::{Quota, Quotas};
use delivery_core::order::{OrderId, Source};
use delivery_core::platform::{
    Buyer, ChargeRef, Dispute, Event, Line, Links, Notification, Platform, Received, Refund, Request, Sale, Standing,
    SubscriptionEvent, Term, Unauthentic, Unreadable,
};
use delivery_core::product::{NewProduct, Product, Refs};
use delivery_core::store::{InboxQuery, KeyQuery};
use delivery_core::terms::{OwnTerms, Validity};
use delivery_testing::{Faulty, ManualClock, MemoryStore, RecordingMailer};

/// A platform of the host's own, which speaks to the service directly. A request with its token sells a guide, and the body is
/// the number of the order.
#[derive(Debug)]
pub struct Own;

impl Platform for Own {
    fn name(&self) -> Source {
        "own".parse().unwrap()
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        if request.headers.get("x-own-token").is_none_or(|token| token != "from us") {
            return Err(Unauthentic);
        }
        let id = String::from_utf8_lossy(request.body).into_owned();
        let events = Ok(vec![Event::Paid(sale(&id, "guide"))]);
        Ok(Received::Notification(Notification { id, kind: "sale".to_owned(), is_test: false, events }))
    }
}

pub struct Shop {
    pub delivery: Delivery,
    pub clock: Arc<ManualClock>,
    pub store: Arc<Faulty<MemoryStore>>,
    pub mailer: Arc<RecordingMailer>,
    next: std::cell::Cell<u32>,
}

impl Shop {
    pub fn open() -> Self {
        let (clock, store) = (Arc::new(ManualClock::default()), Arc::new(Faulty::new(Arc::new(MemoryStore::new()))));
        let mailer = Arc::new(RecordingMailer::default());
        let events = Quota::per_minute(3).unwrap();
        let delivery = Delivery::builder(store.clone(), mailer.clone(), "what-keys-are-signed-with".parse().unwrap())
            .platform(Own)
            .clock(clock.clone())
            .quotas(Quotas { events, ..Quotas::default() })
            .build();
        Self { delivery, clock, store, mailer, next: std::cell::Cell::new(0) }
    }

    /// A shop that sells what the platform calls guide.
    pub async fn with_guide() -> Self {
        let shop = Self::open();
        shop.product("guide").await;
        shop
    }

    /// A product that the platform calls so, for 30 days.
    pub async fn product(&self, name: &str) -> Arc<Product> {
        self.add(name, OwnTerms { validity: Validity::from_days(30).ok(), ..OwnTerms::default() }).await
    }

    /// A product that the platform calls so, for so many uses.
    pub async fn limited(&self, name: &str, uses: i64) -> Arc<Product> {
        self.add(name, crate::calls::uses(uses)).await
    }

    async fn add(&self, name: &str, terms: OwnTerms) -> Arc<Product> {
        self.delivery.add_product(called(&[name]).terms(terms)).await.unwrap()
    }

    /// Tells of something, as an event of its own.
    pub async fn tell(&self, event: Event) -> Option<EventOutcome> {
        self.next.set(self.next.get() + 1);
        // Apart in time, so that the limit is met only where it is meant to be.
        self.clock.advance(Duration::from_mins(1));
        self.outcome_of(&format!("evt_{}", self.next.get()), Ok(vec![event])).await
    }

    /// Tells of a test purchase.
    pub async fn tell_test(&self, event: Event) -> Option<EventOutcome> {
        self.next.set(self.next.get() + 1);
        let id = format!("evt_{}", self.next.get());
        let notification = Notification { id, kind: "sale".to_owned(), is_test: true, events: Ok(vec![event]) };
        self.delivery.receive(&Own.name(), notification).await.unwrap().event.outcome
    }

    pub async fn outcome_of(&self, id: &str, events: Result<Vec<Event>, Unreadable>) -> Option<EventOutcome> {
        self.receive(id, events).await.unwrap().event.outcome
    }

    pub async fn receive(
        &self,
        id: &str,
        events: Result<Vec<Event>, Unreadable>,
    ) -> Result<delivery_core::ledger::Received, Error> {
        let notification = Notification { id: id.to_owned(), kind: "sale".to_owned(), is_test: false, events };
        self.delivery.receive(&Own.name(), notification).await
    }

    pub async fn keys(&self) -> Vec<Key> {
        self.delivery.keys(&KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap().items
    }

    /// How many days after the shop opened the first key expires.
    pub async fn days(&self) -> i64 {
        (self.keys().await[0].expires_at() - day(0)).num_days()
    }

    /// How many e-mails were sent now.
    pub async fn sent(&self) -> usize {
        self.delivery.maintenance().outbox().work().await.unwrap().sent
    }

    pub async fn reasons(&self) -> Vec<Option<String>> {
        let events = self.delivery.events(&InboxQuery { limit: 100, ..InboxQuery::default() }).await.unwrap();
        events.items.into_iter().map(|event| event.reason).collect()
    }
}

/// A guide that the platform calls so.
pub fn called(names: &[&str]) -> NewProduct {
    let refs = names.iter().map(|name| ("own".parse().unwrap(), name.parse().unwrap()));
    NewProduct::new("Guide").unwrap().refs(Refs::new(refs).unwrap())
}

pub fn line(name: &str) -> Line {
    Line::named([Some(name.to_owned())])
}

pub fn id(number: &str) -> OrderId {
    number.parse().unwrap()
}

pub fn sale(order: &str, name: &str) -> Sale {
    Sale {
        lines: vec![line(name)],
        buyer: Buyer::by_email(Some("ada@example.com")),
        links: Links { payment: Some(id(&format!("pay {order}"))), ..Links::default() },
        ..Sale::new(id(order))
    }
}

/// So many days after a shop opened.
pub fn day(days: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap() + TimeDelta::days(days)
}

/// A charge of a subscription for the 30 days from that day, on which it was paid.
pub fn charge(order: &str, from: i64) -> Sale {
    let term = Term::Period { from: day(from), until: day(from + 30) };
    let sold = sale(order, "guide");
    let links = Links { subscription: Some(id("sub")), ..sold.links };
    Sale { at: Some(day(from)), lines: vec![Line { term, ..line("guide") }], links, ..sold }
}

pub fn charged(order: &str, from: i64) -> Event {
    Event::Paid(charge(order, from))
}

/// What the platform says of that subscription on a day.
pub fn word(on: i64, status: Standing, term: Term) -> Event {
    Event::Subscription(SubscriptionEvent::new(day(on), Links::of_subscription(Some(id("sub"))), (status, term)))
}

pub fn order(number: &str) -> ChargeRef {
    ChargeRef::Order(id(number))
}

pub fn refunded(number: &str) -> Event {
    Event::Refunded(Refund::full(order(number)))
}

pub fn dispute(number: &str) -> Dispute {
    ChargeRef::Payment(id(&format!("pay {number}"))).into()
}
