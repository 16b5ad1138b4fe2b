//! Uses a key. If the same request has already used the key, no further use is counted. A buyer who did not receive the
//! answer can thus repeat the request without spending another use.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};

use super::{Answer, Operate, Subject};
use crate::key::{Change, Key, KeyId, Refusal, Rules};
use crate::ledger::plan::{Basis, Needs, Planner, RequestRow};
use crate::ledger::{Refused, RequestId, StoreError};
use crate::product::ProductId;

/// How long a request is remembered after it was first made.
pub const IDEMPOTENCY_WINDOW: TimeDelta = TimeDelta::hours(24);
/// The maximum number of repetitions of a request that are answered without counting a use. Every further repetition
/// counts as a use.
pub const MOST_REPEATS: u32 = 10;

/// A use of a key by a request that has an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers write it as a literal")]
pub struct Fetch {
    /// The product that is requested.
    pub product: ProductId,
    /// When the request is made.
    pub at: DateTime<Utc>,
    /// The identity of the request.
    pub request: RequestId,
    /// The rules of the host application. They are not checked for a repetition, because they already allowed the use.
    pub rules: Rules,
}

/// A use that was allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores build it")]
pub struct Fetched {
    /// The key as it is now.
    pub key: Key,
    /// Whether the request was answered as a repetition of an earlier request, without counting a use.
    pub is_repeat: bool,
    /// When the use was counted. For a repetition, this is the time of the first request.
    pub counted_at: DateTime<Utc>,
}

/// A [`Fetch`] and the key that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "it is a pair")]
pub struct FetchProduct {
    /// The key to use.
    pub key: KeyId,
    /// The requested use.
    pub fetch: Fetch,
}

impl Operate for FetchProduct {
    fn needs(&self, needs: &mut Needs) {
        needs.keys.insert(self.key);
        needs.requests.insert((self.key, self.fetch.request));
    }

    fn numbers(&self) -> usize {
        1
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Key(self.key)
    }

    fn needs_transaction(&self) -> bool {
        true
    }

    fn plan(&self, planner: &mut Planner<'_>) -> Result<(Answer, Basis), StoreError> {
        let (id, &Fetch { product, at, request, ref rules }) = (self.key, &self.fetch);
        let at = at.trunc_subsecs(3);
        let known = planner.loaded.request(id, request)?.cloned();
        // The time of a repetition may be before that of the first request, because the clocks of servers differ and
        // may be set back.
        let is_known = |row: &RequestRow| at.signed_duration_since(row.at).abs() < IDEMPOTENCY_WINDOW;
        let last = known.as_ref().filter(|row| is_known(row));
        // The use was counted while the key was valid. So the answer is repeated even if the key has expired or was
        // used up since. It is not repeated if the key was revoked, because the money may have been refunded.
        if let (Some(last), Some(row)) = (last, planner.loaded.key(id)?)
            && row.key.revoked_at().is_none()
            && (last.product != product || last.repeats < MOST_REPEATS)
        {
            let (key, basis) = (row.key.clone(), planner.loaded.basis(id));
            if last.product != product {
                let refused = Refused { refusal: Refusal::OtherRequest, key };
                return Ok((Answer::Fetched(Some(Err(refused))), basis));
            }
            // An answer that is based on a cached row is discarded unless the batch also writes the key. Such a
            // repetition is therefore not recorded.
            if !matches!(basis, Basis::Cached(_)) {
                let repeated = RequestRow { repeats: last.repeats + 1, ..last.clone() };
                planner.write_request(id, repeated);
            }
            return Ok((Answer::Fetched(Some(Ok(Fetched { key, is_repeat: true, counted_at: last.at }))), basis));
        }
        let counts_each = last.is_some();
        let (changed, basis) =
            planner.change(id, &Change::Use { product, at: self.fetch.at, rules: rules.clone() }, &[])?;
        if let (Some(Ok(_)), Some(row), false) = (&changed, planner.loaded.key(id)?, counts_each) {
            let (key, version) = (row.number, known.map_or(0, |known| known.version));
            planner.write_request(id, RequestRow { key, request, product, at, repeats: 0, version });
        }
        let fetched = changed.map(|changed| changed.map(|key| Fetched { key, is_repeat: false, counted_at: at }));
        Ok((Answer::Fetched(fetched), basis))
    }
}

impl Planner<'_> {
    /// Plans to write the row of a request. If an earlier operation of the batch planned a row for the same request,
    /// `row` replaces that row.
    fn write_request(&mut self, id: KeyId, row: RequestRow) {
        let is_this = |other: &RequestRow| (other.key, other.request) == (row.key, row.request);
        match self.writes.requests.iter().position(is_this).and_then(|index| self.writes.requests.get_mut(index)) {
            Some(other) => other.clone_from(&row),
            None => self.writes.requests.push(row.clone()),
        }
        self.loaded.insert_request(id, row);
    }
}
