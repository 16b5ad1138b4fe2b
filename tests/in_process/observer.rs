//! What a host is told by observers.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delivery_core::http::{Call, Endpoint};
use delivery_core::ledger::{Addressee, WebhookName};
use delivery_core::observer::{Event, Observer, QUEUE};
use delivery_core::store::SqliteStore;
use delivery_core::terms::Terms;
use delivery_core::webhook::{Webhook, Webhooks};
use delivery_testing::{Behaviour, MemoryStore, Shop};
use http::Method;

use super::calls::uses;

/// Writes down what it is told, and panics at refusals.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn observe(&self, event: &Event) {
        let note = match event {
            Event::Issued { key } => format!("issued to {}", key.email()),
            Event::Used { key } => format!("used {}", key.used()),
            Event::Refused { code, key } => format!("refused {} known: {}", code.as_str(), key.is_some()),
            Event::Revoked { .. } => "revoked".to_owned(),
            Event::MessageSent { attempt, .. } => format!("sent at attempt {attempt}"),
            Event::MessageFailed { reason, .. } => format!("failed: {reason}"),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(note);
        assert!(!matches!(event, Event::Refused { .. }), "a bug of the host's");
    }
}

/// Does not come back from its first event until the other end is dropped.
#[derive(Debug)]
struct Slow(Mutex<Receiver<()>>);

impl Slow {
    fn new() -> (Sender<()>, Arc<Self>) {
        let (held, until) = channel();
        (held, Arc::new(Self(Mutex::new(until))))
    }
}

impl Observer for Slow {
    fn observe(&self, _: &Event) {
        assert!(self.0.lock().unwrap().recv().is_err(), "the other end is dropped");
    }
}

/// A shop whose keys have two uses.
async fn shop(observer: Arc<dyn Observer>) -> Shop {
    Shop::with(|builder| builder.observer(observer).terms(uses(2).unwrap_or(Terms::default()))).await
}

/// A sale, two uses and a third, a guess, two revocations, an e-mail that is sent and one that is given up.
async fn story(shop: &Shop) {
    let delivery = &shop.delivery;
    let (issued, again) = (shop.paid("A").await, shop.paid("A").await);
    assert!(issued.new && !again.new);
    shop.messages().await;
    for served in [true, true, false] {
        assert_eq!(delivery.fetch(issued.key.id(), shop.product.id()).await.is_ok(), served);
    }
    let guess = Call::new(Method::GET).query("key=dlv_guess&product_id=1");
    assert_eq!(Endpoint::Product.call(delivery, guess).await.status(), 401);
    delivery.revoke(issued.key.id()).await.unwrap();
    // An e-mail that is not true any more is not sent, and did not fail.
    delivery.revoke(shop.paid("C").await.key.id()).await.unwrap();
    shop.messages().await;
    shop.mailer.otherwise(Behaviour::FailPermanent);
    shop.paid("B").await;
    shop.messages().await;
    delivery.flush_observers().await;
}

#[tokio::test]
async fn an_observer_is_told_of_everything_in_order_even_after_its_own_panics() {
    let notes = Arc::new(Notes::default());
    let shop = shop(notes.clone()).await;
    story(&shop).await;
    let told = notes.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let (failed, others) = told.split_last().unwrap();
    assert!(failed.starts_with("failed: "), "{failed}");
    assert_eq!(
        others,
        [
            "issued to buyer@example.com",
            "sent at attempt 1",
            "used 1",
            "used 2",
            "refused EXCEEDED_USES known: true",
            "refused INVALID_KEY known: false",
            "revoked",
            "issued to buyer@example.com",
            "revoked",
            "issued to buyer@example.com",
        ]
    );
    assert_eq!(shop.delivery.dropped_events(), 0);
}

/// Collects who got a message, and who did not.
#[derive(Debug, Default)]
struct Addressees(Mutex<Vec<(Addressee, bool)>>);

impl Observer for Addressees {
    fn observe(&self, event: &Event) {
        let (Event::MessageSent { to, .. } | Event::MessageFailed { to, .. }) = event else { return };
        self.0.lock().unwrap().push((to.clone(), matches!(event, Event::MessageSent { .. })));
    }
}

/// A webhook that was removed while its message waited.
#[tokio::test]
async fn an_observer_is_told_which_webhook_failed() {
    let (store, seen) = (Arc::new(MemoryStore::new()), Arc::new(Addressees::default()));
    let name: WebhookName = "removed".parse().unwrap();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
    let webhook = Webhook::new(name.clone(), "http://127.0.0.1:1/", secret).unwrap();
    let webhooks = Webhooks::new([webhook]).unwrap();
    Shop::over(store.clone(), |builder| builder.webhooks(webhooks)).await.paid("A-1").await;
    let shop = Shop::over(store, |builder| builder.observer(seen.clone())).await;
    // A server that knows it may start within a day.
    for _ in 0..36 {
        shop.messages().await;
        shop.clock.advance(Duration::from_hours(1));
    }
    shop.delivery.flush_observers().await;
    let mut seen = seen.0.lock().unwrap().clone();
    seen.sort_by_key(|(_, is_sent)| *is_sent);
    assert_eq!(seen, [(Addressee::Webhook(name), false), (Addressee::Buyer, true)]);
}

#[tokio::test]
async fn a_slow_observer_delays_nobody_and_what_it_misses_is_counted() {
    let (held, slow) = Slow::new();
    let Shop { delivery, product, .. } = shop(slow).await;
    let (product, email) = (product.id(), "a@example.com".parse().unwrap());
    let issued = delivery.issue_by_hand(product, email, uses(-1), false).await.unwrap();
    let id = issued.key.id();
    for _ in 0..QUEUE + 100 {
        delivery.count_use(id, product).await.unwrap();
    }
    drop(held);
    // One is with the observer, if it has begun.
    assert!((100..=101).contains(&delivery.dropped_events()), "{}", delivery.dropped_events());
    delivery.flush_observers().await;
    let key = delivery.check(id).await.unwrap();
    assert_eq!(key.used(), u64::try_from(QUEUE + 100).unwrap(), "every use was counted");
}

/// As a server drops the future of a request whose client is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observers_are_told_of_what_a_caller_that_went_away_has_done() {
    let (notes, folder) = (Arc::new(Notes::default()), tempfile::tempdir().unwrap());
    let store = Arc::new(SqliteStore::open(folder.path().join("x.db")).await.unwrap());
    let shop = Shop::over(store, |builder| builder.observer(notes.clone())).await;
    let (id, delivery, product) = (shop.paid("A").await.key.id(), shop.delivery, shop.product.id());
    for round in 0..100 {
        let caller = delivery.clone();
        let caller = tokio::spawn(async move { caller.count_use(id, product).await });
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        caller.abort();
        let _ = caller.await;
    }
    // Behind them all, in the order of their commits.
    let used = delivery.count_use(id, product).await.unwrap().used();
    delivery.flush_observers().await;
    let told = notes.0.lock().unwrap().iter().filter(|note| note.starts_with("used")).count();
    assert_eq!(u64::try_from(told), Ok(used));
}
