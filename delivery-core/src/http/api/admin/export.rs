//! The seller's endpoint for exports.

use ::http::HeaderValue;

use super::keys::filters;
use super::{LIST, parsed, wire};
use crate::delivery::Delivery;
use crate::email::Email;
use crate::error::ErrorCode;
use crate::http::describe::{CUSTOMER_EMAIL, shape};
use crate::http::error::ApiError;
use crate::http::export::{ROWS, Table};
use crate::http::fields::Fault;
use crate::http::proof::Seller;
use crate::http::row::{Docs, Handler, Parameter, Row};
use crate::http::{Call, Reply, names, query};
use crate::key::Actor;
use crate::store::{AuditQuery, InboxQuery, KeyQuery, MessageQuery};
use crate::text::Invalid;

pub(in crate::http) static EXPORT: Row = Row {
    path: "/api/admin/export",
    codes: &[
        ErrorCode::MissingParams,
        ErrorCode::InvalidParams,
        ErrorCode::Unauthorized,
        ErrorCode::NotFound,
        ErrorCode::MethodNotAllowed,
        ErrorCode::RateLimited,
        ErrorCode::Internal,
        ErrorCode::Unavailable,
    ],
    openapi: Docs {
        id: "export",
        summary: "A list as a table, or all that is known of one person",
        description: "A list is CSV (RFC 4180, UTF-8 with a byte order mark), newest first, with the filters of the list, and is sent \
            while it is read. The columns are the fields of the list. A limit of -1 is `unlimited`. A cell that begins with `=`, `+`, \
            `-`, `@`, a tab or a carriage return has an apostrophe before it, so that no spreadsheet takes it for a formula. \
            `what=person` is JSON.",
        parameters: &[
            Parameter::What,
            Parameter::Email,
            Parameter::OrderId,
            Parameter::Source,
            Parameter::OfProduct,
            Parameter::Status,
            Parameter::OfKey,
            Parameter::State,
            Parameter::Outcome,
            Parameter::Person,
        ],
        success: shape!(wire::Person<'_>),
        ..LIST.openapi
    },
    handler: Handler::SellerQuery(|delivery, seller, call| Box::pin(export(delivery, seller, call))),
    ..LIST
};

async fn export(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    if query::parameter(call, "what")?.as_deref() == Some("person") {
        let email = parsed(call, CUSTOMER_EMAIL.name)?.ok_or_else(|| Fault::missing(CUSTOMER_EMAIL.name))?;
        return person(delivery, seller.actor(), &email).await;
    }
    table(delivery, call)?.reply(delivery, seller.actor()).await
}

/// Returns the reply with all that is known of one person.
pub(in crate::http) async fn person(delivery: &Delivery, actor: &Actor, email: &Email) -> Result<Reply, ApiError> {
    let known = delivery.desk(actor).person(email).await?;
    let file = HeaderValue::from_static("attachment; filename=\"person.json\"");
    let person = wire::Person::of(email, &known, delivery.inner.clock.now());
    Ok(Reply::json(&person).with_header(&names::CONTENT_DISPOSITION, file))
}

/// Returns the table for which a call asks.
pub(in crate::http) fn table(delivery: &Delivery, call: &Call) -> Result<Table, ApiError> {
    const WHAT: Invalid = Invalid::expected("must be keys, uses, events, inbox, messages or person");
    let what = query::parameter(call, "what")?.ok_or_else(|| Fault::missing("what"))?;
    let keys = || filters(delivery, call).map(|filters| KeyQuery { limit: ROWS, ..filters });
    let key = || parsed(call, "key_id");
    Ok(match &*what {
        "keys" => Table::Keys(keys()?),
        "uses" => Table::Uses(Some(keys()?)),
        "events" => Table::Events(AuditQuery { key: key()?, before: None, limit: ROWS }),
        "inbox" => Table::Inbox(InboxQuery { outcome: parsed(call, "outcome")?, before: None, limit: ROWS }),
        "messages" => {
            Table::Messages(MessageQuery { state: parsed(call, "state")?, key: key()?, before: None, limit: ROWS })
        }
        _ => return Err(Fault::malformed("what", WHAT).into()),
    })
}
