//! Converts Rocket's requests and responses to and from the core's values.

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

/// How many bytes of each body Rocket reads before it looks for a route. If a form begins with the field `_method`,
/// Rocket replaces the method of the request by the value of this field.
const PEEKED: usize = "_method=delete".len();

/// The service whose API is mounted, in Rocket's managed state.
pub(crate) struct Mounted(pub(crate) Delivery);

/// Rocket's handler for one endpoint.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) endpoint: Endpoint,
    /// The path under which the API is mounted.
    pub(crate) base: String,
    pub(crate) delivery: Delivery,
    pub(crate) extend: Extend,
}

/// Adds extensions to a request, such as the user that the host application has signed in.
pub(crate) type Extend = Arc<dyn Fn(&Request<'_>, &mut Extensions) + Send + Sync>;

impl Api {
    /// Returns whether the path of a request is exactly the path of this endpoint. Rocket treats `//api/validate` and
    /// `/api/validate/` like `/api/validate`, but these two paths belong to the host application.
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
        // Rocket has already read up to `PEEKED` bytes of the body, and ignores an error there. If the connection broke
        // at that point, append an error, so that the API does not take the body for complete.
        let is_broken = !data.peek_complete() && data.peek(PEEKED).await.len() < PEEKED;
        let broken = is_broken.then(|| Err(io::ErrorKind::UnexpectedEof.into()));
        let limit = self.endpoint.body_limit();
        // Allow one byte more than the limit, so that the API notices a body that is too large. An endpoint without a
        // body needs no buffer.
        let body = ReaderStream::with_capacity(data.open(limit.saturating_add(1).bytes()), limit.min(8 << 10));
        let body = body.chain(stream::iter(broken));
        Outcome::Success(response(self.endpoint.serve(&self.delivery, &call, body).await))
    }
}

/// Answers requests with a method that Rocket does not know. Rocket passes such a request to the catcher for bad
/// requests. If a route of the host application reported the bad request, Rocket's default response is sent.
#[rocket::async_trait]
impl catcher::Handler for Api {
    async fn handle<'r>(&self, status: Status, request: &'r Request<'_>) -> catcher::Result<'r> {
        if request.route().is_some() {
            return Catcher::default().handler.handle(status, request).await;
        }
        if !self.is_at(request) {
            return Ok(response(unknown(request, status)));
        }
        // Rocket does not tell which method the client sent. Pass TRACE instead: no endpoint accepts it, so the
        // response is the same as for an unknown method.
        Ok(response(self.endpoint.call(&self.delivery, call(request, Method::Trace)).await))
    }
}

/// Returns the mounted service; `None` if the application has not attached the fairing. An application whose routes
/// take a guard of this crate does not launch without the fairing. But Rocket's check at launch does not see a guard
/// that is called only by another guard.
pub(crate) fn mounted<'r>(request: &'r Request<'_>) -> Option<&'r Delivery> {
    request.rocket().state().map(|Mounted(delivery)| delivery)
}

/// Returns the API's response to a request whose path is no endpoint. `status` is the status that Rocket reports. If it
/// is not 404, the method may be unknown to Rocket, which then reports GET as the method. In this case, TRACE replaces
/// the method, because no endpoint accepts TRACE.
pub(crate) fn unknown(request: &Request<'_>, status: Status) -> Reply {
    let method = if status.code == ErrorCode::NotFound.status() { asked_method(request) } else { Method::Trace };
    mounted(request).map_or_else(Reply::not_found, |delivery| Reply::unknown(delivery, &call(request, method)))
}

/// The method that the client sent.
struct AskedMethod(Method);

/// Returns the method that the client sent. If no route takes HEAD, Rocket changes the method of the request to GET and
/// looks for a route again. The first call of this function stores the method in the request, so that later calls
/// return HEAD. The fairing makes the first call, before Rocket looks for a route.
pub(crate) fn asked_method(request: &Request<'_>) -> Method {
    request.local_cache(|| AskedMethod(request.method())).0
}

/// Converts the head of a request for the core, with the method that the client sent.
pub(crate) fn asked(request: &Request<'_>) -> Call {
    call(request, asked_method(request))
}

/// Converts the head of a request for the core, with the given method.
pub(crate) fn call(request: &Request<'_>, method: Method) -> Call {
    let method = http::Method::from_bytes(method.as_str().as_bytes()).unwrap_or_default();
    let query = request.uri().query().map(|query| query.as_str().to_owned());
    let path = Some(request.uri().path().as_str().to_owned());
    // Do not use `client_ip()`, which trusts the header `X-Real-IP` from any client.
    let peer = request.remote().map(|peer| peer.ip());
    let mut headers = HeaderMap::with_capacity(request.headers().len());
    for field in request.headers().iter() {
        // Keep values that are not ASCII. If a field occurs twice and the second were left out because of such a value,
        // the first would count.
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

/// Replaces the status and the body of `response` with those of `reply`, and sets the reply's header fields. Other
/// header fields of `response`, which the host application has set, stay.
pub(crate) fn write(reply: Reply, response: &mut Response<'_>) {
    response.set_status(Status::new(reply.status().as_u16()));
    for (name, value) in reply.headers() {
        // The header values of a reply are always visible ASCII, so the conversion to text cannot fail.
        response.set_header(Header::new(name.as_str(), value.to_str().unwrap_or_default().to_owned()));
    }
    // Rocket sends this length as `Content-Length`, even for HEAD, which has no body. If the length is `None`, Rocket
    // sends the body in chunks.
    let length = reply.length().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    // Rocket's server buffers up to 16 chunks for a client that reads slowly, so the chunks of a stream are small. For
    // a short body, the maximum size is one byte more than the body, because Rocket starts another chunk after a full
    // one.
    let most = if reply.is_streamed() { 4 << 10 } else { 64 << 10 };
    response.set_sized_body(length, Answer(reply.into_body(), Bytes::new()));
    response.set_max_chunk_size(length.map_or(most, |length| length.saturating_add(1).min(most)));
}

/// Restores the method POST of a form that begins with the field `_method`. Rocket has replaced the method by the value
/// of this field. If a client sends such a form with another method that equals the value, the method becomes POST too,
/// because the two cases look the same.
pub(crate) async fn restore_method(request: &mut Request<'_>, data: &mut Data<'_>) {
    let start = data.peek(PEEKED).await;
    let first = Form::values(std::str::from_utf8(start).unwrap_or_default()).next();
    if first.is_some_and(|field| field.name == "_method" && field.value.parse() == Ok(request.method())) {
        request.set_method(Method::Post);
    }
}
