//! The seller's endpoint for exports: a list as a CSV table, or everything that is known about one person as JSON.

use super::{LIST, NEEDING};
use crate::delivery::Delivery;
use crate::http::describe::{CUSTOMER_EMAIL, shape};
use crate::http::error::ApiError;
use crate::http::export::{person, table};
use crate::http::fields::Fault;
use crate::http::filters::parsed;
use crate::http::proof::Seller;
use crate::http::row::{Docs, Handler, Parameter, Row};
use crate::http::{Call, Reply};

pub(in crate::http) static EXPORT: Row = Row {
    path: "/api/admin/export",
    codes: NEEDING,
    openapi: Docs {
        id: "export",
        summary: "A list as a table, or all that is known of one person",
        description: "A list is CSV (RFC 4180, UTF-8 with a byte order mark) with the filters of the list. `uses` has the uses of the \
            keys that the filters of `keys` match, key by key. The other lists are newest first. The columns have the names and values \
            of the list, and the name of the product; a limit of -1 is `unlimited`. A cell that begins with `=`, `+`, `-`, `@`, a tab \
            or a carriage return has an apostrophe before it, so that no spreadsheet takes it for a formula. The table is sent while it \
            is read. If that fails, the last line says that the table is incomplete. `what=person` is JSON.",
        parameters: &[
            Parameter::What,
            Parameter::Email,
            Parameter::EmailPrefix,
            Parameter::OrderId,
            Parameter::Source,
            Parameter::OfProduct,
            Parameter::Status,
            Parameter::OfKey,
            Parameter::State,
            Parameter::Outcome,
            Parameter::Platform,
            Parameter::Actor,
            Parameter::Action,
            Parameter::Since,
            Parameter::Until,
            Parameter::Person,
        ],
        success: shape!(super::wire::Person<'_>),
        ..LIST.openapi
    },
    handler: Handler::SellerQuery(|delivery, seller, call| Box::pin(export(delivery, seller, call))),
    ..LIST
};

async fn export(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    let (table, email) = (table(delivery, call)?, parsed(call, CUSTOMER_EMAIL.name)?);
    if let Some(table) = table {
        return table.reply(delivery, seller.actor()).await;
    }
    person(delivery, seller.actor(), &email.ok_or_else(|| Fault::missing(CUSTOMER_EMAIL.name))?).await
}
