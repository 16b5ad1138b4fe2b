//! Between Rocket's requests and responses and the core's values.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use delivery_core::http::{Call, Endpoint, Reply};
use delivery_core::{Delivery, ErrorCode};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use rocket::catcher::{self, Catcher};
use rocket::data::{Data, ToByteUnit};
use rocket::form::Form;
use rocket::futures::stream::{self, StreamExt};
use rocket::http::{Header, Method, Status};
use rocket::route::Outcome;
use rocket::{Request, Response, route};
use tokio_util::io::ReaderStream;

use crate::body::Answer;

/// How many bytes of each body Rocket reads before it looks for a route: a form may begin with them.
const PEEKED: usize = "_method=delete".len();

/// The service that this application mounts.
pub(crate) struct Mounted(pub(crate) Delivery);

/// One endpoint at its path.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) endpoint: Endpoint,
    /// Where the API is mounted.
    pub(crate) base: String,
    pub(crate) delivery: Delivery,
    pub(crate) extend: Extend,
}

/// Adds extensions to a request, such as the user that the host application has signed in.
pub(crate) type Extend = Arc<dyn Fn(&Request<'_>, &mut Extensions) + Send + Sync>;

impl Api {
    /// Returns whether a request is for exactly this endpoint. Rocket treats `//api/validate` and `/api/validate/` as the
    /// same path, but those are paths of the host application.
    fn is_at(&self, request: &Request<'_>) -> bool {
        request.uri().path().as_str().strip_prefix(&self.base).is_some_and(|path| self.endpoint.is_at(path))
    }
}

#[rocket::async_trait]
impl route::Handler for Api {
    async fn handle<'r>(&self, request: &'r Request<'_>, mut data: Data<'r>) -> Outcome<'r> {
        if !self.is_at(request) {
            return Outcome::Forward((data, response(Reply::not_found()).status()));
        }
        let mut call = call(request, request.method());
        (self.extend)(request, &mut call.extensions);
        // Rocket has read the beginning of the body. If the body broke off there, Rocket has ignored that.
        let is_broken = !data.peek_complete() && data.peek(PEEKED).await.len() < PEEKED;
        let broken = is_broken.then(|| Err(io::ErrorKind::UnexpectedEof.into()));
        let limit = self.endpoint.body_limit();
        // Reading one byte more than the limit shows that a body is too large. An endpoint without a body needs no buffer.
        let body = ReaderStream::with_capacity(data.open(limit.saturating_add(1).bytes()), limit.min(8 << 10));
        let body = body.chain(stream::iter(broken));
        Outcome::Success(response(self.endpoint.serve(&self.delivery, &call, body).await))
    }
}

/// Answers requests whose method Rocket does not know, which Rocket reports as bad requests. A bad request that one of
/// the host's routes reported keeps Rocket's default answer.
#[rocket::async_trait]
impl catcher::Handler for Api {
    async fn handle<'r>(&self, status: Status, request: &'r Request<'_>) -> catcher::Result<'r> {
        if request.route().is_some() {
            return Catcher::default().handler.handle(status, request).await;
        }
        if !self.is_at(request) {
            return Ok(response(unknown(request, status)));
        }
        // Rocket does not say which method it was. TRACE stands for it, because the API does not support TRACE either.
        Ok(response(self.endpoint.call(&self.delivery, call(request, Method::Trace)).await))
    }
}

/// Returns the mounted service. It is `None` only if another guard calls one of these guards in an application without
/// the fairing, because the check at launch does not see such a use.
pub(crate) fn mounted<'r>(request: &'r Request<'_>) -> Option<&'r Delivery> {
    request.rocket().state().map(|Mounted(delivery)| delivery)
}

/// The answer to a path that is no endpoint. Rocket reports a method that it does not know as a bad request, and calls it GET.
pub(crate) fn unknown(request: &Request<'_>, status: Status) -> Reply {
    let method = if status.code == ErrorCode::NotFound.status() { asked_method(request) } else { Method::Trace };
    mounted(request).map_or_else(Reply::not_found, |delivery| Reply::unknown(delivery, &call(request, method)))
}

/// The method with which a request came.
struct AskedMethod(Method);

/// The method with which a request came, also where Rocket runs a route of GET for HEAD: if no route takes HEAD, Rocket changes
/// the method and looks for a route again. The first call keeps the method with the request.
pub(crate) fn asked_method(request: &Request<'_>) -> Method {
    request.local_cache(|| AskedMethod(request.method())).0
}

/// The head of a request as it came.
pub(crate) fn asked(request: &Request<'_>) -> Call {
    call(request, asked_method(request))
}

/// The head of a request as the core sees it.
pub(crate) fn call(request: &Request<'_>, method: Method) -> Call {
    let method = http::Method::from_bytes(method.as_str().as_bytes()).unwrap_or_default();
    let query = request.uri().query().map(|query| query.as_str().to_owned());
    let path = Some(request.uri().path().as_str().to_owned());
    // Not `client_ip()`, which trusts a header from any client.
    let peer = request.remote().map(|peer| peer.ip());
    let mut headers = HeaderMap::with_capacity(request.headers().len());
    for field in request.headers().iter() {
        // Values that are not ASCII are kept: if such a field were left out, the field before it would count instead.
        let value = HeaderValue::from_bytes(field.value().as_bytes());
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(field.name().as_str()), value) {
            headers.append(name, value);
        }
    }
    let call = Call { method, query, path, headers, body: Bytes::new(), peer, extensions: Extensions::new() };
    call.to_host(request.host())
}

pub(crate) fn response(reply: Reply) -> Response<'static> {
    let mut response = Response::new();
    write(reply, &mut response);
    response
}

/// Replaces the status and the body of `response` with those of `reply`, and sets the reply's header fields. Other header
/// fields of the host application stay.
pub(crate) fn write(reply: Reply, response: &mut Response<'_>) {
    response.set_status(Status::new(reply.status().as_u16()));
    for (name, value) in reply.headers() {
        // All values are visible ASCII.
        response.set_header(Header::new(name.as_str(), value.to_str().unwrap_or_default().to_owned()));
    }
    // Rocket sends this size as `Content-Length`, even for HEAD, which has no body. Without a size, Rocket sends chunks.
    // The chunk is one byte larger than the body, because Rocket would start another chunk after a full one.
    let length = reply.length().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    // Rocket's server keeps up to 16 chunks for a client that reads slowly.
    let most = if reply.is_streamed() { 4 << 10 } else { 64 << 10 };
    response.set_sized_body(length, Answer(reply.into_body(), Bytes::new()));
    response.set_max_chunk_size(length.map_or(most, |length| length.saturating_add(1).min(most)));
}

/// Restores the method of a posted form, which Rocket replaces by the form's `_method` field. A form that was really
/// sent with that method is treated as posted, too.
pub(crate) async fn restore_method(request: &mut Request<'_>, data: &mut Data<'_>) {
    let start = data.peek(PEEKED).await;
    let first = Form::values(std::str::from_utf8(start).unwrap_or_default()).next();
    if first.is_some_and(|field| field.name == "_method" && field.value.parse() == Ok(request.method())) {
        request.set_method(Method::Post);
    }
}
