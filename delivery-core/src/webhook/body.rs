//! The body of a webhook request.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::clock::timestamp;
use crate::key::{Key, Reason};
use crate::ledger::MessageKind;

#[derive(Serialize)]
struct Body<'k> {
    r#type: &'static str,
    timestamp: String,
    data: Data<'k>,
}

/// What a request contains about a key. The key's text, which is secret, is left out.
#[derive(Serialize)]
struct Data<'k> {
    id: String,
    product_id: i64,
    customer_email: &'k str,
    source: Option<&'k str>,
    order_id: Option<&'k str>,
    status: &'static str,
    issued_at: String,
    expires_at: String,
    max_uses: i64,
    used_count: u64,
    remaining_uses: i64,
    revoked_at: Option<String>,
    revoked_reason: Option<&'k str>,
    host_ref: Option<&'k str>,
}

/// Returns the JSON body of a message about `key`. The message was queued at `queued_at`. The body contains the status
/// that the key has at `now`.
pub(super) fn body(kind: MessageKind, queued_at: DateTime<Utc>, key: &Key, now: DateTime<Utc>) -> Bytes {
    let granted = key.granted();
    let revoked = key.state().revoked.as_deref();
    let data = Data {
        id: key.id().to_string(),
        product_id: key.product().get(),
        customer_email: key.email().as_str(),
        source: granted.order.as_ref().map(|order| order.source.as_str()),
        order_id: granted.order.as_ref().map(|order| order.id.as_str()),
        status: key.status(now).as_str(),
        issued_at: timestamp(granted.issued_at),
        expires_at: timestamp(key.expires_at()),
        max_uses: key.limit().as_count(),
        used_count: key.used(),
        remaining_uses: key.remaining().map_or(-1, |left| i64::try_from(left).unwrap_or(i64::MAX)),
        revoked_at: revoked.map(|revoked| timestamp(revoked.at)),
        revoked_reason: revoked.and_then(|revoked| revoked.reason.as_ref()).map(Reason::as_str),
        host_ref: granted.host_ref.as_ref().map(crate::HostRef::as_str),
    };
    let body = Body { r#type: kind.as_str(), timestamp: timestamp(queued_at), data };
    // This cannot fail, because the body consists of numbers and text only.
    serde_json::to_vec(&body).map(Bytes::from).unwrap_or_default()
}
