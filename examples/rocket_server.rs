//! The complete server on Rocket: `cargo run --release --example rocket_server`. `--help` lists its settings.

mod server;

use std::collections::HashSet;
use std::io::Cursor;
use std::net::SocketAddr;
use std::process::ExitCode;

use delivery_core::Delivery;
use delivery_rocket::DeliveryFairing;
use rocket::config::{Config, LogLevel, Shutdown};
use rocket::error::ErrorKind;
use rocket::fairing::{AdHoc, Fairing, Info, Kind};
use rocket::figment::Figment;
use rocket::http::{ContentType, Header, Method, Status};
use rocket::route::{self, Outcome};
use rocket::shield::{NoSniff, Shield};
use rocket::{Build, Data, Request, Response, Rocket, Route};
use server::requests::{self, Open};
use server::{GRACE, Opened, Refusal, capacity, docs, health};

#[tokio::main]
async fn main() -> ExitCode {
    server::run(async {
        let Opened { listener, address, delivery } = server::open().await?;
        let stop = server::signal::stop()?;
        // Rocket keeps no count of connections, but it can use all the descriptors there are.
        capacity::connections();
        // Rocket binds by itself.
        drop(listener);
        let rocket = app(delivery.clone(), address).ignite().await.map_err(|error| refusal(&error, address))?;
        let shutdown = rocket.shutdown();
        tokio::spawn(async move {
            stop.await;
            shutdown.notify();
        });
        let launched = Box::pin(rocket.launch()).await;
        delivery.close().await;
        match launched {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Shutdown(..)) => {
                tracing::warn!("some requests did not end in time and were cut off");
                Ok(())
            }
            Err(error) => Err(refusal(&error, address)),
        }
    })
    .await
}

fn refusal(error: &rocket::Error, address: SocketAddr) -> Refusal {
    match error.kind() {
        ErrorKind::Bind(error) => server::not_listening(address, error),
        ErrorKind::Io(error) => error.to_string().into(),
        // What is left are mistakes in this file.
        kind => kind.to_string().into(),
    }
}

fn app(delivery: Delivery, address: SocketAddr) -> Rocket<Build> {
    let health = |path| Route::new(Method::Get, path, Health(delivery.clone()));
    rocket::custom(config(address))
        .mount("/", [health(health::LIVE), health(health::READY), Route::new(Method::Get, docs::PATH, Reference)])
        .register("/", delivery_rocket::catchers())
        .attach(Shield::new().enable(NoSniff::default()))
        .attach(DeliveryFairing::new(delivery))
        .attach(Observed)
        .attach(AdHoc::on_liftoff("Announcement", move |_| Box::pin(async move { server::announce(address) })))
}

fn config(address: SocketAddr) -> Figment {
    let shutdown = Shutdown {
        ctrlc: false,
        signals: HashSet::new(),
        // Rocket adds a second of its own.
        grace: u32::try_from(GRACE.as_secs() - 1).unwrap_or(u32::MAX),
        mercy: 0,
        force: false,
        ..Shutdown::default()
    };
    // Rocket's own log has the queries of requests in it, and queries have keys.
    let config = Config { log_level: LogLevel::Off, shutdown, ..Config::release_default() };
    Figment::from(config).merge(("address", address.ip())).merge(("port", address.port())).merge(("ident", false))
}

#[derive(Clone)]
struct Health(Delivery);

#[rocket::async_trait]
impl route::Handler for Health {
    async fn handle<'r>(&self, request: &'r Request<'_>, data: Data<'r>) -> Outcome<'r> {
        match health::check(request.uri().path().as_str(), &self.0).await {
            Some((status, json)) => Outcome::from(request, (Status::new(status), (ContentType::JSON, json))),
            None => Outcome::forward(data, Status::NotFound),
        }
    }
}

#[derive(Clone)]
struct Reference;

#[rocket::async_trait]
impl route::Handler for Reference {
    async fn handle<'r>(&self, request: &'r Request<'_>, data: Data<'r>) -> Outcome<'r> {
        match docs::page().filter(|_| request.uri().path() == docs::PATH) {
            Some(page) => {
                let mut response = Response::new();
                response.set_raw_header("content-type", docs::TYPE);
                response.set_raw_header("content-security-policy", docs::POLICY);
                response.set_sized_body(page.len(), Cursor::new(page));
                Outcome::Success(response)
            }
            None => Outcome::forward(data, Status::NotFound),
        }
    }
}

/// Gives each request a name, and tells the log how it was answered.
struct Observed;

#[rocket::async_trait]
impl Fairing for Observed {
    fn info(&self) -> Info {
        Info { name: "Observed", kind: Kind::Request | Kind::Response }
    }

    async fn on_request(&self, request: &mut Request<'_>, _: &mut Data<'_>) {
        let given = request.headers().get_one(requests::ID);
        let open = Open::new(given, request.method().as_str(), request.uri().path().as_str());
        request.replace_header(Header::new(requests::ID, open.id().to_owned()));
        request.local_cache(|| Some(open));
    }

    async fn on_response<'r>(&self, request: &'r Request<'_>, response: &mut Response<'r>) {
        if let Some(open) = request.local_cache(|| None::<Open>) {
            open.answered(response.status().code);
            response.set_header(Header::new(requests::ID, open.id()));
        }
    }
}
