//! Erasure of a customer.

use std::collections::{BTreeMap, BTreeSet};

use super::inbox::{source, text};
use super::rows::{Columns, key_id};
use super::session::{Session, Stale, values};
use crate::email::Email;
use crate::key::KeyId;
use crate::ledger::inbox::{names_buyer, sales_named};
use crate::ledger::plan::ReferenceId;
use crate::ledger::{Action, Deal, Edit};
use crate::store::StoreError;

/// A subquery for the numbers of the keys that had address `$1`. There are two kinds of such keys:
///
/// - keys in which this erasure has already replaced the address by `$2`
/// - keys whose address was corrected earlier. The audit log shows this with the text `was …`, which comes from
///   [`Action::replacing_email`](crate::ledger::Action::replacing_email).
macro_rules! whose {
    () => {
        "(SELECT number FROM delivery_key WHERE lower(email) = CAST($2 AS text) \
            UNION SELECT key FROM delivery_event WHERE action = 'email_changed' AND lower(detail) = 'was ' || CAST($1 AS text))"
    };
}

/// A condition: whether event `i` names a customer of its platform whose address is `$1`. The condition searches the
/// body, which is JSON text, for the customer's reference. So it escapes backslashes and quotation marks in the
/// reference as JSON does.
macro_rules! customers {
    () => {
        "EXISTS (SELECT 1 FROM delivery_customer c WHERE lower(c.email) = CAST($1 AS text) AND c.source = i.source \
            AND replace(body, \
                '\"customer\":\"' || replace(replace(c.reference, '\\', '\\\\'), '\"', '\\\"') || '\"', '') <> body)"
    };
}

/// A condition: whether column `$column` contains address `$1`.
macro_rules! contains {
    ($column:literal) => {
        concat!("replace(lower(", $column, "), CAST($1 AS text), '') <> lower(", $column, ")")
    };
}

/// Selects events that can still be applied and that may name the address `$1`, which must be in lower case. The column
/// `customers` is 1 if an event names a platform's customer with that address.
///
/// The erasure locks these events before it reads the keys. A server that applies an event holds a lock on the event's
/// row until the event's keys are committed. So the erasure sees every key that such an event issued.
///
/// `outcome <> 'issued'` repeats the condition of a partial index. Otherwise the database does not use this index.
const WAITING: &str = concat!(
    "SELECT number, source, body, CAST(CASE WHEN ",
    customers!(),
    " THEN 1 ELSE 0 END AS bigint) AS customers FROM delivery_inbox i \
        WHERE (due_at IS NOT NULL OR outcome = 'ignored' AND outcome <> 'issued' AND \
            reason IN ('dismissed', 'it is about a test purchase', \
                'the money went back before: apply this event if the refund fails')) AND (",
    contains!("body"),
    " OR ",
    customers!(),
    ")"
);

/// Removes the content of event `$1`, so that the event is never applied.
const FORGET_EVENT: &str = "UPDATE delivery_inbox SET body = NULL, due_at = NULL, outcome = 'ignored', \
    reason = 'the customer was erased', version = version + 1 WHERE number = $1";

/// Replaces the facts of deal `$1`, unless its version is no longer `$2`.
const CHANGE_DEAL: &str =
    "UPDATE delivery_deal SET facts = $3, version = version + 1 WHERE number = $1 AND version = $2";

/// Adds a reference to deal `$4`, unless the reference exists.
const ADD_REFERENCE: &str =
    "INSERT INTO delivery_reference (source, kind, name, deal) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

/// Adds deal `$1` with the facts `$2`.
const ADD_DEAL: &str = "INSERT INTO delivery_deal (number, version, facts) VALUES ($1, 1, $2)";

/// Returns whether an event that [`WAITING`] found is about the customer with this address.
fn is_about(row: &impl Columns, email: &Email) -> Result<bool, StoreError> {
    Ok(row.integer("customers")? == 1 || row.text_or_null("body")?.is_some_and(|body| names_buyer(body, email)))
}

/// Returns the references of the sales that an event names.
fn sales_of(row: &impl Columns) -> Result<Vec<ReferenceId>, StoreError> {
    let (source, body) = (source(row)?, row.text_or_null("body")?.unwrap_or_default());
    let named = sales_named(body).into_iter();
    Ok(named.map(|(kind, name)| ReferenceId { source: source.clone(), kind, name }).collect())
}

/// Records in the deals of these sales that the data of the buyer was erased, so that no later event about the sales
/// waits with this data. A sale may have no deal, because none of its events was applied. It then gets one.
async fn erase_from_deals(session: &mut Session<'_>, sales: &BTreeSet<ReferenceId>) -> Result<(), StoreError> {
    loop {
        let loaded = session.deals(sales.iter().cloned().collect()).await?;
        // Deals are changed in the order of their numbers, as other servers do it. But other servers add references
        // after they have locked keys, and in another order. A server that waits for this transaction therefore gives
        // up after its lock timeout and tries again.
        let (mut deals, mut unknown) = (BTreeMap::new(), Vec::new());
        for sale in sales {
            match loaded.deal_named(sale)? {
                Some(row) => {
                    let facts = text(&row.deal.clone().with_buyer_erased())?;
                    deals.insert(row.number, (row.version, facts));
                }
                None => unknown.push(sale),
            }
        }
        let mut is_done = true;
        for (number, (version, facts)) in deals {
            is_done &= session.execute(CHANGE_DEAL, values![number, version, facts]).await? == 1;
        }
        for ReferenceId { source, kind, name } in unknown {
            let number = session.number().await?;
            let reference = values![source.as_str(), kind.as_str(), name.as_str(), number];
            let is_added = session.execute(ADD_REFERENCE, reference).await? == 1;
            if is_added {
                let facts = text(&Deal::default().with_buyer_erased())?;
                session.execute(ADD_DEAL, values![number, facts]).await?;
            }
            is_done &= is_added;
        }
        // Another server may have changed a deal or added a reference meanwhile.
        if is_done {
            return Ok(());
        }
    }
}

/// For keys whose address was corrected earlier: replaces the reason of a revocation if the reason contains the erased
/// address. Returns the ids of the changed keys. Must run before [`ERASE`], which removes the address from the audit
/// log. Without the entries in the audit log, nothing shows which keys had the address.
const ERASE_REASONS: &str = concat!(
    "UPDATE delivery_key SET revoked_reason = CASE WHEN CAST($2 AS text) IS NULL THEN revoked_reason ELSE 'erased' END \
        WHERE number IN ",
    whose!(),
    " AND ",
    contains!("revoked_reason"),
    " RETURNING id"
);

/// The statements that replace address `$1`, in lower case, by `$2`, or delete rows with this address. They run in this
/// order, after [`FORGET_EVENT`]. The first statement returns the ids of the keys that had the address.
const ERASE: [&str; 7] = [
    concat!(
        "UPDATE delivery_key SET email = CAST($2 AS text), \
            revoked_reason = CASE WHEN ",
        contains!("revoked_reason"),
        " THEN 'erased' ELSE revoked_reason END WHERE lower(email) = CAST($1 AS text) RETURNING id"
    ),
    // Deletes only messages about keys that had the address until this erasure. A key whose address was corrected has
    // another buyer, who still gets the messages about the key.
    "DELETE FROM delivery_message WHERE state = 0 AND lower(recipient) = CAST($1 AS text) \
        AND key IN (SELECT number FROM delivery_key WHERE lower(email) = CAST($2 AS text))",
    // The host application's own mailer may quote the address in the reason why a message failed.
    concat!(
        "UPDATE delivery_message SET \
            recipient = CASE WHEN lower(recipient) = CAST($1 AS text) THEN CAST($2 AS text) ELSE recipient END, \
            reason = CASE WHEN ",
        contains!("reason"),
        " THEN 'erased' ELSE reason END WHERE key IN ",
        whose!()
    ),
    concat!(
        "UPDATE delivery_event SET detail = CASE \
            WHEN lower(detail) = 'was ' || CAST($1 AS text) THEN 'was ' || CAST($2 AS text) ELSE 'erased' END WHERE key IN ",
        whose!(),
        // The entry of an address correction is changed only if it contains exactly this address. A longer address that
        // contains this address belongs to another person.
        " AND (lower(detail) = 'was ' || CAST($1 AS text) OR action <> 'email_changed' AND ",
        contains!("detail"),
        ")"
    ),
    // Keeps the alias of a key that still works, because its buyer may have no other text of the key.
    "DELETE FROM delivery_alias WHERE CAST($1 AS text) IS NOT NULL AND key IN \
        (SELECT number FROM delivery_key WHERE lower(email) = CAST($2 AS text) AND revoked_at IS NOT NULL)",
    // `$2` occurs in the last two statements only because every statement gets both parameters.
    "DELETE FROM delivery_customer WHERE lower(email) = CAST($1 AS text) AND CAST($2 AS text) IS NOT NULL",
    "DELETE FROM delivery_lost WHERE lower(email) = CAST($1 AS text) AND CAST($2 AS text) IS NOT NULL",
];

/// Erases a customer. Returns the ids of the keys that had the address until this erasure.
pub(super) async fn erase(
    session: &mut Session<'_>,
    (email, pseudonym): (Email, Email),
    edit: Edit,
) -> Result<Vec<KeyId>, StoreError> {
    const LOCK: &str = "SELECT number FROM delivery_key WHERE lower(email) = $1 ORDER BY number";
    let (dialect, address) = (session.dialect(), email.as_str().to_ascii_lowercase());
    let mut sales = BTreeSet::new();
    for event in session.rows(&dialect.locking(WAITING), values![address.as_str()]).await? {
        if is_about(&event, &email)? {
            sales.extend(sales_of(&event)?);
            session.execute(FORGET_EVENT, values![event.integer("number")?]).await?;
        }
    }
    erase_from_deals(session, &sales).await?;
    // A server that queues an e-mail about a key locks the key. So after this lock, the statements below see every such
    // e-mail and erase it too.
    session.rows(&dialect.locking(LOCK), values![address.as_str()]).await?;
    let both = || values![address.as_str(), pseudonym.as_str()];
    let reasons = session.rows(ERASE_REASONS, both()).await?;
    let mut changed = reasons.iter().map(key_id).collect::<Result<Vec<_>, _>>()?;
    let mut erased = Vec::new();
    for statement in ERASE {
        let keys = session.rows(statement, both()).await?;
        erased.extend(keys.iter().map(key_id).collect::<Result<Vec<_>, _>>()?);
    }
    let detail = Some(pseudonym.as_str().to_owned());
    session.log((None, None), Action::CustomerErased, &Edit { detail, ..edit }).await?;
    changed.extend_from_slice(&erased);
    session.changed(Stale::Keys(changed));
    Ok(erased)
}
