//! The seller's endpoint for exports: a list as a CSV table, or everything that is known about one person as JSON.

use super::{NEEDING, query};
use crate::delivery::Delivery;
use crate::http::describe::shape;
use crate::http::error::ApiError;
use crate::http::export::{person, table};
use crate::http::fields::Fault;
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::http::{Call, Reply, parameter};

pub(in crate::http) static EXPORT: Row = query(
    "/api/admin/export",
    NEEDING,
    |delivery, seller, call| Box::pin(export(delivery, seller, call)),
    Docs {
        id: "export",
        summary: "Export a list as CSV, or the data about one person",
        description: "`what=person` returns JSON. Every other value returns the list as CSV (RFC 4180, UTF-8 with a \
            byte order mark) and takes the filters of that list. `uses` takes the filters of `keys`, and returns the \
            uses of the keys that match, key by key. The other lists are newest first. The columns have the names and \
            values of the list. `keys` and `uses` also have the name of the product. A number of -1 is written as \
            `unlimited`. A cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an apostrophe in \
            front, so that no spreadsheet takes it for a formula. The table is sent while the list is read. If reading \
            fails, the last line says that the table is incomplete.",
        parameters: &[
            parameter::WHAT,
            parameter::EMAIL,
            parameter::EMAIL_PREFIX,
            parameter::ORDER_ID,
            parameter::SOURCE,
            parameter::OF_PRODUCT,
            parameter::STATUS,
            parameter::OF_KEY,
            parameter::STATE,
            parameter::OUTCOME,
            parameter::PLATFORM,
            parameter::ACTOR,
            parameter::ACTION,
            parameter::SINCE,
            parameter::UNTIL,
            parameter::PERSON,
        ],
        success: shape!(super::wire::Person<'_>),
        has_csv: true,
        ..Docs::SELLER
    },
);

async fn export(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    let (table, email) = (table(delivery, call)?, parameter::PERSON.parsed(call)?);
    if let Some(table) = table {
        return table.reply(delivery, seller.actor()).await;
    }
    person(delivery, seller.actor(), &email.ok_or_else(|| Fault::missing(parameter::PERSON.name))?).await
}
