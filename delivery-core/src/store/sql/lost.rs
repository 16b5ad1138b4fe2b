//! Requests of buyers who have lost their keys.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::messages::{queue, skew};
use super::rows::Columns;
use super::session::{Database, Patience, Session, values};
use super::statements::limit;
use crate::email::Email;
use crate::ledger::MessageKind;
use crate::ledger::plan::number_at;
use crate::store::{LOST_PAUSE, LostKeys, LostScan, StoreError};

/// Selects the oldest requests, at most `$1`.
const WAITING: &str = "SELECT number, email FROM delivery_lost ORDER BY number LIMIT $1";

/// Selects the newest unrevoked key of the address `$1`, which must be in lower case. Leaves out the keys of erased
/// customers, who get no e-mail.
const NEWEST: &str = "SELECT number, email FROM delivery_key \
    WHERE lower(email) = $1 AND revoked_at IS NULL AND email NOT LIKE 'erased-%@erased.invalid' ORDER BY id DESC LIMIT 1";

/// Finds a row if an e-mail with lost keys was queued after millisecond `$2` for the address `$1`, which must be in
/// lower case. Millisecond `$3` is in the future. E-mails that were queued at `$3` or later are ignored, because only a
/// wrong clock can have set such a time.
const RECENT: &str = "SELECT k.number FROM delivery_key k JOIN delivery_message m ON m.key = k.number \
    WHERE lower(k.email) = $1 AND m.kind = 'lost' AND m.queued_at > $2 AND m.queued_at < $3 LIMIT 1";

const DONE: &str = "DELETE FROM delivery_lost WHERE number = $1";

/// The maximum number of requests that are answered in one transaction.
const MOST: usize = 1_000;

#[async_trait]
impl<D: Database> LostKeys for D {
    async fn ask(&self, email: &Email, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.ask_lost(email, at.timestamp_millis()).await
    }

    async fn answer_lost(&self, scan: LostScan) -> Result<usize, StoreError> {
        // Usually there is nothing to do. This read finds that out without a write transaction, which on SQLite makes
        // buyers wait.
        let any = self.read(Patience::Usual, |session| Box::pin(session.row(WAITING, values![1])));
        if any.await?.is_none() {
            return Ok(0);
        }
        self.write(Patience::Usual, move |session| Box::pin(answer(session, scan))).await
    }
}

async fn answer(session: &mut Session<'_>, scan: LostScan) -> Result<usize, StoreError> {
    let dialect = session.dialect();
    // The lock makes servers take turns, so that each server sees the e-mails that the previous server has queued.
    let waiting = session.rows(&dialect.locking(WAITING), values![limit(scan.limit.min(MOST))]).await?;
    let skew = skew(session).await?;
    let now = scan.now.timestamp_millis() + skew;
    let (since, until) = (now - LOST_PAUSE.num_milliseconds(), now + LOST_PAUSE.num_milliseconds());
    for request in &waiting {
        let (number, address) = (request.integer("number")?, request.text("email")?.to_ascii_lowercase());
        // If the customer is being erased at the same time, the lock makes this statement wait until the erasure is
        // committed. The address then has no keys.
        let newest = session.row(&dialect.locking(NEWEST), values![address.as_str()]).await?;
        let recent = session.row(RECENT, values![address, since, until]).await?;
        if let (Some(key), None) = (newest, recent) {
            let message = number_at(scan.now, session.number().await?);
            let message = (message, key.integer("number")?, key.text("email")?.to_owned(), scan.name(number)?);
            queue(session, MessageKind::Lost, vec![message], now).await?;
        }
        session.execute(DONE, values![number]).await?;
    }
    Ok(waiting.len())
}
