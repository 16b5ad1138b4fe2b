//! `GET /api/file/TICKET/NAME`: downloads. A ticket is a signed text that permits the download of a file for a limited
//! time.

use std::pin::pin;

use ::http::{HeaderValue, Method, StatusCode};
use data_encoding::{BASE64, HEXLOWER};
use headers::ETag;

use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::http::body::BodyRule;
use crate::http::conditional::{Portion, portion};
use crate::http::error::ApiError;
use crate::http::limits::admit;
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::http::{Call, Reply, names, parameter};
use crate::key::{Ticket, TicketFor};
use crate::limit::{Identity, Policy};
use crate::product::File;

pub(in crate::http) static FILE: Row = Row {
    path: "/api/file/{ticket}/{name}",
    verb: Verb::Get,
    body: BodyRule::None,
    // No rate limit per client address: the handler counts the call against the rate limit of the ticket's key.
    limit: None,
    cross_origin: false,
    handler: Handler::File(|delivery, call| Box::pin(answer(delivery, call))),
    codes: &[
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RevokedKey,
        ErrorCode::ExpiredTicket,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
    openapi: Docs {
        tag: "buyer",
        id: "downloadFile",
        summary: "Download a file of a product",
        description: "The address of the file is in the answer to `GET /api/product`. It is valid for 24 hours, or \
            until the key expires if that is sooner. A download counts no use, however often it is repeated. The \
            endpoint understands `Range` with one range, `If-Range`, `If-Match` and `If-None-Match`. If the files are \
            kept with a storage provider, the answer can be a redirect to an address there, which is valid for five \
            minutes. If you append `?shown` to the address of a picture, the answer is never a redirect.",
        parameters: &[parameter::TICKET, parameter::FILE_NAME_IN_PATH],
        ..Docs::EMPTY
    },
};

async fn answer(delivery: &Delivery, call: &Call) -> Result<Reply, ApiError> {
    let ticket = call.path_segment(1).and_then(|text| delivery.verify_file_ticket(text)).ok_or(ApiError::NOT_FOUND)?;
    let admitted = admit(delivery, Policy::Files, Identity::Key(ticket.key.as_u128())).await?;
    Ok(admitted.reply_of(pin!(serve(delivery, call, &ticket))).await)
}

async fn serve(delivery: &Delivery, call: &Call, ticket: &Ticket) -> Result<Reply, ApiError> {
    let file = delivery.file_of(ticket).await?;
    let digest = HEXLOWER.encode(&file.sha256);
    let is_shown = call.query.as_deref() == Some("shown") && file.media_type.as_str().starts_with("image/");
    let Ok(tag) = format!("\"{digest}\"").parse::<ETag>() else { return Err(ErrorCode::Internal.into()) };
    let (range, is_part) = match portion(&call.headers, &tag, file.size) {
        Portion::Whole => (0..file.size, false),
        Portion::Part(range) => (range, true),
        Portion::NotModified => return Ok(described(Reply::not_modified(), &file, &digest, is_shown)),
        Portion::PreconditionFailed => return Ok(Reply::empty(StatusCode::PRECONDITION_FAILED)),
        Portion::NotSatisfiable => {
            let reply = Reply::empty(StatusCode::RANGE_NOT_SATISFIABLE);
            return Ok(reply.text_header(&names::CONTENT_RANGE, &format!("bytes */{}", file.size)));
        }
    };
    let length = range.end - range.start;
    let reply = if is_part {
        let shown = format!("bytes {}-{}/{}", range.start, range.end - 1, file.size);
        Reply::empty(StatusCode::PARTIAL_CONTENT).text_header(&names::CONTENT_RANGE, &shown)
    } else {
        Reply::empty(StatusCode::OK)
    };
    let reply = described(reply, &file, &digest, is_shown);
    if call.method == Method::HEAD {
        return Ok(reply.of_length(length));
    }
    if !is_shown && let Some(link) = delivery.file_link(&file, &file.name.disposition()).await? {
        return Ok(Reply::empty(StatusCode::FOUND).text_header(&names::LOCATION, &link));
    }
    let contents = delivery.open_file(&file, range).await?;
    Ok(reply.streaming(contents, length))
}

/// The suffix of the address of a file that a page shows as a picture. With this suffix, the answer is never a redirect
/// to a storage provider, because a page may load pictures only from the page's own host.
#[cfg(feature = "pages")]
pub(in crate::http) const SHOWN: &str = "?shown";

/// Adds the header fields that describe a file. They make a browser that opens the address save the file instead of
/// showing or running it.
fn described(reply: Reply, file: &File, digest: &str, is_shown: bool) -> Reply {
    // A browser that shows the page again within five minutes takes the picture from its cache.
    let caching = if is_shown { "private, max-age=300, no-transform" } else { "private, no-transform" };
    reply
        .text_header(&names::CONTENT_TYPE, file.media_type.as_str())
        .text_header(&names::ETAG, &format!("\"{digest}\""))
        .text_header(&names::ACCEPT_RANGES, "bytes")
        .text_header(&names::REPR_DIGEST, &format!("sha-256=:{}:", BASE64.encode(&file.sha256)))
        .text_header(&names::CONTENT_DISPOSITION, &file.name.disposition())
        .with_header(&names::CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
        .text_header(&names::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'")
        .text_header(&names::CACHE_CONTROL, caching)
        .text_header(&names::REFERRER_POLICY, "no-referrer")
}

impl Delivery {
    /// Parses the ticket of a file. Returns `None` if the ticket is malformed or its signature is invalid. Does not
    /// check whether the ticket has expired.
    fn verify_file_ticket(&self, text: &str) -> Option<Ticket> {
        Ticket::verify(&self.inner.keyring, TicketFor::File, text)
    }
}
