//! The types of replies about keys: what a buyer sees of a key, and a key that was issued.

use serde::Serialize;

use crate::clock::timestamp;
use crate::delivery::Issued;
use crate::key::Key;

/// The product, the expiry and the uses of a key.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Status {
    product_id: i64,
    /// UTC, in whole seconds; 9999-12-31T23:59:59Z for a key that never expires.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: String,
    used_count: u64,
    /// -1: unlimited.
    remaining_uses: i64,
}

impl Status {
    pub(super) fn of(key: &Key) -> Self {
        Self {
            product_id: key.product().get(),
            expires_at: timestamp(key.expires_at()),
            used_count: key.used(),
            remaining_uses: remaining(key),
        }
    }
}

/// A key that is valid now.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Valid {
    valid: bool,
    #[serde(flatten)]
    status: Status,
}

impl Valid {
    pub(in crate::http) fn of(key: &Key) -> Self {
        Self { valid: true, status: Status::of(key) }
    }
}

/// The key of a purchase.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct Ordered<'a> {
    success: bool,
    api_key: &'a str,
    message: String,
}

impl<'a> Ordered<'a> {
    pub(in crate::http) fn of(issued: &'a Issued, mailed: bool) -> Self {
        let email = issued.key.email();
        let message = if mailed {
            format!("The key was sent to {email}.")
        } else {
            format!("The key for {email} was issued and not sent.")
        };
        Self { success: true, api_key: issued.text.expose(), message }
    }
}

/// A key and its terms.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(in crate::http) struct IssuedByHand<'a> {
    #[serde(flatten)]
    ordered: Ordered<'a>,
    product_id: i64,
    customer_email: &'a str,
    /// UTC, in whole seconds; 9999-12-31T23:59:59Z for a key that never expires.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: String,
    /// -1: unlimited.
    max_uses: i64,
    used_count: u64,
    /// -1: unlimited.
    remaining_uses: i64,
}

impl<'a> IssuedByHand<'a> {
    pub(in crate::http) fn of(issued: &'a Issued, mailed: bool) -> Self {
        let key = &issued.key;
        Self {
            ordered: Ordered::of(issued, mailed),
            product_id: key.product().get(),
            customer_email: key.email().as_str(),
            expires_at: timestamp(key.expires_at()),
            max_uses: key.limit().as_count(),
            used_count: key.used(),
            remaining_uses: remaining(key),
        }
    }
}

/// Returns the remaining uses of a key, or -1 if its uses are unlimited.
pub(in crate::http) fn remaining(key: &Key) -> i64 {
    key.remaining().map_or(-1, |remaining| i64::try_from(remaining).unwrap_or(i64::MAX))
}
