//! The fairing in a host: when it launches and when it does not, and what it does at lift-off and shutdown.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delivery_core::Delivery;
use delivery_core::delivery::Settings;
use delivery_core::mail::Mailer;
use delivery_core::product::NewProduct;
use delivery_rocket::{DeliveryFairing, Grant};
use delivery_testing::{MemoryStore, RecordingMailer};
use rocket::error::ErrorKind;
use rocket::figment::providers::{Format, Toml};
use rocket::http::Status;
use rocket::local::asynchronous::Client;
use rocket::{Build, Rocket, State, catch, catchers, get, routes};

use super::calls::{Gate, SECRET, order, quiet};

fn delivery(store: &Arc<MemoryStore>, mailer: Arc<dyn Mailer>, key_secret: &str) -> Delivery {
    let builder = Delivery::builder(store.clone(), mailer, key_secret.parse().unwrap());
    builder.webhook_secret(SECRET.parse().unwrap()).admin_token("the-seller's-token".parse().unwrap()).build()
}

/// A service that sells nothing yet.
fn service() -> Delivery {
    delivery(&Arc::default(), Arc::new(RecordingMailer::default()), "a secret of the host")
}

/// A client of this host with that service.
async fn client(rocket: Rocket<Build>) -> Client {
    Client::untracked(rocket.attach(DeliveryFairing::new(service()))).await.unwrap()
}

#[get("/guarded")]
#[expect(clippy::needless_pass_by_value, reason = "Rocket passes guards by value")]
fn guarded(grant: Grant) -> String {
    grant.key().used().to_string()
}

#[get("/managed")]
fn managed(delivery: &State<Delivery>) -> String {
    format!("{:?}", delivery.inner()).chars().take(8).collect()
}

#[tokio::test]
async fn a_guard_without_the_fairing_aborts_the_launch() {
    let rocket = rocket::custom(quiet()).mount("/", routes![guarded]);
    let refused = rocket.ignite().await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::SentinelAborts(_)), "{refused}");
}

#[tokio::test]
async fn the_service_is_managed_state_and_the_guard_has_it() {
    let client = client(rocket::custom(quiet()).mount("/", routes![guarded, managed])).await;
    assert_eq!(client.get("/managed").dispatch().await.into_string().await.unwrap(), "Delivery");
    assert_eq!(client.get("/guarded").dispatch().await.status(), Status::BadRequest);
}

/// A host's catchers see a refused guard, and what they make of it gives way to the API's own answer.
#[tokio::test]
async fn catchers_of_the_host_do_not_hide_the_refusal() {
    #[catch(default)]
    fn page() -> &'static str {
        "<h1>Something went wrong</h1>"
    }
    let rocket = rocket::custom(quiet()).mount("/app", routes![guarded]).register("/app", catchers![page]);
    let client = client(rocket).await;
    let answer = client.get("/app/guarded?key=nonsense").dispatch().await;
    assert_eq!(answer.status(), Status::Unauthorized);
    assert!(answer.into_string().await.unwrap().contains("INVALID_KEY"));
    let other = client.get("/app/other").dispatch().await;
    assert_eq!(other.into_string().await.unwrap(), "<h1>Something went wrong</h1>");
}

#[tokio::test]
async fn a_store_made_with_another_secret_aborts_the_launch() {
    let store = Arc::default();
    let mailer = Arc::new(RecordingMailer::default());
    delivery(&store, mailer.clone(), "a secret of the host").register().await.unwrap();
    let foreign = DeliveryFairing::new(delivery(&store, mailer, "some other secret"));
    let refused = rocket::custom(quiet()).attach(foreign).ignite().await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::FailedFairings(_)), "{refused}");
}

/// What a host answers below an endpoint's path is the host's: its own errors, and refusals of its guards.
#[tokio::test]
async fn the_hosts_routes_below_an_endpoint_are_its_own() {
    #[get("/<id>")]
    fn one(id: u16) -> Result<&'static str, Status> {
        if id == 1 { Ok("one") } else { Err(Status::new(id)) }
    }
    #[get("/<_>/guarded")]
    fn below(_grant: Grant) -> &'static str {
        "in"
    }
    #[catch(404)]
    fn missing() -> &'static str {
        "the host's own page"
    }
    let rocket = rocket::custom(quiet()).mount("/api/products", routes![one, below]).register("/", catchers![missing]);
    let client = client(rocket).await;
    for (path, status, body) in [
        ("/api/products", 200, "{\"products\":[]}"),
        ("/api/products/1", 200, "one"),
        ("/api/products/503", 503, "Service Unavailable"),
        ("/api/products/400", 400, "Bad Request"),
        ("/api/products/1/guarded", 400, "MISSING_PARAMS"),
        ("/api/products/1/more", 404, "the host's own page"),
        ("/api/products/", 404, "the host's own page"),
        ("//api/products", 404, "the host's own page"),
    ] {
        let answer = client.get(path).dispatch().await;
        let (answered, said) = (answer.status().code, answer.into_string().await.unwrap());
        assert!(answered == status && said.contains(body), "{path}: {answered} {said}");
    }
}

#[tokio::test]
async fn a_base_that_is_no_path_aborts_the_launch_and_a_service_that_is_managed_already_does_not() {
    let delivery = service();
    let bases = ["/shop", "/shop/", "/", ""].map(|base| (base, true));
    let others = ["shop", "//shop", "/<x>", "/a?b"].map(|base| (base, false));
    for (base, good) in bases.into_iter().chain(others) {
        let rocket = rocket::custom(quiet()).manage(delivery.clone());
        let launched = rocket.attach(DeliveryFairing::new(delivery.clone()).at(base)).ignite().await;
        let refused = launched.as_ref().err().map(|error| matches!(error.kind(), ErrorKind::FailedFairings(_)));
        assert_eq!(refused, (!good).then_some(true), "{base}");
    }
}

const SETTINGS: &str = "[default.delivery]\nwebhook_secret = \"the platform's secret\"\n\
    admin_token = \"the-seller's-token\"\nkey_secret = [\"the newer secret\", \"the older secret\"]\n";

/// As Rocket reads `Rocket.toml`: tables are profiles.
fn configured(more: &str) -> Rocket<Build> {
    let fairing = DeliveryFairing::configured(|settings: Settings| async {
        Ok(settings.builder(Arc::new(MemoryStore::new()), Arc::new(RecordingMailer::default())).build())
    });
    let toml = Toml::string(&format!("{SETTINGS}{more}"));
    rocket::custom(quiet().merge(toml.nested())).attach(fairing.at("/shop/"))
}

#[tokio::test]
async fn settings_come_from_rockets_configuration() {
    let more = "limit_validate = 1\nstripe_secret = \"whsec_1\"\naccept_test_events = true\n";
    let client = Client::untracked(configured(more)).await.unwrap();
    assert_eq!(client.post("/shop/api/webhook/stripe").dispatch().await.status(), Status::Unauthorized);
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(client.get("/shop/api/validate?key=nonsense").dispatch().await.status().code);
    }
    assert_eq!(answers, [401, 429]);
}

#[tokio::test]
async fn settings_that_make_no_sense_abort_the_launch() {
    let without_table = rocket::custom(quiet()).attach(DeliveryFairing::configured(|_| async { unreachable!() }));
    for rocket in [configured("limit_validate = 0\n"), without_table] {
        let refused = rocket.ignite().await.unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::FailedFairings(_)), "{refused}");
    }
}

#[tokio::test]
async fn messages_are_sent_from_lift_off_and_one_under_way_is_finished_at_shutdown() {
    let mailer = Gate::closed();
    let delivery = delivery(&Arc::default(), mailer.clone(), "a secret of the host");
    delivery.add_product(NewProduct::new("A").unwrap().content("a").unwrap()).await.unwrap();
    assert_eq!(order(&delivery, "A", 1).await.0, 200);
    let free = quiet().merge(("port", 0)).merge(("shutdown.ctrlc", false));
    let rocket = rocket::custom(free).attach(DeliveryFairing::new(delivery)).ignite().await.unwrap();
    let shutdown = rocket.shutdown();
    let launched = tokio::spawn(rocket.launch());
    mailer.begun.acquire().await.unwrap().forget();
    shutdown.notify();
    assert_eq!(mailer.accepted.load(Ordering::Relaxed), 0);
    mailer.allowed.add_permits(1);
    assert!(launched.await.unwrap().is_ok());
    assert_eq!(mailer.accepted.load(Ordering::Relaxed), 1, "the launch does not end before the e-mail is gone");
}
