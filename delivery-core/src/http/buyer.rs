//! `GET /api/validate` and `GET /api/product`.

use ::http::Method;

use super::fields::{Fault, integer};
use super::limits::{admit, client};
use super::{Call, Reply, query, wire};
use crate::delivery::{Delivery, Error};
use crate::error::ErrorCode;
use crate::limit::{Identity, Policy};
use crate::product::ProductId;

/// Parameters, then the key.
pub(super) async fn validate(delivery: &Delivery, call: &Call) -> Reply {
    let key = match query::key(call) {
        Ok(key) => key,
        Err(fault) => return fault.into(),
    };
    match delivery.validate(&key).await {
        Ok(key) => Reply::json(&wire::Valid::of(&key)),
        Err(error) => not_valid(&error),
    }
}

/// Parameters, then the key's signature, then the per-key limit, then the key itself.
pub(super) async fn product(delivery: &Delivery, call: &Call) -> Reply {
    let (key, product) = match parameters(call) {
        Ok(parameters) => parameters,
        Err(fault) => return fault.into(),
    };
    let Some(id) = delivery.verify(&key) else {
        return match admit(delivery, Policy::Failures, client(delivery, call)).await {
            Ok(ticket) => ticket.stamp(Error::UnknownKey.into()),
            Err(refused) => *refused,
        };
    };
    let ticket = match admit(delivery, Policy::Product, Identity::Key(id.as_u128())).await {
        Ok(ticket) => ticket,
        Err(refused) => return *refused,
    };
    let found =
        if call.method == Method::HEAD { delivery.peek(id, product).await } else { delivery.fetch(id, product).await };
    ticket.stamp(match found {
        Ok(product) => Reply::encoded(product.encoded(|product| wire::encode(&wire::Fetched::of(product)))),
        Err(error) => error.into(),
    })
}

fn parameters(call: &Call) -> Result<(std::borrow::Cow<'_, str>, ProductId), Fault> {
    let key = query::key(call)?;
    let product = query::parameter(call, "product_id")?.ok_or_else(|| Fault::missing("product_id"))?;
    Ok((key, integer("product_id", &product, ProductId::new)?))
}

/// Refusals say `"valid":false` too, and those of a known key show it.
fn not_valid(error: &Error) -> Reply {
    let code = error.code();
    let key = match error {
        Error::Refused { key, .. } => Some(key.as_ref()),
        _ => None,
    };
    match code {
        ErrorCode::Unavailable | ErrorCode::Internal => error.clone().into(),
        code => {
            let reply = Reply::json(&wire::Failure::new(code, code.message()).not_valid(key)).with_status(code);
            if code == ErrorCode::InvalidKey { reply.challenge() } else { reply }
        }
    }
}
