//! The seller's endpoints for messages, for the audit log, for daily figures, and for erasing a customer.

use super::{LISTING, before, command, done, number, page_size, query, wire};
use crate::delivery::Delivery;
use crate::http::api::lost::THE_CUSTOMER;
use crate::http::describe::{Body, CUSTOMER_EMAIL, MESSAGE_ID, shape};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::filters;
use crate::http::proof::Seller;
use crate::http::row::{Docs, Row};
use crate::http::{Call, Reply, parameter};
use crate::ledger::MessageNumber;
use crate::store::{AuditQuery, MessageQuery};

pub(in crate::http) static MESSAGES: Row = query(
    "/api/admin/messages",
    LISTING,
    |delivery, seller, call| Box::pin(messages(delivery, seller, call)),
    Docs {
        id: "listMessages",
        summary: "Messages",
        description: "E-mails to buyers, and webhooks of the host application, newest first.",
        parameters: &[
            parameter::STATE,
            parameter::OF_KEY,
            parameter::SINCE,
            parameter::UNTIL,
            parameter::BEFORE,
            parameter::PAGE_SIZE,
        ],
        success: shape!(wire::Messages<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static RETRY_MESSAGE: Row = command(
    "/api/admin/message/retry",
    |delivery, seller, fields| Box::pin(retry(delivery, seller, fields)),
    Docs {
        id: "retryMessage",
        summary: "Retry a failed message",
        description: "Queues the message again and counts its attempts anew. A message that is queued or was sent is \
            left as it is.",
        body: Some(Body {
            name: "TheMessage",
            about: "A message.",
            fields: &[MESSAGE_ID.required()],
            example: r#"{"id":"1878913024000000007"}"#,
        }),
        success: shape!(wire::Done),
        ..Docs::SELLER
    },
);

pub(in crate::http) static AUDIT: Row = query(
    "/api/admin/events",
    LISTING,
    |delivery, seller, call| Box::pin(audit(delivery, seller, call)),
    Docs {
        id: "listEvents",
        summary: "The audit log",
        description: "Who changed what, newest first. Sales are not in the log, because each key shows its own sale.",
        parameters: &[
            parameter::OF_KEY,
            parameter::ACTOR,
            parameter::ACTION,
            parameter::SINCE,
            parameter::UNTIL,
            parameter::BEFORE,
            parameter::PAGE_SIZE,
        ],
        success: shape!(wire::AuditLog<'_>),
        ..Docs::SELLER
    },
);

pub(in crate::http) static STATS: Row = query(
    "/api/admin/stats",
    LISTING,
    |delivery, seller, call| Box::pin(stats(delivery, seller, call)),
    Docs {
        id: "showStats",
        summary: "Figures of the shop",
        description: "What happened on each of the last days, today first, and the number of keys by product and by \
            status. Days are in UTC.",
        parameters: &[parameter::DAYS],
        success: shape!(wire::Stats),
        ..Docs::SELLER
    },
);

pub(in crate::http) static ERASE: Row = command(
    "/api/admin/customer/erase",
    |delivery, seller, fields| Box::pin(erase(delivery, seller, fields)),
    Docs {
        id: "eraseCustomer",
        summary: "Forget a person",
        description: "In keys, messages and the audit log, `erased-…@erased.invalid` replaces the address. Messages to \
            the person that wait to be sent are deleted, and so is the content of platform events about the person \
            that can still be applied. No key is revoked. Orders that are sent again are answered as before.",
        body: Some(THE_CUSTOMER),
        success: shape!(wire::Done),
        ..Docs::SELLER
    },
);

async fn messages(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    let before = before(call)?.map(MessageNumber::new);
    let query = MessageQuery { before, limit: page_size(call)?, ..filters::messages(call)? };
    Ok(Reply::json(&wire::Messages::of(&delivery.desk(seller.actor()).messages(&query).await?)))
}

async fn retry(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let message = MessageNumber::new(number(MESSAGE_ID, &fields.required_text(MESSAGE_ID)?)?);
    let desk = delivery.desk(seller.actor());
    if desk.retry_message(message).await? {
        return done(true);
    }
    // The retry changed nothing, because the message does not exist or has not failed. Look the message up, because
    // only a message that does not exist is a 404.
    let before = message.get().checked_add(1).map(MessageNumber::new);
    let found = desk.messages(&MessageQuery { before, limit: 1, ..MessageQuery::default() }).await?.items;
    done(found.iter().any(|found| found.message == message))
}

async fn audit(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    let query = AuditQuery { before: before(call)?, limit: page_size(call)?, ..filters::audit(call)? };
    Ok(Reply::json(&wire::AuditLog::of(&delivery.desk(seller.actor()).audit(&query).await?)))
}

async fn stats(delivery: &Delivery, seller: Seller, call: &Call) -> Result<Reply, ApiError> {
    let in_range = |days: i64| {
        let days = u32::try_from(days).ok().filter(|_| (1..=parameter::MOST_DAYS).contains(&days));
        days.ok_or(parameter::EXPECTED_DAYS)
    };
    let days = parameter::DAYS.integer(call, in_range)?.unwrap_or(parameter::DEFAULT_DAYS);
    let today = delivery.inner.clock.now().date_naive();
    let figures = delivery.desk(seller.actor()).figures(days).await?;
    Ok(Reply::json(&wire::Stats::of(&figures, today, days)))
}

async fn erase(delivery: &Delivery, seller: Seller, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let email = fields.parsed(CUSTOMER_EMAIL)?.ok_or_else(|| Fault::missing(CUSTOMER_EMAIL.name))?;
    delivery.desk(seller.actor()).erase(&email).await?;
    done(true)
}
