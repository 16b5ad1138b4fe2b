//! The application on Rocket.

use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use delivery_core::Delivery;
use delivery_rocket::{DeliveryFairing, Grant, GrantRejection};
use http::uri::PathAndQuery;
use http::{Request, Response};
use rocket::config::{Config, LogLevel};
use rocket::fairing::AdHoc;
use rocket::figment::Figment;
use rocket::http::uri::Host as Authority;
use rocket::http::{Header, Method};
use rocket::local::asynchronous::Client;
use rocket::shield::Shield;
use rocket::{Build, Rocket, get, routes};

use tokio::sync::OnceCell;

use super::Stop;

/// The fairing is one an application, so the API under a base is another one.
pub struct Host {
    delivery: Delivery,
    root: Client,
    /// Opened when it is first asked: few requests go there.
    nested: OnceCell<Client>,
}

impl Host {
    pub async fn open(delivery: Delivery) -> Self {
        Self { root: client(delivery.clone(), "/").await, delivery, nested: OnceCell::new() }
    }

    pub async fn send(&self, request: &Request<String>, peer: Option<IpAddr>) -> Response<String> {
        let nested = request.uri().path().contains("ested/");
        let client = if nested {
            self.nested.get_or_init(|| client(self.delivery.clone(), "/nested")).await
        } else {
            &self.root
        };
        let method: Method = request.method().as_str().parse().unwrap();
        let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let mut local = client.req(method, target.to_owned());
        // HTTP/2 has the host in the URI, and Rocket takes it from there.
        if let Some(authority) = request.uri().authority() {
            local.inner_mut().set_host(Authority::parse_owned(authority.to_string()).unwrap());
        }
        for (name, value) in request.headers() {
            // As in the complete server on Rocket, which has strings for values.
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            local.add_header(Header::new(name.to_string(), value));
        }
        if let Some(peer) = peer {
            local = local.remote(SocketAddr::new(peer, 50_000));
        }
        let answer = local.body(request.body()).dispatch().await;
        let mut response = Response::builder().status(answer.status().code);
        // Rocket announces it when it sends the answer, which a local client does not see.
        if let Some(length) = answer.body().preset_size() {
            response = response.header("content-length", length);
        }
        for header in answer.headers().iter().filter(|header| header.name() != "content-length") {
            response = response.header(header.name().as_str(), header.value());
        }
        response.body(answer.into_string().await.unwrap_or_default()).unwrap()
    }
}

async fn client(delivery: Delivery, base: &str) -> Client {
    Client::untracked(app(delivery, base, config())).await.unwrap()
}

/// The application on a port of its own.
pub async fn serve(delivery: Delivery) -> (SocketAddr, Stop) {
    let (tell, told) = tokio::sync::oneshot::channel();
    let tell = Mutex::new(Some(tell));
    let announce = AdHoc::on_liftoff("Announcement", move |rocket| {
        let address = SocketAddr::new(rocket.config().address, rocket.config().port);
        tell.lock().unwrap().take().unwrap().send(address).unwrap();
        Box::pin(async {})
    });
    let config = config().merge(("port", 0)).merge(("shutdown.ctrlc", false)).merge(("shutdown.grace", 0));
    let rocket = app(delivery, "/", config.merge(("shutdown.mercy", 0))).attach(announce).ignite().await.unwrap();
    let shutdown = rocket.shutdown();
    let launched = tokio::spawn(async move { drop(rocket.launch().await.unwrap()) });
    let stop = async move {
        shutdown.notify();
        launched.await.unwrap();
    };
    (told.await.unwrap(), Box::pin(stop))
}

fn config() -> Figment {
    Figment::from(Config { log_level: LogLevel::Off, ..Config::debug_default() }).merge(("ident", false))
}

fn app(delivery: Delivery, base: &str, config: Figment) -> Rocket<Build> {
    rocket::custom(config)
        .mount("/", routes![hello, panics, guarded, counted, lenient])
        .register("/", delivery_rocket::catchers())
        .attach(Shield::new())
        .attach(DeliveryFairing::new(delivery).at(base))
}

#[get("/hello")]
fn hello() -> &'static str {
    "hello"
}

#[get("/panics")]
fn panics() -> &'static str {
    std::panic::resume_unwind(Box::new("a route of the host's panicked"))
}

#[get("/guarded")]
#[expect(clippy::needless_pass_by_value, reason = "Rocket passes guards by value")]
fn guarded(grant: Grant) -> String {
    format!("used {} times", grant.key().used())
}

#[get("/counted")]
async fn counted(grant: Grant) -> Result<String, GrantRejection> {
    let key = grant.count_use(grant.key().product()).await?;
    Ok(format!("used {} times", key.used()))
}

#[get("/lenient")]
#[expect(clippy::needless_pass_by_value, reason = "Rocket passes guards by value")]
fn lenient(grant: Result<Grant, GrantRejection>) -> &'static str {
    if grant.is_ok() { "in" } else { "a sample" }
}
