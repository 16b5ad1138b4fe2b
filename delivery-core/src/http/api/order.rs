//! `POST /api/webhook/order`: a paid order, from a sender that knows the shared secret.

use std::time::Duration;

use super::admin::CHANGING;
use super::wire;
use crate::delivery::Delivery;
use crate::http::Reply;
use crate::http::body::BodyRule;
use crate::http::describe::{Body, CUSTOMER_EMAIL, Field, ORDER_ID, PRODUCT_ID, SECRET, shape};
use crate::http::error::ApiError;
use crate::http::fields::{Fault, Fields};
use crate::http::proof::SharedSecret;
use crate::http::row::{Docs, Handler, Row, Verb};
use crate::limit::Policy;
use crate::order::{Order, OrderRef, Source};
use crate::product::ProductId;

pub(in crate::http) static ORDER: Row = Row {
    path: "/api/webhook/order",
    verb: Verb::Post,
    // 10 seconds are enough, because platforms send the whole body within a few round trips.
    body: BodyRule::Read { limit: 64 << 10, deadline: Duration::from_secs(10) },
    limit: Some(Policy::Webhook),
    cross_origin: false,
    handler: Handler::SharedSecret(|delivery, proof, fields| Box::pin(order(delivery, proof, fields))),
    codes: CHANGING,
    openapi: Docs {
        tag: "platform",
        id: "order",
        summary: "Report a paid order",
        description: "Issues one key and sends it to the buyer. If you send the same order and product again, however \
            often, the answer has the same key, and the buyer gets no second e-mail.",
        body: Some(Body {
            name: "Order",
            about: "A paid order, as the platform reports it.",
            fields: &[SECRET, ORDER_ID.required(), PRODUCT_ID.required(), CUSTOMER_EMAIL.required()],
            example: r#"{"secret":"the-platforms-secret","order_id":"2026-1001","product_id":1,"customer_email":"ada@example.com"}"#,
        }),
        success: shape!(wire::Ordered<'_>),
        ..Docs::EMPTY
    },
};

async fn order(delivery: &Delivery, _: SharedSecret, fields: Fields<'_>) -> Result<Reply, ApiError> {
    let issued = delivery.order(parse(&fields)?).await?;
    Ok(Reply::json(&wire::Ordered::of(&issued, true)))
}

fn parse(fields: &Fields<'_>) -> Result<Order, Fault> {
    let missing = |field: Field| move || Fault::missing(field.name);
    Ok(Order {
        reference: OrderRef { source: Source::webhook(), id: fields.parsed(ORDER_ID)?.ok_or_else(missing(ORDER_ID))? },
        product: fields.integer(PRODUCT_ID, ProductId::new)?.ok_or_else(missing(PRODUCT_ID))?,
        email: fields.parsed(CUSTOMER_EMAIL)?.ok_or_else(missing(CUSTOMER_EMAIL))?,
    })
}
