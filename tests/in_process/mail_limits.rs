//! What providers of e-mail limit: e-mails and connections at once.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delivery_core::key::Actor;
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::store::KeyQuery;
use futures_util::future::join_all;
use support::smtp::Script;

use super::outbox::Post;
use super::smtp::{message, serve};

#[tokio::test]
async fn no_more_connections_are_open_than_are_set() {
    for (limit, rounds) in [(1, 3), (2, 3)] {
        let (mailer, server) = serve(Script::Accept).await;
        let mailer = mailer.connections(NonZeroUsize::new(limit).unwrap());
        for _ in 0..rounds {
            let sent = join_all((0..10).map(|_| async { mailer.send(&message()).await })).await;
            assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        }
        assert_eq!((server.received().len(), server.connections()), (30, limit));
    }
    // A connection that is closed after a hundred e-mails makes room for the next.
    let (mailer, server) = serve(Script::Accept).await;
    let mailer = mailer.connections(NonZeroUsize::MIN);
    let sent = join_all((0..150).map(|_| async { mailer.send(&message()).await })).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    assert_eq!((server.received().len(), server.connections()), (150, 2));
}

/// It says how many e-mails it takes at once, which is what the outbox gives it.
#[tokio::test]
async fn connections_have_no_limit_unless_one_is_set() {
    let (mailer, _) = serve(Script::Accept).await;
    assert_eq!(mailer.at_once(), usize::MAX);
    assert_eq!(mailer.connections(NonZeroUsize::new(3).unwrap()).at_once(), 3);
}

#[tokio::test]
async fn e_mails_are_spaced_by_the_rate() {
    let (mailer, server) = serve(Script::Accept).await;
    let mailer = mailer.rate(NonZeroU32::new(20).unwrap());
    #[expect(clippy::disallowed_methods, reason = "what the mail server sees is real time")]
    let began = std::time::Instant::now();
    let sent = join_all((0..4).map(|_| async { mailer.send(&message()).await })).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
    assert_eq!(server.received().len(), 4);
}

/// Counts how many e-mails it is given at once, and keeps to whom they go.
#[derive(Debug, Default)]
struct OneByOne {
    now: AtomicUsize,
    most: AtomicUsize,
    to: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Mailer for OneByOne {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        self.to.lock().unwrap().push(message.to.to_string());
        self.most.fetch_max(self.now.fetch_add(1, Relaxed) + 1, Relaxed);
        tokio::time::sleep(Duration::from_mins(2)).await;
        self.now.fetch_sub(1, Relaxed);
        Ok(())
    }

    fn at_once(&self) -> usize {
        1
    }
}

#[tokio::test(start_paused = true)]
async fn a_mailer_is_given_no_more_e_mails_than_it_takes_at_once() {
    for is_started in [false, true] {
        let mailer = Arc::new(OneByOne::default());
        let post = Post::open_with(mailer.clone()).await;
        for order in ["A", "B", "C"] {
            post.order(order).await;
        }
        if is_started {
            let running = post.delivery.start().await.unwrap();
            tokio::time::sleep(Duration::from_mins(7)).await;
            running.stop().await;
        } else {
            assert_eq!(post.work().await, (3, 0, 0));
        }
        assert_eq!(post.work().await, (0, 0, 0), "all were sent; is_started: {is_started}");
        assert_eq!(mailer.most.load(Relaxed), 1, "is_started: {is_started}");
    }
}

/// What an e-mail says may change while it waits for its place.
#[tokio::test(start_paused = true)]
async fn an_e_mail_that_waited_for_its_place_goes_to_the_address_of_now() {
    let mailer = Arc::new(OneByOne::default());
    let post = Post::open_with(mailer.clone()).await;
    for order in ["A", "B"] {
        post.order(order).await;
    }
    let running = post.delivery.start().await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(mailer.to.lock().unwrap().len(), 1, "the second waits");
    let actor = Actor::admin();
    for key in post.delivery.keys(&KeyQuery { limit: 10, ..KeyQuery::default() }).await.unwrap().items {
        post.delivery.desk(&actor).resend(key.id(), Some("new@example.com".parse().unwrap())).await.unwrap();
    }
    tokio::time::sleep(Duration::from_mins(20)).await;
    running.stop().await;
    let to = mailer.to.lock().unwrap().clone();
    assert!(to.len() > 1 && to[1..].iter().all(|to| to == "new@example.com"), "{to:?}");
}
