//! A shop that answers, for the targets: with one product, a key that is good and one that is spent, and no limits to reach.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::delivery::Builder;
use delivery_core::http::{Call, Endpoint, Reply};
use delivery_core::key::{Keyring, Prefix};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::mail::{MailError, Mailer, Message};
use delivery_core::platform::{Gumroad, Secrets, Stripe};
use delivery_core::product::{NewProduct, ProductId};
use delivery_core::terms::{OwnTerms, UseLimit};
use delivery_testing::{ManualClock, MemoryStore, SeededEntropy};
use tokio::runtime::Runtime;

pub const SECRET: &str = "the-platforms-secret";
pub const TOKEN: &str = "the-sellers-own-token";

/// Takes every e-mail, and keeps the last one.
#[derive(Debug, Default)]
pub struct Latest(pub Mutex<Option<Message>>);

#[async_trait]
impl Mailer for Latest {
    async fn send(&self, message: &Message) -> Result<(), MailError> {
        *self.0.lock().unwrap() = Some(message.clone());
        Ok(())
    }
}

pub struct Shop {
    pub delivery: Delivery,
    pub mailer: Arc<Latest>,
    pub keyring: Keyring,
    /// Keys of the only product: a good one, and one whose only use is spent.
    pub good: String,
    pub spent: String,
    pub runtime: Runtime,
}

impl Shop {
    pub fn new() -> Self {
        Self::with(|builder| builder)
    }

    /// A shop that is built with a change.
    pub fn with(change: impl FnOnce(Builder) -> Builder) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mailer = Arc::new(Latest::default());
        let keyring = || Keyring::new(Prefix::default(), &["a secret for fuzzing".parse().unwrap()]).unwrap();
        let plenty = Quota::per_minute(u32::MAX).unwrap();
        let quotas = Quotas {
            product: plenty,
            validate: plenty,
            webhook: plenty,
            admin: plenty,
            failures: plenty,
            events: plenty,
            resend: plenty,
            desk: plenty,
            files: plenty,
        };
        let (webhook, admin) = (SECRET.parse().unwrap(), TOKEN.parse().unwrap());
        let secrets = Secrets::new([SECRET]).unwrap();
        let store = Arc::new(MemoryStore::new());
        let builder = Delivery::builder(store, mailer.clone(), keyring())
            .webhook_secret(webhook)
            .admin_token(admin)
            .platform(Stripe::new(&secrets))
            .platform(Gumroad::new(&secrets).unwrap())
            // It stands still: an answer depends on what was asked alone.
            .clock(Arc::new(ManualClock::default()))
            .entropy(Arc::new(SeededEntropy::new(1)))
            .quotas(quotas);
        let delivery = change(builder).build();
        let (good, spent) = runtime.block_on(async {
            delivery.add_product(NewProduct::new("Guide").unwrap().content("# Guide").unwrap()).await.unwrap();
            let key = async |limit: UseLimit| {
                let (product, email) = (ProductId::new(1).unwrap(), "a@example.com".parse().unwrap());
                let terms = OwnTerms { limit: Some(limit), ..OwnTerms::default() };
                delivery.issue_by_hand(product, email, terms, false).await.unwrap().text.expose().to_owned()
            };
            let good = key(UseLimit::Unlimited).await;
            let spent = key(UseLimit::from_count(1).unwrap()).await;
            let query = format!("product_id=1&key={spent}");
            Endpoint::Product.call(&delivery, Call::new(http::Method::GET).query(query)).await;
            (good, spent)
        });
        Self { delivery, mailer, keyring: keyring(), good, spent, runtime }
    }

    /// An answer that the endpoint is documented to give: JSON, a known status, and never a fault of ours.
    pub fn ask(&self, endpoint: Endpoint, call: Call) -> (Reply, serde_json::Value) {
        let reply = self.runtime.block_on(endpoint.call(&self.delivery, call));
        let status = reply.status().as_u16();
        let documented = endpoint.codes().iter().map(|code| code.status()).chain([200]).any(|known| known == status);
        assert!(documented && status < 500, "{status}");
        let answer: serde_json::Value = serde_json::from_slice(&reply.body()).unwrap();
        assert_eq!(answer["error"].is_null(), status == 200, "{answer}");
        (reply, answer)
    }
}

impl Default for Shop {
    fn default() -> Self {
        Self::new()
    }
}
