//! On axum and on Rocket: the same answer to the same request.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use axum::Router;
use delivery_core::http::Endpoint;
use delivery_fuzz::{SECRET, Shop, TOKEN};
use http_body_util::BodyExt;
use libfuzzer_sys::fuzz_target;
use rocket::config::{Config, LogLevel};
use rocket::local::asynchronous::Client;
use tower::ServiceExt;

#[derive(Debug, Arbitrary)]
struct Sent {
    method: Method,
    endpoint: u8,
    query: Option<String>,
    headers: Vec<(Name, String)>,
    body: Body,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Method {
    Get,
    Post,
    Head,
    Put,
    Delete,
    Options,
    Patch,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Name {
    Authorization,
    ApiKey,
    ContentType,
    ContentEncoding,
    ForwardedFor,
    Other,
}

#[derive(Debug, Arbitrary)]
enum Body {
    Text(String),
    Order { order: String, product: i64, email: String },
    Product { name: String, content: String, price: Option<f64> },
}

struct Frameworks {
    shop: Shop,
    axum: Router,
    rocket: Client,
}

/// The fields that the API promises.
const PROMISED: [&str; 8] = [
    "content-type",
    "cache-control",
    "referrer-policy",
    "www-authenticate",
    "allow",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
];

/// Status, promised fields, and the body.
type Answer = (u16, [Option<String>; 8], String);

static FRAMEWORKS: LazyLock<Frameworks> = LazyLock::new(|| {
    // Two shops that are alike.
    let (shop, other) = (Shop::new(), Shop::new());
    let axum = delivery_axum::router(shop.delivery.clone());
    let config = Config { log_level: LogLevel::Off, ..Config::release_default() };
    let rocket = rocket::custom(config).attach(delivery_rocket::DeliveryFairing::new(other.delivery.clone()));
    let rocket = shop.runtime.block_on(Client::untracked(rocket)).unwrap();
    Frameworks { shop, axum, rocket }
});

impl Sent {
    fn text(&self, shop: &Shop, text: &str) -> String {
        let text = text.replace("GOOD", &shop.good).replace("SPENT", &shop.spent);
        text.replace("TOKEN", TOKEN).replace("SECRET", SECRET)
    }

    fn target(&self, shop: &Shop) -> Option<String> {
        // What is not mounted is for the host to answer.
        let mounted = |endpoint: &&Endpoint| endpoint.is_served_by(&shop.delivery);
        let endpoints: Vec<_> = Endpoint::ALL.iter().filter(mounted).collect();
        let path = endpoints[usize::from(self.endpoint) % endpoints.len()].path();
        let Some(query) = &self.query else { return Some(path.to_owned()) };
        let query = self.text(shop, query);
        // What is no request is for the frameworks' own parsers.
        let fit = query.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte));
        fit.then(|| format!("{path}?{query}"))
    }

    fn headers(&self, shop: &Shop) -> Vec<(&'static str, String)> {
        let json = matches!(self.body, Body::Order { .. } | Body::Product { .. })
            .then(|| ("content-type", "application/json".to_owned()));
        let named = self.headers.iter().map(|(name, value)| {
            let name = match name {
                Name::Authorization => "authorization",
                Name::ApiKey => "x-api-key",
                Name::ContentType => "content-type",
                Name::ContentEncoding => "content-encoding",
                Name::ForwardedFor => "x-forwarded-for",
                Name::Other => "x-other",
            };
            let value = if matches!(name, "authorization") { format!("Bearer {value}") } else { value.clone() };
            (name, self.text(shop, &value).trim().to_owned())
        });
        json.into_iter().chain(named).collect()
    }

    fn body(&self, shop: &Shop) -> String {
        match &self.body {
            Body::Text(text) => self.text(shop, text),
            Body::Order { order, product, email } => serde_json::json!({
                "secret": SECRET, "order_id": order, "product_id": product % 4, "customer_email": email,
            })
            .to_string(),
            Body::Product { name, content, price } => {
                serde_json::json!({ "name": name, "content": content, "price": price }).to_string()
            }
        }
    }
}

fuzz_target!(|sent: Sent| {
    let Frameworks { shop, axum, rocket } = &*FRAMEWORKS;
    let Some(target) = sent.target(shop) else { return };
    let headers = sent.headers(shop);
    let header_fits = |value: &String| value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if !headers.iter().all(|(_, value)| header_fits(value)) {
        return;
    }
    let body = sent.body(shop);
    // Rocket takes the method of a posted form from its body; what comes back of that is told in the limits.
    if body.to_ascii_lowercase().starts_with("_method=") {
        return;
    }
    let (on_axum, on_rocket) = shop.runtime.block_on(async {
        (
            ask_axum(axum, sent.method, &target, &headers, &body).await,
            ask_rocket(rocket, sent.method, &target, &headers, &body).await,
        )
    });
    assert_eq!(on_axum, on_rocket);
});

async fn ask_axum(router: &Router, method: Method, target: &str, headers: &[(&str, String)], body: &str) -> Answer {
    let method = format!("{method:?}").to_uppercase();
    let mut request = http::Request::builder().method(method.as_str()).uri(target);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response =
        router.clone().oneshot(request.body(axum::body::Body::from(body.to_owned())).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let fields = PROMISED.map(|name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()));
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, fields, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn ask_rocket(client: &Client, method: Method, target: &str, headers: &[(&str, String)], body: &str) -> Answer {
    use rocket::http::Method as Rocket;
    let method = match method {
        Method::Get => Rocket::Get,
        Method::Post => Rocket::Post,
        Method::Head => Rocket::Head,
        Method::Put => Rocket::Put,
        Method::Delete => Rocket::Delete,
        Method::Options => Rocket::Options,
        Method::Patch => Rocket::Patch,
    };
    let mut request = client.req(method, target.to_owned());
    for (name, value) in headers {
        request.add_header(rocket::http::Header::new((*name).to_owned(), value.clone()));
    }
    let response = request.body(body).dispatch().await;
    let status = response.status().code;
    let fields = PROMISED.map(|name| response.headers().get_one(name).map(str::to_owned));
    (status, fields, response.into_string().await.unwrap_or_default())
}
