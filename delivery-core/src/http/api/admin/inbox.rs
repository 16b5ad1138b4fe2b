//! The endpoints for the events of commerce platforms. The seller can list the events with their outcomes, apply an
//! event again, and dismiss events.

use super::refs::platform_named;
use super::{LISTING, before, command, done, explained, number, page_size, query, wire};
use crate::delivery::Delivery;
use crate::http::describe::{Body, CUSTOMER_EMAIL, EVENT_ID, PLATFORM, PRODUCT_ID, PRODUCT_REF, shape};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::filters;
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::http::{Call, Reply, parameter};
use crate::product::{ProductId, RefName};
use crate::store::InboxQuery;
use crate::text::Invalid;

pub(in crate::http) static INBOX: Row = query(
    "/api/admin/inbox",
    LISTING,
    |delivery, _, call| Box::pin(inbox(delivery, call)),
    Docs {
        id: "listInbox",
        summary: "Events of platforms",
        description: "Newest first, each with its outcome. Events that are done are deleted after 30 days.",
        parameters: &[
            parameter::OUTCOME,
            parameter::PLATFORM,
            parameter::SINCE,
            parameter::UNTIL,
            parameter::BEFORE,
            parameter::PAGE_SIZE,
        ],
        success: shape!(wire::Inbox<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static APPLY_EVENT: Row = command(
    "/api/admin/inbox/apply",
    |delivery, seller, fields| Box::pin(apply(delivery, seller, fields)),
    Docs {
        id: "applyEvent",
        summary: "Apply an event again",
        description: "Applies an event that was not applied yet, needs attention or was dismissed, or one about a test \
            purchase or about a sale whose refund came first. You can add the buyer's address and the product if the \
            event lacks them. Any other event is done, and is left as it is.",
        body: Some(Body {
            name: "ApplyEvent",
            about: "An event to apply again.",
            fields: &[
                EVENT_ID.required(),
                CUSTOMER_EMAIL.about("The buyer's e-mail address, if the event has no usable one."),
                PRODUCT_ID.about("The product that was bought, if the event names no product that is sold here."),
            ],
            example: r#"{"id":"1878913024000000012","product_id":1}"#,
        }),
        success: shape!(wire::Done),
        ..Docs::SELLER
    },
);

pub(in crate::http) static DISMISS_EVENT: Row = command(
    "/api/admin/inbox/dismiss",
    |delivery, seller, fields| Box::pin(dismiss(delivery, seller, fields)),
    Docs {
        id: "dismissEvent",
        summary: "Dismiss an event, or all events of a product",
        description: "Dismisses one event, or all past and future events of a product that is not sold here. Their \
            outcome is then `ignored`, and the reason is `dismissed`. To undo this, apply one of the events again, and \
            then each other event that was dismissed. If a product that is sold here has the name, its events are not \
            dismissed.",
        body: Some(Body {
            name: "DismissEvent",
            about: "The event to dismiss, by its `id`; or all events of a product, by `platform` and `product_ref`.",
            fields: &[EVENT_ID, PLATFORM, PRODUCT_REF],
            example: r#"{"platform":"stripe","product_ref":"plink_1"}"#,
        }),
        success: shape!(wire::Done),
        ..Docs::SELLER
    },
);

async fn inbox(delivery: &Delivery, call: &Call) -> Result<Reply, ApiError> {
    let query = InboxQuery { before: before(call)?, limit: page_size(call)?, ..filters::inbox(call)? };
    Ok(Reply::json(&wire::Inbox::of(&delivery.events(&query).await?)))
}

async fn apply(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let event = number(EVENT_ID, &fields.required_text(EVENT_ID)?)?;
    let email = fields.parsed(CUSTOMER_EMAIL)?;
    let product = fields.integer(PRODUCT_ID, ProductId::new)?;
    if let Some(product) = product {
        let found = delivery.product(product).await?;
        found.filter(|product| !product.is_archived()).ok_or(ApiError::NOT_FOUND)?;
    }
    done(delivery.desk(seller.actor()).apply_event(event, email, product).await.map_err(explained)?)
}

async fn dismiss(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let desk = delivery.desk(seller.actor());
    let (event, platform) = (fields.text_of(EVENT_ID)?, fields.text_of(PLATFORM)?);
    let dismissed = match (event, platform, fields.parsed::<RefName>(PRODUCT_REF)?) {
        (Some(event), None, None) => desk.dismiss_event(number(EVENT_ID, &event)?).await.map_err(explained)?,
        (Some(_), ..) => return Err(Fault::invalid("Send id, or platform and product_ref, not both.").into()),
        (None, Some(platform), Some(name)) => {
            let source = platform_named(delivery, &platform);
            let expected = || Fault::malformed(PLATFORM.name, Invalid::expected("must be a platform such as stripe"));
            desk.dismiss_product(&source.ok_or_else(expected)?, &name).await?;
            true
        }
        (None, None, None) => return Err(Fault::missing(EVENT_ID.name).into()),
        (None, None, Some(_)) => return Err(Fault::missing(PLATFORM.name).into()),
        (None, Some(_), None) => return Err(Fault::missing(PRODUCT_REF.name).into()),
    };
    done(dismissed)
}
