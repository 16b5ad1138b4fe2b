//! The complete server on Rocket, for use behind a proxy. It is for developers who want to change a whole server and
//! prefer Rocket.
//!
//! `cargo run --example rocket_server` starts it, and `--help` lists its settings. To sell from an application of your own,
//! copy `minimal_rocket` instead: it is a page of code, and serves the API without the desk.
//!
//! Rocket 0.5 sets no deadline on the head of a request, on an idle connection, or on a client that reads no answer. It
//! does not limit connections either. The settings `MAX_CONNECTIONS`, `MAX_CONNECTIONS_PER_ADDRESS`, `HEAD_TIMEOUT` and
//! `ANSWER_TIMEOUT` therefore have no effect here. Put a proxy in front that sets such limits, such as nginx with
//! `examples/deploy/nginx.conf`. Caddy sets none of them. If you want to run a server without a proxy, use `axum_server`.
//!
//! Rocket 0.5 reads the start of a body before it looks for a route. A request of which fewer than 14 bytes arrive is
//! answered only when its connection ends. A chunked body that breaks off within its first 512 bytes counts as whole, so
//! uploads of files should state their length or their digest.
//!
//! Rocket 0.5 answers a method that it does not know, such as PROPFIND, without calling fairings: the response has no
//! `x-request-id`, and the log of requests has no line for it. Rocket also serves HTTP/1.1 requests that have no `Host`
//! or more than one; the proxies of `examples/deploy` refuse such requests.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use delivery_core::Delivery;
use delivery_rocket::DeliveryFairing;
use rocket::config::{Config, Ident, LogLevel, Shutdown};
use rocket::fairing::{AdHoc, Fairing, Info, Kind};
use rocket::http::uri::Origin;
use rocket::http::{ContentType, Header, Status};
use rocket::response::Responder;
use rocket::shield::Shield;
use rocket::{Build, Data, Request, Response, Rocket, State, get, routes};
use server::connections::requests::{self, Open};
use server::connections::{health, reserve};
use server::{GRACE, Opened, Stop, announce, docs};

fn main() -> ExitCode {
    server::run(reserve, |opened| async move {
        let Opened { listener: reserved, address, delivery, background, stop, .. } = opened;
        let background = background.start(&delivery);
        let launched = app(delivery.clone(), address, stop).launch().await;
        // Rocket cannot take over an open listener: it listened on the reserved address with its own socket.
        drop(reserved);
        background.stop().await;
        delivery.close().await;
        launched.map(drop).map_err(|error| error.kind().to_string().into())
    })
}

fn app(delivery: Delivery, address: SocketAddr, stop: Stop) -> Rocket<Build> {
    // Rocket's signal handling is off: the server handles signals itself, because of `STOP_DELAY`.
    let grace = u32::try_from(GRACE.as_secs()).unwrap_or(u32::MAX);
    let shutdown = Shutdown { ctrlc: false, signals: HashSet::new(), grace, mercy: 1, ..Shutdown::default() };
    let config = Config {
        address: address.ip(),
        port: address.port(),
        ident: Ident::none(),
        // Rocket's own log contains the queries of requests, and queries may contain keys.
        log_level: LogLevel::Off,
        shutdown,
        ..Config::release_default()
    };
    rocket::custom(config)
        .manage(stop.clone())
        .mount("/", routes![live, ready, reference])
        .register("/", delivery_rocket::catchers())
        // Without policies. `Headers` sets the only one that answers need together with the id, in half the time.
        .attach(Shield::new())
        .attach(Headers)
        .attach(DeliveryFairing::new(delivery))
        .attach(AdHoc::on_liftoff("Announcement", move |rocket| {
            let shutdown = rocket.shutdown();
            rocket::tokio::spawn(async move {
                stop.asked().await;
                stop.delayed().await;
                shutdown.notify();
            });
            announce(address);
            Box::pin(async {})
        }))
}

type Health = Option<(Status, (ContentType, &'static str))>;

/// Rocket also routes `/healthz/` here. The path is compared exactly, so that `/healthz/` is not found.
async fn check(path: &Origin<'_>, delivery: &Delivery, stop: &Stop) -> Health {
    let (status, json) = health::check(path.path().as_str(), delivery, stop).await?;
    Some((Status::new(status), (ContentType::JSON, json)))
}

#[get("/healthz")]
async fn live(path: &Origin<'_>, delivery: &State<Delivery>, stop: &State<Stop>) -> Health {
    check(path, delivery, stop).await
}

#[get("/readyz")]
async fn ready(path: &Origin<'_>, delivery: &State<Delivery>, stop: &State<Stop>) -> Health {
    check(path, delivery, stop).await
}

/// The API reference.
struct Reference(&'static str);

#[get("/docs")]
fn reference(path: &Origin<'_>) -> Option<Reference> {
    docs::page().filter(|_| path.path() == "/docs").map(Reference)
}

impl<'r> Responder<'r, 'static> for Reference {
    fn respond_to(self, _: &'r Request<'_>) -> rocket::response::Result<'static> {
        let mut response = Response::new();
        response.set_raw_header("content-type", docs::TYPE);
        response.set_raw_header("content-security-policy", docs::policy());
        response.set_sized_body(self.0.len(), io::Cursor::new(self.0));
        Ok(response)
    }
}

/// Gives each request an id, in its answer and in the log, and forbids browsers to guess the media type of an answer.
struct Headers;

#[rocket::async_trait]
impl Fairing for Headers {
    fn info(&self) -> Info {
        Info { name: "Headers of answers", kind: Kind::Request | Kind::Response }
    }

    async fn on_request(&self, request: &mut Request<'_>, _: &mut Data<'_>) {
        let given = request.headers().get_one(requests::ID);
        let open = Open::new(given, request.method().as_str(), request.uri().path().as_str());
        request.replace_header(Header::new(requests::ID, open.id().to_owned()));
        request.local_cache(|| Some(open));
    }

    async fn on_response<'r>(&self, request: &'r Request<'_>, response: &mut Response<'r>) {
        response.set_header(Header::new("x-content-type-options", "nosniff"));
        let Some(open) = request.local_cache(|| None::<Open>) else { return };
        open.answered(response.status().code);
        response.set_header(Header::new(requests::ID, open.id().to_owned()));
    }
}
