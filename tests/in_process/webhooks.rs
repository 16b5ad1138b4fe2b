//! What the host's other programs are told of keys, by signed requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use delivery_core::delivery::{Stores, Uncommitted};
use delivery_core::http::Page;
use delivery_core::key::{Actor, Change, LimitChange};
use delivery_core::ledger::MessageKind;
use delivery_core::store::{SqliteStore, StoreError};
use delivery_core::terms::{OwnTerms, UseLimit};
use delivery_core::webhook::{Webhook, Webhooks};
use delivery_testing::{Behaviour, MemoryStore, SeededEntropy, Shop};
use futures_util::FutureExt;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::calls::{paid, work};
use super::desk::{desk, get};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A program of the host's. It answers as it is told to, and with 204 otherwise.
#[derive(Clone, Default)]
struct Receiver {
    requests: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    answers: Arc<Mutex<VecDeque<u16>>>,
}

impl Receiver {
    /// Listens, and returns its address.
    async fn start() -> (Self, String) {
        let receiver = Self::default();
        let (listener, url) = listen().await;
        serve(listener, Router::new().fallback(receive).with_state(receiver.clone()));
        (receiver, url)
    }

    fn answer(&self, statuses: &[u16]) {
        self.answers.lock().unwrap().extend(statuses);
    }

    /// The body of the only request since the last look.
    fn only_body(&self) -> Value {
        let told = self.received(SECRET);
        let [(_, body)] = told.as_slice() else { panic!("{told:?}") };
        body.clone()
    }

    /// The requests since the last look: webhook-id and body, each signed as the specification's own library signs it.
    fn received(&self, secret: &str) -> Vec<(String, Value)> {
        let verifier = standardwebhooks::Webhook::new(secret).unwrap();
        let requests: Vec<_> = self.requests.lock().unwrap().drain(..).collect();
        let checked = requests.into_iter().map(|(headers, body)| {
            let text = |name| headers[name].to_str().unwrap();
            let (id, timestamp) = (text("webhook-id"), text("webhook-timestamp").parse().unwrap());
            let expected = verifier.sign(id, timestamp, &body).unwrap();
            assert!(text("webhook-signature").split(' ').any(|signature| signature == expected));
            (id.to_owned(), serde_json::from_slice(&body).unwrap())
        });
        checked.collect()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers["content-type"], "application/json");
    receiver.requests.lock().unwrap().push((headers, body));
    match receiver.answers.lock().unwrap().pop_front() {
        Some(302) => Redirect::to("/elsewhere").into_response(),
        Some(status) => StatusCode::from_u16(status).unwrap().into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

fn webhook(name: &str, url: &str) -> Webhook {
    Webhook::new(name.parse().unwrap(), url, SECRET.parse().unwrap()).unwrap()
}

async fn open(stores: impl Into<Stores>, webhooks: impl IntoIterator<Item = Webhook>) -> Shop {
    let webhooks = Webhooks::new(webhooks).unwrap();
    Shop::over(stores, |builder| builder.webhooks(webhooks).entropy(Arc::new(SeededEntropy::new(7)))).await
}

async fn shop(webhooks: impl IntoIterator<Item = Webhook>) -> Shop {
    open(Arc::new(MemoryStore::new()), webhooks).await
}

/// A port, and the address of what listens there.
async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks?from=shop", listener.local_addr().unwrap());
    (listener, url)
}

fn serve(listener: TcpListener, app: Router) {
    tokio::spawn(async move { axum::serve(listener, app).await });
}

#[tokio::test]
async fn every_receiver_is_told_of_a_sale_and_of_a_revocation() {
    let ((crm, crm_url), (stock, stock_url)) = (Receiver::start().await, Receiver::start().await);
    let rotated = webhook("stock", &stock_url).previous_secret(OLD_SECRET.parse().unwrap());
    let shop = shop([webhook("crm", &crm_url), rotated]).await;
    let issued = shop.paid("A-1").await;
    assert!(!shop.paid("A-1").await.new);
    assert_eq!(work(&shop.delivery).await, (3, 0, 0), "two webhooks and an e-mail, however often the order is told");
    let told = crm.received(SECRET);
    let [(id, body)] = told.as_slice() else { panic!("{told:?}") };
    assert!(id.starts_with("msg_") && !id.contains(['.', '@']), "{id}");
    assert_eq!(
        *body,
        json!({
            "type": "key.issued",
            "timestamp": "2026-11-21T10:00:00Z",
            "data": {
                "id": issued.key.id().to_string(), "product_id": 1, "customer_email": "buyer@example.com",
                "source": "webhook", "order_id": "A-1", "status": "valid", "issued_at": "2026-11-21T10:00:00Z",
                "expires_at": "2027-11-21T10:00:00Z", "max_uses": -1, "used_count": 0, "remaining_uses": -1,
                "revoked_at": null, "revoked_reason": null, "host_ref": null,
            },
        })
    );
    // While a secret is replaced, whoever knows either of them can check a request.
    assert_eq!(stock.requests.lock().unwrap().len(), 1);
    let requests = stock.requests.lock().unwrap().clone();
    assert_eq!(stock.received(OLD_SECRET).len(), 1);
    *stock.requests.lock().unwrap() = requests;
    assert_eq!(stock.received(SECRET).len(), 1);

    shop.clock.advance(Duration::from_hours(1));
    shop.delivery.revoke(issued.key.id()).await.unwrap();
    shop.delivery.revoke(issued.key.id()).await.unwrap();
    assert_eq!(work(&shop.delivery).await, (2, 0, 0), "what changes nothing is told to nobody");
    let body = crm.only_body();
    assert_eq!(body["type"], "key.revoked");
    assert_eq!(
        (&body["data"]["status"], &body["data"]["revoked_at"]),
        (&json!("revoked"), &json!("2026-11-21T11:00:00Z"))
    );

    let (at, by, id) = (shop.now(), Actor::admin(), issued.key.id());
    let limit = UseLimit::from_count(3).ok().map(LimitChange::Set);
    let changes = [
        (Change::Restore { at, by: by.clone() }, "key.restored", -1),
        (Change::SetTerms { at, by, expires_at: None, limit }, "key.changed", 3),
    ];
    for (change, kind, uses) in changes {
        shop.delivery.change(id, change).await.unwrap();
        assert_eq!(work(&shop.delivery).await, (2, 0, 0));
        let body = crm.only_body();
        let data = &body["data"];
        assert_eq!((&body["type"], &data["status"], &data["max_uses"]), (&json!(kind), &json!("valid"), &json!(uses)));
    }
}

/// A receiver knows a request that it has seen by its id.
#[tokio::test]
async fn what_did_not_arrive_is_sent_again_with_the_same_id() {
    let (crm, url) = Receiver::start().await;
    let shop = shop([webhook("crm", &url)]).await;
    shop.paid("A-1").await;
    crm.answer(&[500, 429, 404, 302, 301, 199]);
    assert_eq!(work(&shop.delivery).await, (1, 1, 0), "the e-mail does not wait for the webhook");
    for _ in 0..5 {
        shop.clock.advance(Duration::from_hours(13));
        assert_eq!(work(&shop.delivery).await, (0, 1, 0));
    }
    shop.clock.advance(Duration::from_hours(13));
    assert_eq!(work(&shop.delivery).await, (1, 0, 0));
    let times: Vec<_> =
        crm.requests.lock().unwrap().iter().map(|(headers, _)| headers["webhook-timestamp"].clone()).collect();
    let told = crm.received(SECRET);
    assert_eq!(told.len(), 7, "redirects are not followed");
    assert!(told.iter().all(|(id, body)| *id == told[0].0 && body["timestamp"] == "2026-11-21T10:00:00Z"));
    assert!(times.is_sorted() && times.first() != times.last(), "each attempt is signed for its own time");
}

/// A webhook that waits is no e-mail that failed.
#[tokio::test]
async fn the_setup_page_says_why_an_email_was_not_sent_and_nothing_of_webhooks() {
    const LINE: &str = "The newest e-mail that was not sent";
    let (crm, url) = Receiver::start().await;
    let webhooks = Webhooks::new([webhook("crm", &url)]).unwrap();
    let shop = Shop::with(|builder| desk(builder).webhooks(webhooks)).await;
    for (order, behaviour, is_said) in [("A-1", Behaviour::Accept, false), ("A-2", Behaviour::FailTransient, true)] {
        crm.answer(&[500, 500]);
        shop.mailer.otherwise(behaviour);
        shop.paid(order).await;
        assert!(work(&shop.delivery).await.1 > 0, "a webhook is deferred");
        assert_eq!(get(&shop, Page::Setup).await.contains(LINE), is_said, "{order}");
    }
    // Many webhooks that wait do not hide it.
    for _ in 0..150 {
        let email = "ada@example.com".parse().unwrap();
        shop.delivery.issue_by_hand(shop.product.id(), email, OwnTerms::default(), false).await.unwrap();
    }
    assert!(get(&shop, Page::Setup).await.contains(LINE));
}

#[tokio::test]
async fn a_receiver_that_is_gone_fails_at_once_one_that_is_unknown_after_a_day_and_one_that_is_away_after_five() {
    let (crm, url) = Receiver::start().await;
    let (_nobody, address) = support::nobody();
    let away = format!("http://{address}/hooks");
    let store = Arc::new(MemoryStore::new());
    let shop = open(store.clone(), [webhook("crm", &url), webhook("away", &away), webhook("removed", &url)]).await;
    shop.paid("A-1").await;
    // The host starts again without one of them.
    let shop = open(store, [webhook("crm", &url), webhook("away", &away)]).await;
    crm.answer(&[410]);
    assert_eq!(work(&shop.delivery).await, (1, 2, 1));
    for _ in 0..36 {
        shop.clock.advance(Duration::from_hours(1));
        work(&shop.delivery).await;
    }
    let failed = shop.delivery.failed_messages(10).await.unwrap();
    let failed: Vec<_> = failed.iter().map(|it| (it.kind, it.recipient.to_string(), it.reason.clone())).collect();
    for expected in [
        (MessageKind::KeyIssued, "webhook:crm".to_owned(), "the receiver is gone (410)".to_owned()),
        (MessageKind::KeyIssued, "webhook:removed".to_owned(), "there is no webhook called removed".to_owned()),
    ] {
        assert!(failed.contains(&expected), "{failed:?}");
    }
    // Its clock is its own.
    let later = self::shop([webhook("away", &away)]).await;
    later.paid("A-1").await;
    let mut worked = Vec::new();
    for _ in 0..=5 * 24 {
        worked.push(work(&later.delivery).await);
        later.clock.advance(Duration::from_hours(1));
    }
    assert_eq!(worked.iter().map(|(_, _, failed)| failed).sum::<usize>(), 1);
    assert!(worked.iter().map(|(_, deferred, _)| deferred).sum::<usize>() >= 10);
    let failed = later.delivery.failed_messages(10).await.unwrap();
    assert_eq!(failed[0].reason, "the receiver cannot be reached");
}

/// Time is the runtime's: nobody waits for twenty seconds.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused")]
async fn a_receiver_that_does_not_answer_is_left_after_twenty_seconds() {
    let (listener, url) = listen().await;
    let shop = shop([webhook("slow", &url)]).await;
    shop.paid("A-1").await;
    let started = tokio::time::Instant::now();
    // A paused clock stands still while somebody is busy: here until the receiver has its connection.
    let accepting = async {
        loop {
            if let Some(accepted) = listener.accept().now_or_never() {
                return accepted.unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let mut working = Box::pin(work(&shop.delivery));
    let _connection = tokio::select! {
        worked = &mut working => panic!("{worked:?}"),
        connection = accepting => connection,
    };
    assert_eq!(working.await, (1, 1, 0));
    assert!((20..22).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
}

/// It answers 200, and goes on talking.
#[tokio::test]
async fn an_answer_that_does_not_end_is_an_answer() {
    let (listener, url) = listen().await;
    let app = Router::new().fallback(|| async {
        let endless = futures_util::stream::pending::<Result<Bytes, std::convert::Infallible>>();
        axum::body::Body::from_stream(endless)
    });
    serve(listener, app);
    let shop = shop([webhook("talkative", &url)]).await;
    shop.paid("A-1").await;
    assert_eq!(work(&shop.delivery).await, (2, 0, 0));
}

/// Its messages would take every place of those that are sent at once.
#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused")]
async fn a_receiver_that_does_not_answer_delays_no_email() {
    let (_listener, url) = listen().await;
    let shop = shop([webhook("slow", &url)]).await;
    let sell = async |from: u32| {
        for order in from..from + 40 {
            shop.paid(&order.to_string()).await;
        }
    };
    sell(0).await;
    let started = tokio::time::Instant::now();
    assert_eq!(work(&shop.delivery).await, (40, 40, 0));
    assert!(started.elapsed().as_secs() < 25, "they wait together: {:?}", started.elapsed());
    let started = tokio::time::Instant::now();
    sell(100).await;
    assert_eq!(work(&shop.delivery).await, (40, 40, 0));
    assert!(started.elapsed().as_secs() < 1, "it is left alone: {:?}", started.elapsed());
}

/// It answers every request, and late.
#[tokio::test]
async fn a_receiver_that_is_slow_gets_no_more_than_it_can_have_at_once_and_delays_no_email() {
    const PLACES: usize = 24;
    let (arrived, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (listener, url) = listen().await;
    let (count, held) = (arrived.clone(), gate.clone());
    let app = Router::new().fallback(move || async move {
        count.fetch_add(1, Ordering::SeqCst);
        held.acquire().await.unwrap().forget();
    });
    serve(listener, app);
    let shop = shop([webhook("slow", &url)]).await;
    for order in 0..60 {
        shop.paid(&order.to_string()).await;
    }
    let outbox = shop.delivery.maintenance().outbox();
    let working = tokio::spawn(async move { outbox.work().await.unwrap() });
    let all_are_there = async {
        while arrived.load(Ordering::SeqCst) < PLACES || shop.mailer.accepted().len() < 60 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), all_are_there).await.expect("requests and e-mails");
    assert!(!working.is_finished());
    gate.add_permits(1000);
    let worked = working.await.unwrap();
    assert!(worked.sent >= 60 + PLACES && worked.failed == 0, "{worked:?}");
    assert_eq!(worked.sent + worked.deferred, 120);
    // The others were not tried: they come a minute later.
    shop.clock.advance(Duration::from_mins(1));
    let mut sent = worked.sent;
    for _ in 0..60 {
        sent += work(&shop.delivery).await.0;
        shop.clock.advance(Duration::from_mins(1));
    }
    assert_eq!(sent, 120);
    assert_eq!(arrived.load(Ordering::SeqCst), 60);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_in_a_transaction_of_the_host_is_told_once_it_is_committed() {
    let (crm, url) = Receiver::start().await;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(folder.path().join("shop.db")).await.unwrap());
    let shop = open(store.clone(), [webhook("crm", &url)]).await;
    for (commit, sent) in [(false, 0), (true, 1)] {
        let sale = shop.delivery.prepare(paid("A-1")).await.unwrap();
        let delivery = shop.delivery.clone();
        let sold = store.transaction(move |mut transaction| {
            Box::pin(async move {
                let issued = delivery.issue_in(&mut transaction, &sale).await.unwrap();
                if commit { Ok(issued) } else { Err(StoreError::Unsupported) }
            })
        });
        let sold = sold.await;
        assert_eq!(sold.is_ok(), commit);
        let _ = sold.map(Uncommitted::committed);
        work(&shop.delivery).await;
        assert_eq!((crm.received(SECRET).len(), shop.mailer.accepted().len()), (sent, sent));
    }
}
