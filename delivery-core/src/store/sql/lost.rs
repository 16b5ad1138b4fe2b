//! Requests of buyers who have lost their keys, as rows.

/// The oldest requests, at most `$1`.
pub(in crate::store) const WAITING: &str = "SELECT number, email FROM delivery_lost ORDER BY number LIMIT $1";

/// The newest key of address `$1`, in lower case, that is not revoked. Who was forgotten is told nothing.
pub(in crate::store) const NEWEST: &str = "SELECT number, email FROM delivery_key \
    WHERE lower(email) = $1 AND revoked_at IS NULL AND email NOT LIKE 'erased-%@erased.invalid' ORDER BY id DESC LIMIT 1";

/// Whether address `$1`, in lower case, was sent its keys after millisecond `$2`.
pub(in crate::store) const RECENT: &str = "SELECT 1 FROM delivery_key k JOIN delivery_message m ON m.key = k.number \
    WHERE lower(k.email) = $1 AND m.kind = 'lost' AND m.queued_at > $2 LIMIT 1";

pub(in crate::store) const DONE: &str = "DELETE FROM delivery_lost WHERE number = $1";
