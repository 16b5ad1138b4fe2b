//! Secrets of platforms that the seller sets at the desk: on two servers, across restarts, and beside the settings.

use std::sync::Arc;
use std::time::Duration;

use delivery_core::Delivery;
use delivery_core::delivery::{Builder, SecretError};
use delivery_core::http::{Call, Endpoint, PlatformPath};
use delivery_core::key::Actor;
use delivery_core::ledger::Action;
use delivery_core::order::Source;
use delivery_core::platform::{LemonSqueezy, Secrets};
use delivery_core::store::{AuditQuery, PlatformSecrets, StoreError};
use delivery_testing::{Fault, Faulty, MemoryStore, Shop};
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, HeaderValue, Method};
use sha2::Sha256;

const PATH: &str = "/api/webhook/lemonsqueezy";

/// Reports a sale, signed with this secret. Returns the status of the answer.
pub async fn sale(delivery: &Delivery, order: &str, secret: &str) -> u16 {
    let body = format!(
        r#"{{"meta":{{"event_name":"order_created"}},"data":{{"type":"orders","id":"{order}","attributes":{{"status":"paid",
        "user_email":"ada@example.com","first_order_item":{{"variant_id":90210,"product_id":501,"quantity":1}}}}}}}}"#
    );
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&body).finalize();
    let signature = data_encoding::HEXLOWER.encode(&mac.into_bytes());
    let name = HeaderName::from_static("x-signature");
    let call = Call::new(Method::POST).header(name, HeaderValue::from_str(&signature).unwrap());
    let endpoint = Endpoint::Platform(PlatformPath::new(PATH).unwrap());
    endpoint.call(delivery, Call { body: body.into(), ..call }).await.status().as_u16()
}

async fn set(delivery: &Delivery, secret: Option<&str>) -> Result<(), SecretError> {
    let (actor, source): (Actor, Source) = (Actor::admin(), "lemonsqueezy".parse().unwrap());
    delivery.desk(&actor).set_platform_secret(&source, secret).await
}

async fn server(store: &Arc<MemoryStore>, build: impl FnOnce(Builder) -> Builder) -> Shop {
    Shop::over(store.clone(), build).await
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_set_at_one_server_is_used_by_both_at_once_and_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let [one, other] = [server(&store, |it| it).await, server(&store, |it| it).await];
    let running = other.delivery.start().await.unwrap();
    assert_eq!(sale(&other.delivery, "1", "a secret").await, 404, "the platform has no secret yet");
    set(&one.delivery, Some(" a secret ")).await.unwrap();
    assert_eq!((sale(&one.delivery, "1", "a secret").await, sale(&other.delivery, "2", "a secret").await), (200, 200));
    assert_eq!(sale(&other.delivery, "3", "another secret").await, 401);
    set(&one.delivery, Some("another secret")).await.unwrap();
    assert_eq!(sale(&one.delivery, "4", "a secret").await, 401, "it was replaced");
    assert_eq!(sale(&other.delivery, "3", "another secret").await, 200);
    let third = server(&store, |it| it).await;
    assert_eq!(sale(&third.delivery, "4", "another secret").await, 200);
    set(&one.delivery, None).await.unwrap();
    assert_eq!(sale(&one.delivery, "5", "another secret").await, 404);
    // Others notice a removal within five seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(sale(&other.delivery, "5", "another secret").await, 404);
    running.stop().await;
}

/// The platform signs with the new secret before the seller has set it.
#[tokio::test(start_paused = true)]
async fn an_authentic_event_is_accepted_after_ever_so_many_that_were_refused() {
    let store = Arc::new(MemoryStore::new());
    let [one, other] = [server(&store, |it| it).await, server(&store, |it| it).await];
    set(&one.delivery, Some("an old secret")).await.unwrap();
    let mut refused = Vec::new();
    for _ in 0..40 {
        refused.push(sale(&other.delivery, "1", "a new secret").await);
    }
    assert_eq!((refused[0], refused[39]), (401, 429));
    set(&one.delivery, Some("a new secret")).await.unwrap();
    assert_eq!(sale(&other.delivery, "1", "a new secret").await, 200);
}

#[tokio::test]
async fn an_event_is_sent_again_where_nobody_can_tell_whether_it_is_authentic() {
    let store = Arc::new(MemoryStore::new());
    let faulty = Arc::new(Faulty::new(store.clone()));
    let [one, other] = [server(&store, |it| it).await, Shop::over(faulty.clone(), |it| it).await];
    set(&one.delivery, Some("a secret")).await.unwrap();
    faulty.otherwise(Fault::Before(StoreError::unavailable("away")));
    assert_eq!(sale(&other.delivery, "1", "a secret").await, 503, "it cannot read the secret");
    faulty.heal();
    assert_eq!(sale(&other.delivery, "1", "a secret").await, 200);
}

/// While the store does not answer, strangers send more than the memory budget, each body complete and without a
/// signature.
#[tokio::test(start_paused = true)]
async fn bodies_that_wait_for_the_store_keep_to_the_memory_budget() {
    let store = Arc::new(MemoryStore::new());
    let faulty = Arc::new(Faulty::new(store.clone()));
    let one = server(&store, |it| it).await;
    let other = Shop::over(faulty.clone(), |it| it.body_budget(4 << 20)).await;
    set(&one.delivery, Some("a secret")).await.unwrap();
    assert_eq!(sale(&other.delivery, "1", "a secret").await, 200);
    set(&one.delivery, Some("a new secret")).await.unwrap();
    faulty.then(Fault::Hang);
    let mut waiting: Vec<_> = (0..6)
        .map(|_| {
            let delivery = other.delivery.clone();
            tokio::spawn(async move {
                let call = Call { body: vec![b'x'; 1 << 20].into(), ..Call::new(Method::POST) };
                let endpoint = Endpoint::Platform(PlatformPath::new(PATH).unwrap());
                endpoint.call(&delivery, call).await.status().as_u16()
            })
        })
        .collect();
    let delivery = other.delivery.clone();
    waiting.push(tokio::spawn(async move { sale(&delivery, "2", "a new secret").await }));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sale(&other.delivery, "3", "a secret").await, 200, "it waits for no secret");
    // The first one is gone, and with it the read that hangs.
    waiting.remove(0).abort();
    let mut answered = Vec::new();
    for waiting in waiting {
        answered.push(waiting.await.unwrap());
    }
    assert_eq!(answered, [503, 503, 401, 401, 401, 200], "the oldest have given way");
}

#[tokio::test]
async fn the_settings_of_the_server_take_precedence() {
    let store = Arc::new(MemoryStore::new());
    let given = LemonSqueezy::new(&Secrets::new(["from the settings"]).unwrap());
    let [free, bound] = [server(&store, |it| it).await, server(&store, |it| it.platform(given)).await];
    set(&free.delivery, Some("from the desk")).await.unwrap();
    assert!(matches!(set(&bound.delivery, Some("x")).await, Err(SecretError::InSettings)));
    assert_eq!(
        (sale(&bound.delivery, "1", "from the settings").await, sale(&bound.delivery, "2", "from the desk").await),
        (200, 401)
    );
    // What was set at the desk can be removed all the same: it would be used again once the settings have none.
    set(&bound.delivery, None).await.unwrap();
    assert!(store.platform_secrets().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_store_and_the_audit_log_do_not_have_the_secret() {
    let store = Arc::new(MemoryStore::new());
    let shop = server(&store, |it| it).await;
    set(&shop.delivery, Some("a secret of the platform")).await.unwrap();
    let kept = store.platform_secrets().await.unwrap();
    assert_eq!(kept.len(), 1);
    assert!(!String::from_utf8_lossy(&kept[0].sealed).contains("secret"));
    let actor = Actor::admin();
    let log = shop.delivery.desk(&actor).audit(&AuditQuery { limit: 10, ..AuditQuery::default() }).await.unwrap().items;
    let set = log.iter().find(|entry| entry.action == Action::PlatformSecretSet).unwrap();
    assert_eq!((set.actor.as_str(), set.detail.as_deref()), ("admin", Some("lemonsqueezy")));
}

/// Lets a server run for a while.
async fn encrypts_anew(server: &Delivery) {
    let running = server.start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    running.finish_sending().await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_outlives_the_removal_of_the_signing_secret_that_sealed_it() {
    let store = Arc::new(MemoryStore::new());
    let with = |secrets: &'static str| {
        let store = store.clone();
        async move {
            let keyring = secrets.parse().unwrap();
            let mailer = Arc::new(delivery_testing::RecordingMailer::default());
            Delivery::builder(store, mailer, keyring).admin_token("the-seller's-token".parse().unwrap()).build()
        }
    };
    let old = with("an old signing secret").await;
    set(&old, Some("a secret")).await.unwrap();
    let new = with("a new signing secret").await;
    assert_eq!(sale(&new, "1", "a secret").await, 503, "it cannot be decrypted");
    // Servers of either order encrypt it anew when they start, and not again and again.
    let both = with("a new signing secret,an old signing secret").await;
    encrypts_anew(&both).await;
    let sealed = store.platform_secrets().await.unwrap();
    encrypts_anew(&both).await;
    assert!(store.platform_secrets().await.unwrap() == sealed);
    assert_eq!(sale(&both, "1", "a secret").await, 200);
    let new = with("a new signing secret").await;
    assert_eq!(sale(&new, "2", "a secret").await, 200);
}
