//! The way of an e-mail, over five days that pass in milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use delivery_core::delivery::{Builder, Expiry};
use delivery_core::key::{Actor, Change};
use delivery_core::ledger::{MessageKind, Notice};
use delivery_core::mail::{MailError, MailLinks, Mailer, Message};
use delivery_core::product::NewProduct;
use delivery_core::store::{Ledger, MessageQuery, StoreError};
use delivery_core::{Clock, Delivery, Entropy};
use delivery_testing::{Behaviour, Fault, Faulty, ManualClock, MemoryStore, RecordingMailer, SeededEntropy, Shop};

use super::calls::{Gate, paid, work};

pub struct Post {
    pub delivery: Delivery,
    mailer: Arc<RecordingMailer>,
    clock: Arc<ManualClock>,
    store: Arc<Faulty<MemoryStore>>,
}

impl Post {
    async fn open() -> Self {
        let mailer = Arc::new(RecordingMailer::default());
        Self { mailer: mailer.clone(), ..Self::open_with(mailer).await }
    }

    pub async fn open_with(sends: Arc<dyn Mailer>) -> Self {
        let (mailer, clock) = (Arc::new(RecordingMailer::default()), Arc::new(ManualClock::default()));
        let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
        let delivery = Delivery::builder(store.clone(), sends, "a secret for e-mails".parse().unwrap())
            .clock(clock.clone())
            .entropy(Arc::new(SeededEntropy::new(7)))
            .base_url("https://shop.example/")
            .build();
        delivery.add_product(NewProduct::new("Field Guide").unwrap().content("x").unwrap()).await.unwrap();
        Self { delivery, mailer, clock, store }
    }

    pub async fn order(&self, id: &str) -> String {
        self.delivery.order(paid(id)).await.unwrap().text.expose().to_owned()
    }

    pub async fn work(&self) -> (usize, usize, usize) {
        work(&self.delivery).await
    }
}

/// Entropy that is drawn when a failure has been judged, and takes so long that retries of a group are due meanwhile.
#[derive(Debug)]
struct Slow {
    clock: Arc<ManualClock>,
    seeded: SeededEntropy,
    advances: AtomicBool,
}

impl Entropy for Slow {
    fn fill(&self, bytes: &mut [u8]) {
        self.seeded.fill(bytes);
        if self.advances.load(Ordering::Relaxed) {
            self.clock.advance(Duration::from_secs(1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_lease_of_a_message_is_an_attempt_although_outcomes_are_stored_late() {
    let clock = Arc::new(ManualClock::default());
    let (seeded, advances) = (SeededEntropy::new(7), AtomicBool::new(false));
    let slow = Arc::new(Slow { clock: clock.clone(), seeded, advances });
    let shop = Shop::with(|builder| builder.clock(clock.clone()).entropy(slow.clone())).await;
    shop.mailer.otherwise(Behaviour::FailTransient);
    for order in 0..100 {
        shop.paid(&order.to_string()).await;
    }
    slow.advances.store(true, Ordering::Relaxed);
    let running = shop.delivery.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    running.stop().await;
    let (alice, query) = ("alice".parse().unwrap(), MessageQuery { limit: 100, ..MessageQuery::default() });
    let stored = shop.delivery.desk(&alice).messages(&query).await.unwrap().items;
    let leases: u32 = stored.iter().map(|message| message.attempts).sum();
    assert_eq!(usize::try_from(leases).unwrap(), shop.mailer.attempts());
}

#[tokio::test]
async fn an_e_mail_recommends_the_addresses_that_the_host_has_and_no_others() {
    let address = |path: &str| Some(format!("https://shop.example{path}"));
    for (links, page, command) in [
        (None, false, Some("https://shop.example/api/product?product_id=1")),
        (Some(MailLinks { page: address("/mine"), ..MailLinks::default() }), true, None),
        (
            Some(MailLinks { fetch: address("/v2"), ..MailLinks::default() }),
            false,
            Some("https://shop.example/v2?product_id=1"),
        ),
        (Some(MailLinks::default()), false, None),
    ] {
        let at = |builder: Builder| builder.base_url("https://shop.example/");
        let shop = Shop::with(|builder| links.clone().into_iter().fold(at(builder), Builder::mail_links)).await;
        let key = shop.paid("A-1").await.text.expose().to_owned();
        let messages = shop.messages().await;
        for body in [&messages[0].text, &messages[0].html] {
            assert!(body.contains(&key), "{links:?}");
            assert_eq!(body.contains(&format!("https://shop.example/mine#{key}")), page, "{links:?}");
            assert_eq!(body.contains("curl"), command.is_some(), "{links:?}");
            assert!(command.is_none_or(|command| body.contains(command)), "{links:?} {body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_bad_message_stops_no_other() {
    for (behaviour, ends) in [
        (Behaviour::FailPermanent, (20, 0, 1)),
        (Behaviour::FailTransient, (20, 1, 0)),
        (Behaviour::Panic, (20, 1, 0)),
        (Behaviour::Hang, (20, 1, 0)),
    ] {
        let post = Post::open().await;
        post.mailer.then(behaviour);
        for order in 0..21 {
            post.order(&order.to_string()).await;
        }
        assert_eq!(post.work().await, ends, "{behaviour:?}");
    }
}

/// A mailer of a host that quotes what it cannot send.
#[derive(Debug)]
struct Quoting;

#[async_trait::async_trait]
impl Mailer for Quoting {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        // The e-mail about lost keys has others than that of its message.
        let quote = format!("refused <{}>: {} dlv_{}", message.to, message.text, "0".repeat(48));
        Err(MailError::permanent(quote.clone()).because(std::io::Error::other(quote)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_mailer_that_quotes_the_message_puts_no_key_into_the_store() {
    let post = Post::open_with(Arc::new(Quoting)).await;
    post.order("A").await;
    assert_eq!(post.work().await, (0, 0, 1));
    let reason = post.delivery.failed_messages(10).await.unwrap().remove(0).reason;
    assert!(reason.starts_with("refused <…>: Thank you") && reason.ends_with(" …"), "{reason}");
    assert!(!reason.contains("dlv_") && !reason.contains('@'), "{reason}");
}

/// Nor into the log, which has the causes too.
#[test]
fn what_a_mail_error_quotes_is_nowhere_in_it() {
    let quote = format!("<buyer@example.com>: dlv_{}", "0".repeat(48));
    let error = MailError::transient("refused").because(std::io::Error::other(quote));
    assert_eq!(delivery_core::explain(&error), "refused: <…>: …");
    assert!(!format!("{error:?}").contains("buyer"));
}

/// As when the database was away for longer than a lease, and the queue is asked before the lease is renewed.
#[tokio::test(start_paused = true)]
async fn a_server_whose_own_lease_expired_sends_no_second_copy() {
    for is_sent in [false, true] {
        let mailer = Gate::closed();
        let post = Post::open_with(mailer.clone()).await;
        let running = post.delivery.start().await.unwrap();
        post.order("A").await;
        mailer.begun.acquire().await.unwrap().forget();
        if is_sent {
            // That it was sent cannot be stored, and is tried again in a second.
            post.store.otherwise(Fault::Before(StoreError::unavailable("away")));
            mailer.allowed.add_permits(1);
            tokio::time::sleep(Duration::from_millis(100)).await;
            post.store.heal();
        }
        post.clock.advance(Duration::from_mins(1));
        // The queue is asked at once.
        post.order("B").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(mailer.begun.available_permits(), 1, "only of the other order; is_sent: {is_sent}");
        mailer.allowed.add_permits(2);
        tokio::time::sleep(Duration::from_secs(2)).await;
        running.stop().await;
        post.clock.advance(Duration::from_mins(1));
        assert_eq!(post.work().await, (0, 0, 0), "is_sent: {is_sent}");
    }
}

/// Sends while the process is suspended for a day.
#[derive(Debug)]
struct Suspended;

#[async_trait::async_trait]
impl Mailer for Suspended {
    async fn send(&self, _: &Message) -> Result<(), MailError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        tokio::time::advance(Duration::from_hours(24)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_e_mail_that_was_being_sent_while_the_process_was_suspended_is_sent_once() {
    let post = Post::open_with(Arc::new(Suspended)).await;
    post.order("A").await;
    assert_eq!(post.work().await, (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_started_service_sends_by_itself_and_gives_back_what_hangs_at_the_end() {
    let post = Post::open().await;
    let running = post.delivery.start().await.unwrap();
    post.order("A").await;
    while post.mailer.accepted().is_empty() {
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    post.mailer.then(Behaviour::Hang);
    post.order("B").await;
    while post.mailer.attempts() < 2 {
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    running.stop().await;
    assert_eq!(post.work().await, (1, 0, 0), "the lease was given back: the e-mail is due at once");
}

#[tokio::test(start_paused = true)]
async fn an_e_mail_that_is_not_true_any_more_is_not_sent() {
    let post = Post::open().await;
    let admin = Actor::admin();
    let desk = post.delivery.desk(&admin);
    let subjects = || {
        let accepted = post.mailer.accepted();
        accepted.iter().map(|it| (it.to.to_string(), it.subject.clone())).collect::<Vec<_>>()
    };
    let reasons = async || {
        let failed = post.delivery.failed_messages(10).await.unwrap();
        failed.into_iter().map(|message| message.reason).collect::<Vec<_>>()
    };
    // The address is corrected before the first e-mail is sent.
    let key = post.delivery.verify(&post.order("A").await).unwrap();
    desk.resend(key, "ada@example.com".parse().ok()).await.unwrap();
    let corrected = ("ada@example.com".to_owned(), "Your key for Field Guide".to_owned());
    assert_eq!(post.work().await, (2, 0, 0));
    assert_eq!(subjects(), [corrected.clone(), corrected.clone()], "nobody else gets the key");
    // The host corrects it, and has nothing sent again.
    let other = post.delivery.verify(&post.order("B").await).unwrap();
    let email = "ada@example.com".parse().unwrap();
    post.delivery.change(other, Change::SetEmail { at: post.clock.now(), by: admin.clone(), email }).await.unwrap();
    assert_eq!(post.work().await, (1, 0, 0));
    assert_eq!(subjects()[2], corrected);
    // The key is rotated before its e-mail is sent.
    desk.resend(key, None).await.unwrap();
    let successor = desk.rotate(key).await.unwrap();
    assert_eq!(post.work().await, (1, 0, 1));
    assert!(post.mailer.accepted()[3].text.contains(successor.text.expose()));
    assert_eq!(reasons().await[0], "another key took the place of this one");
    // It is told when it expires, and gets more time before that is sent.
    post.clock.advance(Duration::from_hours(24 * 30));
    desk.set_terms(successor.key.id(), Some(Expiry::At(post.clock.now() + TimeDelta::days(9))), None).await.unwrap();
    assert_eq!(post.delivery.maintenance().notify_expiring().await.unwrap(), 1);
    desk.set_terms(successor.key.id(), Some(Expiry::At(post.clock.now() + TimeDelta::days(90))), None).await.unwrap();
    assert_eq!(post.work().await, (0, 0, 1));
    assert_eq!(reasons().await[1], "the key does not expire then any more");
    // An e-mail failed, its buyer is forgotten, and it is tried again.
    post.mailer.then(Behaviour::FailPermanent);
    let lost = post.delivery.verify(&post.order("C").await).unwrap();
    assert_eq!(post.work().await, (0, 0, 1));
    let buyer = post.delivery.key(lost).await.unwrap().unwrap().email().clone();
    desk.erase(&buyer).await.unwrap();
    let failed = post.delivery.failed_messages(10).await.unwrap();
    assert!(desk.retry_message(failed[2].message).await.unwrap());
    assert_eq!((post.work().await, post.mailer.accepted().len()), ((0, 0, 1), 4));
    assert_eq!(reasons().await[2], "the buyer was forgotten");
    // A key is revoked before its e-mail is sent.
    let revoked = post.delivery.verify(&post.order("D").await).unwrap();
    desk.revoke(revoked, None).await.unwrap();
    assert_eq!(post.work().await, (0, 1, 0));
    assert_eq!(post.mailer.accepted().len(), 4);
    // It is sent once the key is valid again.
    desk.restore(revoked).await.unwrap();
    post.clock.advance(Duration::from_mins(1));
    assert_eq!(post.work().await, (1, 0, 0));
    // A refund is reported, and the seller restores the key before the buyer is told.
    let restored = post.delivery.verify(&post.order("E").await).unwrap();
    assert_eq!(post.work().await, (1, 0, 0));
    let kind = MessageKind::Revoked;
    let told = Notice::email("told@example.com".parse().unwrap(), kind);
    let use_of = Change::use_of(post.delivery.key(restored).await.unwrap().unwrap().product(), post.clock.now());
    post.store.change(restored, use_of, vec![told]).await.unwrap().unwrap().unwrap();
    assert_eq!(post.work().await, (0, 0, 1));
    assert_eq!(reasons().await[3], "the key is valid again");
}
