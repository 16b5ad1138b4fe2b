//! What a host picks and adds: endpoints by choice, its own sign-in, and routes of its own that ask for a key. The same table for
//! both frameworks.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::{any, get};
use axum::{Extension, Router};
use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint, Grant};
use delivery_core::limit::{HostPolicy, Quota};
use delivery_core::product::NewProduct;
use delivery_rocket::DeliveryFairing;
use delivery_testing::{MemoryStore, RecordingMailer, Shop as Whole};
use http::{HeaderName, Method};
use rocket::{Build, Rocket};

use super::calls::{Axum, Host, OnRocket, Staff, header_of, product, quiet, uses};

/// A service with two products, and a key for each: one of two uses, one that is used up.
struct Shop {
    delivery: Delivery,
    key: String,
    used_up: String,
}

async fn shop() -> Shop {
    let (mailer, keyring) = (Arc::new(RecordingMailer::default()), "a secret for guards".parse().unwrap());
    let builder = Delivery::builder(Arc::new(MemoryStore::new()), mailer, keyring);
    let delivery = builder.seller(Arc::new(Staff::default())).build();
    for name in ["Guide", "Map"] {
        delivery.add_product(NewProduct::new(name).unwrap().content("# x").unwrap()).await.unwrap();
    }
    let issue = async |count| {
        let email = "a@example.com".parse().unwrap();
        let issued = delivery.issue_by_hand(product(1), email, uses(count), false).await.unwrap();
        (issued.key.id(), issued.text.expose().to_owned())
    };
    let ((_, key), (id, used_up)) = (issue(2).await, issue(1).await);
    delivery.count_use(id, product(1)).await.unwrap();
    Shop { delivery, key, used_up }
}

fn axum_app(delivery: &Delivery) -> Axum {
    use delivery_axum::{Grant, RequireKeyLayer};
    let used = async |grant: Extension<Grant>| grant.key().used().to_string();
    let guarded = |layer: RequireKeyLayer| Router::new().route("/book", get(used)).route("/", get(used)).layer(layer);
    let perhaps = async |grant: Option<Grant<Extension<Delivery>>>| match grant {
        Some(grant) => grant.key().email().to_string(),
        None => "nobody".to_owned(),
    };
    let counts = async |grant: Grant<Extension<Delivery>>| match grant.count_use(product(1)).await {
        Ok(key) => Ok(key.used().to_string()),
        Err(error) => Err(delivery_axum::GrantRejection::from(error)),
    };
    let app = Router::new()
        .nest("/any", guarded(RequireKeyLayer::new(delivery)))
        .nest("/guide", guarded(RequireKeyLayer::new(delivery).product(product(1))))
        .nest("/map", guarded(RequireKeyLayer::new(delivery).product(product(2))))
        .nest("/counted", guarded(RequireKeyLayer::new(delivery).product(product(1)).counting()))
        .nest(
            "/open",
            Router::new().route("/book", any(async || "served")).layer(RequireKeyLayer::new(delivery).counting()),
        )
        .route("/perhaps", get(perhaps))
        .route("/counts", get(counts))
        .layer(Extension(delivery.clone()))
        .merge(delivery_axum::router(delivery.clone()));
    Axum(app)
}

#[rocket::get("/<_..>")]
#[expect(clippy::needless_pass_by_value, reason = "Rocket passes guards by value")]
fn used(grant: delivery_rocket::Grant) -> String {
    grant.key().used().to_string()
}

/// Asks for nothing: the fairing alone is between it and a stranger.
#[rocket::get("/<_..>")]
fn served() -> &'static str {
    "served"
}

#[rocket::get("/perhaps")]
fn perhaps(grant: delivery_rocket::OptionalGrant) -> String {
    grant.0.map_or_else(|| "nobody".to_owned(), |grant| grant.key().email().to_string())
}

#[rocket::get("/counts")]
async fn counts(grant: delivery_rocket::Grant) -> Result<String, delivery_rocket::GrantRejection> {
    Ok(grant.count_use(product(1)).await?.used().to_string())
}

/// The API on Rocket.
fn fairing(delivery: &Delivery) -> Rocket<Build> {
    rocket::custom(quiet()).attach(DeliveryFairing::new(delivery.clone()))
}

async fn rocket_app(delivery: &Delivery) -> OnRocket {
    use delivery_rocket::RequireKey;
    let mut app = fairing(delivery)
        .attach(RequireKey::at("/any"))
        .attach(RequireKey::at("/guide").product(product(1)))
        .attach(RequireKey::at("/map").product(product(2)))
        .attach(RequireKey::at("/counted").product(product(1)).counting())
        .attach(RequireKey::at("/open").counting())
        .mount("/", rocket::routes![perhaps, counts])
        .mount("/open", rocket::routes![served]);
    for base in ["/any", "/guide", "/map", "/counted"] {
        app = app.mount(base, rocket::routes![used]);
    }
    OnRocket::launch(app).await
}

/// Both frameworks, each with a shop of its own.
async fn hosts() -> Vec<(&'static str, Shop, Box<dyn Host>)> {
    let (first, second) = (shop().await, shop().await);
    let axum: Box<dyn Host> = Box::new(axum_app(&first.delivery));
    let rocket: Box<dyn Host> = Box::new(rocket_app(&second.delivery).await);
    vec![("axum", first, axum), ("rocket", second, rocket)]
}

#[tokio::test]
async fn a_guarded_route_lets_only_requests_with_the_right_key_through() {
    for (framework, shop, host) in hosts().await {
        let forged = format!("{}0", &shop.key[..shop.key.len() - 1]);
        let forged = if forged == shop.key { format!("{}1", &shop.key[..shop.key.len() - 1]) } else { forged };
        let none = String::new();
        for (path, key, status, says) in [
            ("/any/book", &none, 400, "MISSING_PARAMS"),
            ("/any/book", &forged, 401, "INVALID_KEY"),
            ("/any/book", &shop.used_up, 403, "EXCEEDED_USES"),
            ("/any/book", &shop.key, 200, "0"),
            ("/guide/book", &none, 400, "MISSING_PARAMS"),
            ("/guide/book", &shop.key, 200, "0"),
            ("/guide/book", &shop.used_up, 403, "EXCEEDED_USES"),
            ("/map/book", &shop.key, 403, "WRONG_PRODUCT"),
            ("/counted/book", &forged, 401, "INVALID_KEY"),
            ("/counted/book", &shop.key, 200, "1"),
            ("/counted/book", &shop.key, 200, "2"),
            ("/counted/book", &shop.key, 403, "EXCEEDED_USES"),
        ] {
            let key = if key.is_empty() { vec![] } else { vec![("X-API-Key", key.clone())] };
            let (answered, body) = host.ask(Method::GET, path, &key, "").await;
            assert_eq!(answered, status, "{framework} {path} {body}");
            assert!(body.contains(says), "{framework} {path} {body}");
        }
    }
}

#[tokio::test]
async fn head_counts_no_use() {
    for (framework, shop, host) in hosts().await {
        let key = [("Authorization", format!("Bearer {}", shop.key))];
        for path in ["/counted/book", "/counts", "/counted/book", "/counts"] {
            assert_eq!(host.ask(Method::HEAD, path, &key, "").await.0, 200, "{framework} {path}");
        }
        assert_eq!(shop.delivery.validate(&shop.key).await.unwrap().used(), 0);
        assert_eq!(host.ask(Method::GET, "/counts", &key, "").await, (200, "1".to_owned()), "{framework}");
        let used_up = [("Authorization", format!("Bearer {}", shop.used_up))];
        assert_eq!(host.ask(Method::HEAD, "/counts", &used_up, "").await.0, 403, "{framework}");
    }
}

/// A ticket of a route of the host's own, and a limit of the host's own.
#[tokio::test]
async fn a_route_gives_tickets_for_one_use_each_and_has_a_limit_of_its_own() {
    const DOWNLOADS: HostPolicy = HostPolicy::new("downloads");
    let shop = Whole::new().await;
    let sold = shop.paid("A-1").await;
    let grant = async |method| {
        let call = Call::new(method).header(HeaderName::from_static("x-api-key"), sold.text.expose().parse().unwrap());
        Grant::of(&shop.delivery, &call).await.unwrap()
    };
    let hour = Duration::from_hours(1);
    let ticket = grant(Method::GET).await.open(product(1), "guide.pdf", hour).await.unwrap();
    let used = async || shop.delivery.key(sold.key.id()).await.unwrap().unwrap().used();
    for (name, after, is_valid) in
        [("guide.pdf", 0, true), ("other.pdf", 0, false), ("guide.pdf", 3599, true), ("guide.pdf", 1, false)]
    {
        shop.clock.advance(Duration::from_secs(after));
        assert_eq!(shop.delivery.check_ticket(&ticket, name).await.is_ok(), is_valid, "{name}");
    }
    assert_eq!(used().await, 1);
    let ended = grant(Method::HEAD).await.open(product(1), "guide.pdf", hour).await.unwrap();
    assert!(shop.delivery.check_ticket(&ended, "guide.pdf").await.is_err());
    assert_eq!(used().await, 1, "HEAD counts no use");
    let other = grant(Method::GET).await.open(product(2), "map.pdf", hour).await;
    assert!(other.is_err(), "a key of another product opens nothing");

    let day = Quota::new(2, Duration::from_hours(24)).unwrap();
    let admitted = async || grant(Method::GET).await.limit(DOWNLOADS, day).await;
    assert!(admitted().await.is_ok() && admitted().await.is_ok());
    let refused = admitted().await.unwrap_err();
    assert_eq!((refused.status().as_u16(), header_of(&refused, "retry-after")), (429, Some("86400")));
    assert_eq!(header_of(&refused, "ratelimit-policy"), Some("\"downloads\";q=2;w=86400"));
    shop.clock.advance(Duration::from_hours(24));
    assert!(admitted().await.is_ok());
    let other = grant(Method::GET).await.limit(HostPolicy::new("previews"), day).await;
    assert!(other.is_ok(), "a limit of another name");
    // Each quota of a limit has its own count: the shorter one does not forget for the longer one.
    let minute = Quota::new(1, Duration::from_mins(1)).unwrap();
    let both = async || {
        let grant = grant(Method::GET).await;
        (grant.limit(DOWNLOADS, minute).await.is_ok(), grant.limit(DOWNLOADS, day).await.is_ok())
    };
    assert_eq!(both().await, (true, true));
    shop.clock.advance(Duration::from_mins(1));
    assert_eq!(both().await, (true, false));
}

#[test]
fn a_quota_has_a_window_of_a_second_to_a_year() {
    for (limit, seconds, is_one) in
        [(1, 1, true), (u32::MAX, 366 * 86_400, true), (0, 60, false), (1, 0, false), (1, 366 * 86_400 + 1, false)]
    {
        assert_eq!(Quota::new(limit, Duration::from_secs(seconds)).is_ok(), is_one, "{limit} in {seconds} s");
    }
}

/// However a path is written, it is guarded if it leads to a guarded route.
#[tokio::test]
async fn no_spelling_of_a_path_leads_around_the_guard() {
    for (framework, shop, host) in hosts().await {
        for path in ["/open/book", "//open/book", "/open//book", "/%6Fpen/book", "/open/b%6Fok", "/open/", "/open"] {
            for method in [Method::GET, Method::HEAD, Method::POST, Method::OPTIONS] {
                let (status, body) = host.ask(method.clone(), path, &[], "").await;
                assert!(
                    [400, 404].contains(&status) && !body.contains("served"),
                    "{framework} {method} {path} {status}"
                );
            }
        }
        // With a key it is served, and counted.
        let key = [("X-API-Key", shop.key.clone())];
        assert_eq!(host.ask(Method::GET, "/open/book", &key, "").await, (200, "served".to_owned()), "{framework}");
        assert_eq!(shop.delivery.validate(&shop.key).await.unwrap().used(), 1);
        assert_eq!(host.ask(Method::GET, "/delivery-refused-request", &[], "").await.0, 404, "{framework}");
    }
}

#[tokio::test]
async fn an_optional_key_may_be_missing_and_not_wrong() {
    for (framework, shop, host) in hosts().await {
        for (key, expected) in [
            (None, (200, "nobody")),
            (Some(shop.key.clone()), (200, "a@example.com")),
            (Some("dlv_nonsense".to_owned()), (401, "INVALID_KEY")),
            (Some(shop.used_up.clone()), (403, "EXCEEDED_USES")),
        ] {
            let headers: Vec<_> = key.map(|key| ("X-API-Key", key)).into_iter().collect();
            let (status, body) = host.ask(Method::GET, "/perhaps", &headers, "").await;
            assert!(status == expected.0 && body.contains(expected.1), "{framework} {status} {body}");
        }
    }
}

/// The token is not asked for, and nothing of the platform's is mounted without its secret.
#[tokio::test]
async fn the_sign_in_of_the_host_takes_the_place_of_the_token() {
    let post = r#"{"title":"News","category":"updates","content":"Hello"}"#;
    for (framework, _, host) in hosts().await {
        let json = ("Content-Type", "application/json".to_owned());
        for (credential, expected) in [
            (("Cookie", "staff=ada".to_owned()), 200),
            (("Cookie", "other=ada".to_owned()), 401),
            (("Authorization", "Bearer the-seller's-token".to_owned()), 401),
        ] {
            let (status, body) = host.ask(Method::POST, "/api/admin/post", &[json.clone(), credential], post).await;
            assert_eq!(status, expected, "{framework} {body}");
        }
        assert_eq!(host.ask(Method::POST, "/api/webhook/order", &[json], "{}").await.0, 404, "{framework}");
    }
}

#[tokio::test]
async fn only_the_endpoints_that_the_host_picks_are_mounted() {
    let (first, second) = (shop().await, shop().await);
    let picked = [Endpoint::Validate, Endpoint::Posts];
    let axum = Axum(delivery_axum::router_of(first.delivery.clone(), picked));
    let fairing = DeliveryFairing::new(second.delivery.clone()).endpoints(picked);
    let rocket = OnRocket::launch(rocket::custom(quiet()).attach(fairing)).await;
    let hosts: [(&str, Box<dyn Host>); 2] = [("axum", Box::new(axum)), ("rocket", Box::new(rocket))];
    for (framework, host) in hosts {
        for endpoint in Endpoint::all() {
            let expected = if picked.contains(&endpoint) { 405 } else { 404 };
            let path = endpoint.path().replace(['{', '}'], "");
            let status = host.ask(Method::DELETE, &path, &[], "").await.0;
            assert_eq!(status, expected, "{framework} {}", endpoint.path());
        }
    }
    let elsewhere =
        Router::new().route("/is-it-good", delivery_axum::method_router(first.delivery.clone(), Endpoint::Validate));
    let path = format!("/is-it-good?key={}", first.key);
    assert_eq!(Axum(elsewhere).ask(Method::GET, &path, &[], "").await.0, 200);
}

async fn does_launch(app: Rocket<Build>) -> bool {
    // An error that nobody looks at panics.
    app.ignite().await.inspect_err(|error| assert!(!error.kind().to_string().is_empty())).is_ok()
}

#[tokio::test]
async fn on_rocket_a_guard_of_a_path_that_is_none_aborts_the_launch() {
    use delivery_rocket::RequireKey;
    let shop = shop().await;
    let paths = ["/downloads", "/downloads/", "/caf%C3%A9", "/"].map(|path| (path, true));
    let others = ["downloads", "/downloads?x", "/downloads/<id>", "//downloads", "/a b"].map(|path| (path, false));
    for (path, launches) in paths.into_iter().chain(others) {
        let app = fairing(&shop.delivery).attach(RequireKey::at(path));
        assert_eq!(does_launch(app).await, launches, "{path}");
    }
    assert!(!does_launch(rocket::custom(quiet()).attach(RequireKey::at("/downloads"))).await, "without the API");
}

#[tokio::test]
async fn on_rocket_a_path_that_two_guards_are_for_must_pass_both() {
    use delivery_rocket::RequireKey;
    let shop = shop().await;
    let app = fairing(&shop.delivery)
        .attach(RequireKey::at("/caf%C3%A9"))
        .attach(RequireKey::at("/caf%C3%A9/guide").product(product(1)).counting())
        .attach(RequireKey::at("/caf%C3%A9/map").product(product(2)))
        .mount("/", rocket::routes![used]);
    let host = OnRocket::launch(app).await;
    let key = [("X-API-Key", shop.key.clone())];
    for (path, status, says) in [
        ("/caf%C3%A9/guide", 200, "1"),
        ("/caf%c3%a9/guide", 200, "2"),
        ("/caf%C3%A9/map", 403, "EXCEEDED_USES"),
        ("/caf%C3%A9/guide", 403, "EXCEEDED_USES"),
    ] {
        let (answered, body) = host.ask(Method::GET, path, &key, "").await;
        assert!(answered == status && body.contains(says), "{path} {answered} {body}");
    }
    assert_eq!(host.ask(Method::GET, "/caf%C3%A9/guide", &[], "").await.0, 400);
}
