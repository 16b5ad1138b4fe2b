//! A shop with two products and a key in every condition, the same each time.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use delivery_core::Delivery;
use delivery_core::delivery::{FileLink, Issued};
use delivery_core::http::{Call, Endpoint, Page, Reply};
use delivery_core::key::{Actor, Denied, Key, Keyring, Prefix, Rule};
use delivery_core::limit::{Quota, Quotas};
use delivery_core::look::Look;
use delivery_core::object_store::memory::InMemory;
use delivery_core::platform::{Gumroad, Secrets, Stripe, WooCommerce};
use delivery_core::post::NewPost;
use delivery_core::product::{NewProduct, ProductId, Refs};
use delivery_core::store::{InboxQuery, KeyQuery, MessageQuery};
use delivery_core::terms::{OwnTerms, UseLimit, Validity};
use delivery_testing::{Fault, Faulty, ManualClock, MemoryStore, RecordingMailer, SeededEntropy};
use http::{HeaderName, Method, Request, Response, header};

use crate::host::{self, Framework, Host, Stop};

pub struct Shop {
    pub delivery: Delivery,
    pub mailer: Arc<RecordingMailer>,
    pub clock: Arc<ManualClock>,
    host: Host,
    pub store: Arc<Faulty<MemoryStore>>,
    fault: Fault,
    texts: Vec<(&'static str, String)>,
}

/// What the host's own rule says.
pub const ONCE: Denied = Denied::new("ONCE", "This key can be used once.");

/// Keys with a limit of 777 uses can be used once.
#[derive(Debug)]
struct Once;

impl Rule for Once {
    fn judge(&self, key: &Key, _at: DateTime<Utc>) -> Result<(), Denied> {
        if key.limit().as_count() == 777 && key.used() > 1 { Err(ONCE) } else { Ok(()) }
    }
}

const SECRET: &str = "the platform's secret";
const TOKEN: &str = "the-seller's-token";

/// A shop that listens on a port of its own, with quotas that a short session reaches.
pub struct Served {
    pub shop: Shop,
    pub address: SocketAddr,
    pub stop: Stop,
}

impl Shop {
    pub async fn serve(framework: Framework) -> Served {
        let three = Quota::per_minute(3).unwrap();
        let quotas = Quotas {
            product: three,
            validate: three,
            webhook: three,
            admin: three,
            failures: three,
            events: three,
            resend: three,
            desk: three,
            files: three,
        };
        let shop = Self::open_with(framework, Fault::None, quotas).await;
        let (address, end) = host::serve(framework, shop.delivery.clone()).await;
        Served { shop, address, stop: end }
    }

    pub async fn open(framework: Framework, fault: Fault) -> Self {
        Self::open_with(framework, fault, Quotas::default()).await
    }

    async fn open_with(framework: Framework, fault: Fault, quotas: Quotas) -> Self {
        let clock = Arc::new(ManualClock::default());
        let mailer = Arc::new(RecordingMailer::default());
        let keyring = Keyring::new(Prefix::default(), &["a secret for snapshots".parse().unwrap()]).unwrap();
        let (webhook, admin) = (SECRET.parse().unwrap(), TOKEN.parse().unwrap());
        let store = Arc::new(Faulty::new(Arc::new(MemoryStore::new())));
        let delivery = Delivery::builder(store.clone(), mailer.clone(), keyring)
            .webhook_secret(webhook)
            .admin_token(admin)
            .platform(Gumroad::new(&secrets("the-platforms-token")).unwrap())
            .platform(WooCommerce::new(&secrets("the shop's secret")))
            .platform(Stripe::new(&secrets("whsec_secret")))
            .clock(clock.clone())
            .entropy(Arc::new(SeededEntropy::new(1)))
            .quotas(quotas)
            .rule(Arc::new(Once))
            .pages(Look::default())
            .files(Arc::new(InMemory::new()))
            .max_file_size(1000)
            .trusted_proxies(vec!["10.0.0.0/8".parse().unwrap()])
            .build();
        let texts = stock(&delivery, &clock).await;
        let host = Host::open(framework, delivery.clone()).await;
        store.otherwise(fault.clone());
        Self { delivery, mailer, clock, host, store, fault, texts }
    }

    /// Fills in `{VALID}`, `{ADMIN}` and the like.
    pub fn fill(&self, text: &str) -> String {
        self.texts.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// Opens the sign-in form of the desk, and signs in, for `{FORM}`, `{FORM_CSRF}`, `{SESSION}` and `{CSRF}`.
    pub async fn sign_in(&mut self) {
        self.store.heal();
        let reply = Endpoint::Page(Page::SignIn).call(&self.delivery, Call::new(Method::GET)).await;
        let (form, csrf) = (cookie(&reply), csrf(&reply));
        let sent = Call { body: format!("csrf={csrf}&token={TOKEN}").into(), ..Call::new(Method::POST) };
        let sent = [("origin", "http://localhost"), ("cookie", &format!("desk-form={form}")), FORM]
            .into_iter()
            .fold(sent, |call, (name, value)| call.header(HeaderName::from_static(name), value.parse().unwrap()));
        let session = cookie(&Endpoint::Page(Page::SignIn).call(&self.delivery, sent).await);
        let call = Call::new(Method::GET).header(header::COOKIE, format!("desk={session}").parse().unwrap());
        let shown = Endpoint::Page(Page::Erase).call(&self.delivery, call).await;
        let texts = [("FORM", form), ("FORM_CSRF", csrf), ("SESSION", session), ("CSRF", self::csrf(&shown))];
        self.texts.extend(texts);
        self.store.otherwise(self.fault.clone());
    }

    /// Sends a request from `peer`, and writes the answer down, headers in order.
    pub async fn send(&self, request: Request<String>, peer: &str) -> String {
        // Without one the server does not say who is calling.
        let peer = (!peer.is_empty()).then(|| peer.parse().unwrap());
        written(&self.host.send(request, peer).await)
    }

    /// Fills in the ids of the newest message and event from now on.
    pub async fn look(&mut self) {
        self.store.heal();
        let admin = Actor::admin();
        let messages = MessageQuery { limit: 1, ..MessageQuery::default() };
        let messages = self.delivery.desk(&admin).messages(&messages).await.unwrap().items;
        let events = InboxQuery { limit: 1, ..InboxQuery::default() };
        let events = self.delivery.events(&events).await.unwrap().items;
        self.texts.extend(messages.first().map(|message| ("MESSAGE", message.message.get().to_string())));
        let product = self.delivery.product(ProductId::new(1).unwrap()).await.unwrap().unwrap();
        let key = self.delivery.validate(&self.fill("{VALID}")).await;
        // The first link stays, also when its file is replaced.
        if let (Ok(key), false) = (key, self.texts.iter().any(|(name, _)| *name == "LINK")) {
            let links = self.delivery.file_links(&key, &product);
            let path = |link: &FileLink| link.url.strip_prefix("http://localhost").unwrap().to_owned();
            self.texts.extend(links.first().map(|link| ("LINK", path(link))));
        }
        self.texts.extend(events.first().map(|event| ("EVENT", event.number.to_string())));
        self.store.otherwise(self.fault.clone());
    }

    /// What there is: uses, keys, e-mails. The store is well while it is asked.
    pub async fn effects(&self) -> String {
        self.store.heal();
        let keys = self.delivery.keys(&KeyQuery { limit: 1000, ..KeyQuery::default() }).await.unwrap().items;
        let uses: u64 = keys.iter().map(delivery_core::key::Key::used).sum();
        self.delivery.maintenance().outbox().work().await.unwrap();
        // A lease may have ended between two requests of a test, whose clock runs faster than the outbox: that is a copy.
        let sent: BTreeSet<_> =
            self.mailer.accepted().into_iter().map(|message| message.message_id.to_string()).collect();
        self.store.otherwise(self.fault.clone());
        format!("{} keys, {uses} uses, {} e-mails", keys.len(), sent.len())
    }
}

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// The value of the cookie that an answer sets.
fn cookie(reply: &Reply) -> String {
    let (_, set) = reply.headers().iter().find(|(name, _)| **name == header::SET_COOKIE).expect("a cookie");
    set.to_str().unwrap().split([';', '=']).nth(1).unwrap().to_owned()
}

/// What the forms of a page carry.
fn csrf(reply: &Reply) -> String {
    let page = reply.body();
    let page = std::str::from_utf8(&page).unwrap();
    page.split("name=\"csrf\" value=\"").nth(1).expect("a form").split('"').next().unwrap().to_owned()
}

fn secrets(secret: &str) -> Secrets {
    Secrets::new([secret]).unwrap()
}

fn written(answer: &Response<String>) -> String {
    let header =
        |(name, value): (&http::HeaderName, &http::HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let mut headers: Vec<String> = answer.headers().iter().map(header).collect();
    headers.sort();
    format!("{}\n{}\n\n{}", answer.status(), headers.join("\n"), answer.body())
}

async fn stock(delivery: &Delivery, clock: &ManualClock) -> Vec<(&'static str, String)> {
    let guide = NewProduct::new("Field Guide").unwrap().content("# Birds\n\n\"Quoted\" & <b>bold</b> 🐦").unwrap();
    delivery.add_product(guide.description("All birds").unwrap().price("9.90".parse().unwrap())).await.unwrap();
    let terms = OwnTerms { validity: Validity::from_days(30).ok(), limit: UseLimit::from_count(5).ok() };
    let map = NewProduct::new("Map").unwrap().content("# Map").unwrap().kind("map").unwrap().terms(terms);
    let map = map.refs(Refs::new([("gumroad".parse().unwrap(), "map".parse().unwrap())]).unwrap());
    delivery.add_product(map).await.unwrap();
    for (title, category) in [("Spring", "news"), ("Autumn", "news"), ("How to look", "tips")] {
        clock.advance(Duration::from_secs(1));
        let now = delivery_core::Clock::now(clock);
        let post = NewPost::new(title, category.parse().unwrap(), now).unwrap();
        delivery.add_post(post.content("# Text").unwrap()).await.unwrap();
    }
    let issue = async |days, uses| -> Issued {
        let terms = OwnTerms { validity: Validity::from_days(days).ok(), limit: UseLimit::from_count(uses).ok() };
        let (product, email) = (ProductId::new(1).unwrap(), "buyer@example.com".parse().unwrap());
        delivery.issue_by_hand(product, email, terms, false).await.unwrap()
    };
    let [expired, expired_spent] = [issue(1, -1).await, issue(1, 1).await];
    delivery.fetch(expired_spent.key.id(), ProductId::new(1).unwrap()).await.unwrap();
    clock.advance(Duration::from_hours(24));
    let [valid, limited, spent, revoked] =
        [issue(365, -1).await, issue(-1, 2).await, issue(365, 1).await, issue(365, -1).await];
    delivery.fetch(spent.key.id(), ProductId::new(1).unwrap()).await.unwrap();
    delivery.revoke(revoked.key.id()).await.unwrap();
    let text = |issued: &Issued| issued.text.expose().to_owned();
    let id = |issued: &Issued| issued.key.id().to_string();
    vec![
        ("VALID", text(&valid)),
        ("LIMITED", text(&limited)),
        ("SPENT", text(&spent)),
        ("EXPIRED", text(&expired)),
        ("EXPIRED_SPENT", text(&expired_spent)),
        ("REVOKED", text(&revoked)),
        ("FORGED", text(&valid).replace("dlv_0", "dlv_1").replace("dlv_2", "dlv_3")[..51].to_owned() + "z"),
        ("VALID_ID", id(&valid)),
        ("LIMITED_ID", id(&limited)),
        ("SPENT_ID", id(&spent)),
        ("REVOKED_ID", id(&revoked)),
        ("EXPIRED_ID", id(&expired)),
        ("SECRET", SECRET.to_owned()),
        ("ADMIN", TOKEN.to_owned()),
    ]
}
