//! The key of a request to a route of the host's own.

use super::limits::{admit, client};
use super::{Call, Reply, query};
use crate::delivery::{Delivery, Error};
use crate::key::Key;
use crate::limit::Policy;

/// The key of `call`, if it is valid now; counts no use.
///
/// Keys that do not verify count against the `failures` quota of their address, as on `/api/product`, so that a
/// host's own routes are no better place for guessing.
///
/// # Errors
///
/// The API's own answer: 400, 401, 403, 429 or 503.
pub async fn granted(delivery: &Delivery, call: &Call) -> Result<Key, Box<Reply>> {
    let confidential = |reply: Reply| Box::new(reply.confidential());
    let text = query::key(call).map_err(|fault| confidential(fault.into()))?;
    if delivery.verify(&text).is_none() {
        return Err(match admit(delivery, Policy::Failures, client(delivery, call)).await {
            Ok(ticket) => confidential(ticket.stamp(Error::UnknownKey.into())),
            Err(refused) => confidential(*refused),
        });
    }
    delivery.validate(&text).await.map_err(|error| confidential(error.into()))
}
