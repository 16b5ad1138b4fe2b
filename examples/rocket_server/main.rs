//! The complete server on Rocket: `cargo run --example rocket_server`. `--help` lists its settings.
//!
//! Rocket 0.5 sets no deadline on the head of a request, the first bytes of its body, or an idle connection, and counts no
//! connections. So this server accepts connections in the loop that it shares with `axum_server`, and hands each request
//! to Rocket by [`Client`], Rocket's own way to dispatch without a listener. Routes, fairings, guards and catchers work as
//! they do after a launch; `Shutdown` and `on_shutdown` do not, since Rocket does not listen. Bodies reach
//! [`DeliveryFairing`]'s routes as streams; a route of your own gets an empty `Data`.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use bytes::Bytes;
use delivery_core::Delivery;
use delivery_rocket::{DeliveryFairing, RequestBody};
use futures_util::TryStreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use rocket::config::{Config, Ident, LogLevel};
use rocket::http::uri::Origin;
use rocket::http::{ContentType, Header, Method, Status};
use rocket::local::asynchronous::{Client, LocalResponse};
use rocket::route::{self, Outcome};
use rocket::shield::{NoSniff, Shield};
use rocket::{Build, Data, Request, Response, Rocket, Route};
use server::heard::Heard;
use server::serve::{Application, serve};
use server::{docs, health};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

/// Answers of up to this many bytes are read at once.
const WHOLE: usize = 16 << 10;
/// Longer answers are read in pieces of this many bytes. Sixteen pieces are buffered for a slow client.
const PIECE: usize = 4 << 10;

fn main() -> ExitCode {
    server::run(|opened| async {
        let client = Client::untracked(app(opened.delivery.clone())).await.map_err(|error| error.kind().to_string())?;
        // Its answers borrow from it; the process ends with it.
        serve(opened, App(Box::leak(Box::new(client)))).await
    })
}

fn app(delivery: Delivery) -> Rocket<Build> {
    let health = |path| Route::new(Method::Get, path, Health(delivery.clone()));
    // Rocket's own log has the queries of requests in it, and queries have keys.
    rocket::custom(Config { log_level: LogLevel::Off, ident: Ident::none(), ..Config::release_default() })
        .mount("/", [health(health::LIVE), health(health::READY), Route::new(Method::Get, docs::PATH, Reference)])
        .register("/", delivery_rocket::catchers())
        .attach(Shield::new().enable(NoSniff::default()))
        .attach(DeliveryFairing::new(delivery).without_sending())
}

#[derive(Clone, Copy)]
struct App(&'static Client);

impl Application for App {
    type Body = UnsyncBoxBody<Bytes, io::Error>;

    fn answer(
        &self,
        request: hyper::Request<Heard>,
        peer: SocketAddr,
    ) -> impl Future<Output = hyper::Response<Self::Body>> + Send + 'static {
        let client = self.0;
        async move {
            let (head, body) = request.into_parts();
            // A method that Rocket does not know, such as `get`, is passed as TRACE, because the API supports neither.
            let known =
                head.method.as_str().parse().ok().filter(|known: &Method| known.as_str() == head.method.as_str());
            let method = known.unwrap_or(Method::Trace);
            let query = head.uri.query().map(str::to_owned);
            let path = if head.uri.path().is_empty() { "/" } else { head.uri.path() };
            let mut local = client.req(method, Origin::new(path.to_owned(), query)).remote(peer);
            for (name, value) in &head.headers {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                local.add_header(Header::new(name.as_str().to_owned(), value));
            }
            RequestBody::attach(local.inner(), BodyDataStream::new(body).map_err(io::Error::other));
            answered(local.dispatch().await).await
        }
    }
}

async fn answered(mut from: LocalResponse<'static>) -> hyper::Response<UnsyncBoxBody<Bytes, io::Error>> {
    let mut response = hyper::Response::builder().status(from.status().code);
    for field in from.headers().iter() {
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(field.name().as_str()), HeaderValue::from_str(field.value()))
        {
            response = response.header(name, value);
        }
    }
    let size = from.body().preset_size();
    if let (Some(size), Some(headers)) = (size, response.headers_mut()) {
        headers.insert(CONTENT_LENGTH, size.into());
    }
    let body = if size.is_some_and(|size| size <= WHOLE) {
        let mut whole = Vec::with_capacity(size.unwrap_or_default());
        // In memory already.
        let read = from.read_to_end(&mut whole).await.map(|_| Bytes::from(whole));
        Full::new(read.unwrap_or_default()).map_err(|never: Infallible| match never {}).boxed_unsync()
    } else {
        let pieces = ReaderStream::with_capacity(from, PIECE).map_ok(Frame::data);
        StreamBody::new(pieces).boxed_unsync()
    };
    response.body(body).unwrap_or_default()
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
                response.set_sized_body(page.len(), io::Cursor::new(page));
                Outcome::Success(response)
            }
            None => Outcome::forward(data, Status::NotFound),
        }
    }
}
