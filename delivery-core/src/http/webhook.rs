//! `POST /api/webhook/order`.

use super::fields::{Fault, Fields};
use super::{Body, Call, Reply, wire};
use crate::delivery::Delivery;
use crate::error::ErrorCode;
use crate::order::{Order, OrderRef, Source};
use crate::product::ProductId;

/// Size and type, secret, fields, product.
pub(super) async fn order(delivery: &Delivery, call: &Call, body: &Body) -> Reply {
    let order = match parse(delivery, call, body) {
        Ok(order) => order,
        Err(fault) => return fault.into(),
    };
    match delivery.order(order).await {
        Ok(issued) => Reply::json(&wire::Ordered::of(&issued, true)),
        Err(error) => error.into(),
    }
}

/// A stranger learns nothing about fields: the secret is judged before any other.
fn parse(delivery: &Delivery, call: &Call, body: &Body) -> Result<Order, Fault> {
    let fields = Fields::parse(Fields::text(call, body)?)?;
    if !delivery.inner.webhook_secret.matches(&fields.required_text("secret")?) {
        return Err(ErrorCode::Unauthorized.into());
    }
    let missing = |field| move || Fault::missing(field);
    Ok(Order {
        reference: OrderRef {
            source: Source::webhook(),
            id: fields.parsed("order_id")?.ok_or_else(missing("order_id"))?,
        },
        product: fields.integer("product_id", ProductId::new)?.ok_or_else(missing("product_id"))?,
        email: fields.parsed("customer_email")?.ok_or_else(missing("customer_email"))?,
    })
}
