//! Between Rocket's requests and responses and the core's values.

use std::io::Cursor;

use bytes::Bytes;
use delivery_core::Delivery;
use delivery_core::http::{Body, Call, Endpoint, Reply};
use http::{HeaderMap, HeaderName, HeaderValue};
use rocket::data::{Data, ToByteUnit};
use rocket::form::Form;
use rocket::http::{Header, Method, Status};
use rocket::route::Outcome;
use rocket::{Request, Response, catcher, route};
use tokio_util::task::TaskTracker;

/// One endpoint at its path.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) endpoint: Endpoint,
    pub(crate) path: String,
    pub(crate) delivery: Delivery,
    pub(crate) open: TaskTracker,
}

#[rocket::async_trait]
impl route::Handler for Api {
    async fn handle<'r>(&self, request: &'r Request<'_>, mut data: Data<'r>) -> Outcome<'r> {
        // Rocket takes `//api/validate` and `/api/validate/` for the same path; they are the host's.
        if request.uri().path().as_str() != self.path {
            return Outcome::Forward((data, response(Reply::not_found()).status()));
        }
        let _open = self.open.token();
        let call = call(request, sent_method(request, &mut data).await);
        let body = self.endpoint.body(&call.headers, |limit| read(data, limit)).await;
        Outcome::Success(response(self.endpoint.call(&self.delivery, Call { body, ..call }).await))
    }
}

/// Answers what Rocket does not route: a method it does not know, and neighbouring paths.
#[rocket::async_trait]
impl catcher::Handler for Api {
    async fn handle<'r>(&self, _: Status, request: &'r Request<'_>) -> catcher::Result<'r> {
        if request.uri().path().as_str() != self.path {
            return Ok(response(Reply::not_found()));
        }
        // Which method it was is lost; TRACE is as little the API's.
        Ok(response(self.endpoint.call(&self.delivery, call(request, Method::Trace)).await))
    }
}

/// The request as the core sees it, but for its body.
pub(crate) fn call(request: &Request<'_>, method: Method) -> Call {
    let method = http::Method::from_bytes(method.as_str().as_bytes()).unwrap_or_default();
    let query = request.uri().query().map(|query| query.as_str().to_owned());
    // Never `client_ip()`: it believes a header, from anybody.
    let peer = request.remote().map(|peer| peer.ip());
    let mut headers = HeaderMap::new();
    for header in request.headers().iter() {
        let (name, value) = (HeaderName::try_from(header.name().as_str()), HeaderValue::from_str(header.value()));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    Call { query, headers, peer, ..Call::new(method) }
}

pub(crate) fn response(reply: Reply) -> Response<'static> {
    let mut response = Response::new();
    write(reply, &mut response);
    response
}

/// Puts the answer in place of what `response` says; other fields that the host set stay.
pub(crate) fn write(reply: Reply, response: &mut Response<'_>) {
    response.set_status(Status::new(reply.status().as_u16()));
    for (name, value) in reply.headers() {
        // All of them are text of our own.
        if let Ok(value) = value.to_str() {
            response.set_header(Header::new(name.to_string(), value.to_owned()));
        }
    }
    // Rocket announces the size it is given, also where HEAD leaves the body out.
    response.set_sized_body(reply.length(), Cursor::new(reply.into_response().into_body()));
}

/// The method that was sent: Rocket takes that of a posted form from its `_method` field instead. A form that comes with
/// just that method is taken for a posted one.
async fn sent_method(request: &Request<'_>, data: &mut Data<'_>) -> Method {
    let form = request.content_type().is_some_and(|kind| kind.is_form());
    let text = std::str::from_utf8(data.peek("_method=delete".len()).await).unwrap_or_default();
    let field = Form::values(text).next().filter(|field| form && field.name == "_method");
    let replaced = field.and_then(|field| field.value.parse().ok()) == Some(request.method());
    if replaced { Method::Post } else { request.method() }
}

/// Reads a body of at most `limit` bytes.
async fn read(data: Data<'_>, limit: usize) -> Body {
    match data.open(limit.bytes()).into_bytes().await {
        Ok(body) if body.is_complete() => Body::Complete(Bytes::from(body.into_inner())),
        Ok(_) => Body::TooLarge,
        Err(_) => Body::Broken,
    }
}
