//! E-mails about keys that expire soon.

use std::collections::HashSet;

use super::messages::{queue, skew};
use super::rows::{Columns, key_id, parsed, product_id, seconds};
use super::session::{Database, Patience, Session, values};
use super::statements::limit;
use crate::ledger::MessageKind;
use crate::ledger::plan::{Loaded, ReferenceId, number_at};
use crate::order::OrderRef;
use crate::store::{ExpiryScan, StoreError};

/// Selects valid keys that expire after second `$1` and no later than second `$2`, and whose buyers were not notified
/// of this expiry time yet. Selects at most `$3` keys, those that expire first. The column `silent` is 1 for erased
/// customers, who get no e-mail.
///
/// The notice period is the time from `$1` to `$2`. A key whose whole validity is shorter than the notice period is
/// skipped, because its buyer would get the e-mail right after the purchase. If the expiry time was changed after the
/// sale, the longer validity counts: that at the sale, or the present one.
const EXPIRING: &str = "SELECT number, id, product, source, order_id, expires_at, email, \
        CAST(CASE WHEN email LIKE 'erased-%@erased.invalid' THEN 1 ELSE 0 END AS bigint) AS silent FROM delivery_key \
    WHERE state = 0 AND told = 0 AND expires_at > $1 AND expires_at <= $2 \
        AND CASE WHEN granted_until > expires_at THEN granted_until ELSE expires_at END - issued_at >= $2 - $1 \
    ORDER BY expires_at LIMIT $3";

/// Returns references that identify the [deals](crate::ledger::Deal) of keys found by [`EXPIRING`]. A deal is what a
/// platform has reported about one sale or subscription.
fn deals_of(rows: &[impl Columns]) -> Result<HashSet<ReferenceId>, StoreError> {
    rows.iter().filter_map(|row| deal_of(row).transpose()).collect()
}

/// Returns whether the buyer of a key found by [`EXPIRING`] gets no e-mail. That is the case if the customer was erased
/// or if a subscription renews the key.
fn is_silent(row: &impl Columns, deals: &Loaded) -> Result<bool, StoreError> {
    if row.integer("silent")? != 0 {
        return Ok(true);
    }
    let Some(reference) = deal_of(row)? else { return Ok(false) };
    let product = product_id(row.integer("product")?)?;
    let deal = deals.deal_named(&reference)?;
    Ok(deal.is_some_and(|row| row.deal.subscription(reference.name.as_str(), product).is_some()))
}

fn deal_of(row: &impl Columns) -> Result<Option<ReferenceId>, StoreError> {
    let (Some(source), Some(id)) = (row.text_or_null("source")?, row.text_or_null("order_id")?) else {
        return Ok(None);
    };
    let order = OrderRef { source: parsed(source.parse(), "order source")?, id: parsed(id.parse(), "order number")? };
    Ok(ReferenceId::of_sale(&order))
}

/// Returns whether [`EXPIRING`] finds a key.
pub(super) async fn are_any(database: &impl Database, scan: &ExpiryScan) -> Result<bool, StoreError> {
    let wanted = values![scan.now.timestamp(), scan.until.timestamp(), 1];
    Ok(database.read(Patience::Usual, |session| Box::pin(session.row(EXPIRING, wanted))).await?.is_some())
}

/// The maximum number of keys in one transaction. Each key adds four parameters to the statement that queues the
/// e-mails, and databases limit the number of parameters.
const MOST: usize = 500;

/// Queues the e-mails about keys that expire soon. Records the expiry time in the row of each of these keys, so that
/// [`EXPIRING`] does not find the key again, even if its buyer gets no e-mail. Returns the number of these keys.
/// Executes few statements, because the keys are locked until the commit.
pub(super) async fn notify(session: &mut Session<'_>, scan: ExpiryScan) -> Result<usize, StoreError> {
    let dialect = session.dialect();
    let most = limit(scan.limit.min(MOST));
    // Skips keys that another transaction has locked: keys about which another server is queueing e-mails, and keys
    // that are being used.
    let due = dialect.skipping(EXPIRING);
    let due = session.rows(&due, values![scan.now.timestamp(), scan.until.timestamp(), most]).await?;
    if due.is_empty() {
        return Ok(0);
    }
    let deals = session.deals(deals_of(&due)?).await?;
    let now = scan.now.timestamp_millis() + skew(session).await?;
    let (mut keys, mut messages) = (Vec::new(), Vec::new());
    for row in &due {
        let key = row.integer("number")?;
        keys.push(key);
        if !is_silent(row, &deals)? {
            let name = scan.name(key_id(row)?, seconds(row.integer("expires_at")?)?)?;
            let message = number_at(scan.now, session.number().await?);
            messages.push((message, key, row.text("email")?.to_owned(), name));
        }
    }
    let note = format!("UPDATE delivery_key SET noticed = expires_at WHERE {}", dialect.any_of("number", "$1"));
    session.execute(&note, values![keys]).await?;
    queue(session, MessageKind::Expiring, messages, now).await?;
    Ok(due.len())
}
