//! Between Rocket's requests and responses and the core's values.

use std::io::Cursor;

use bytes::Bytes;
use delivery_core::Delivery;
use delivery_core::http::{Body, Call, Endpoint, Reply};
use http::{HeaderMap, HeaderName, HeaderValue};
use rocket::data::{Data, ToByteUnit};
use rocket::form::Form;
use rocket::http::{Header, Method, Status};
use rocket::request::Request;
use rocket::response::Response;
use rocket::route::Outcome;
use rocket::{catcher, route};
use tokio_util::task::TaskTracker;

/// As much of a form as Rocket looks at for a method.
const METHOD_FIELD: usize = "_method=delete".len();

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
            return Outcome::Forward((data, status(&Reply::not_found())));
        }
        let _open = self.open.token();
        let call = call(request, sent_method(request, &mut data).await);
        let body = body(self.endpoint, &call.headers, data).await;
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
    Call { query, headers: headers(request), peer, ..Call::new(method) }
}

pub(crate) fn response(reply: Reply) -> Response<'static> {
    let mut response = Response::new();
    write(reply, &mut response);
    response
}

/// Puts the answer in place of what `response` says, and leaves other fields that the host set.
pub(crate) fn write(reply: Reply, response: &mut Response<'_>) {
    response.set_status(status(&reply));
    for (name, value) in reply.headers() {
        // All of them are text of our own.
        if let Ok(value) = value.to_str() {
            response.set_header(Header::new(name.to_string(), value.to_owned()));
        }
    }
    // Rocket announces the size it is given, also where HEAD leaves the body out.
    response.set_sized_body(reply.length(), Cursor::new(reply.into_response().into_body()));
}

fn status(reply: &Reply) -> Status {
    Status::new(reply.status().as_u16())
}

/// The method that was sent: Rocket takes that of a posted form from its `_method` field instead.
async fn sent_method(request: &Request<'_>, data: &mut Data<'_>) -> Method {
    let method = request.method();
    if !request.content_type().is_some_and(|kind| kind.is_form()) {
        return method;
    }
    let text = std::str::from_utf8(data.peek(METHOD_FIELD).await).unwrap_or_default();
    let field = Form::values(text).next().filter(|field| field.name == "_method");
    let replaced = field.and_then(|field| field.value.parse().ok()) == Some(method);
    if replaced { Method::Post } else { method }
}

async fn body(endpoint: Endpoint, headers: &HeaderMap, data: Data<'_>) -> Body {
    let read = |limit: usize| async move {
        match data.open(limit.bytes()).into_bytes().await {
            Ok(body) if body.is_complete() => Body::Complete(Bytes::from(body.into_inner())),
            Ok(_) => Body::TooLarge,
            Err(_) => Body::Broken,
        }
    };
    endpoint.body(headers, read).await
}

fn headers(request: &Request<'_>) -> HeaderMap {
    let field = |header: Header<'_>| {
        let name = HeaderName::from_bytes(header.name().as_str().as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(header.value()).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers().iter().filter_map(field) {
        headers.append(name, value);
    }
    headers
}
