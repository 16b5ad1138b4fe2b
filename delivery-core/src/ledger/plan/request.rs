//! What a use comes to whose request may come again.

use chrono::SubsecRound;

use super::{Basis, Planner, RequestRow};
use crate::key::{Change, KeyId, Refusal};
use crate::ledger::request::{KNOWN_FOR, MOST_REPEATS};
use crate::ledger::{Fetch, Fetched, Refused, StoreError};

impl Planner<'_> {
    pub(super) fn fetch(
        &mut self,
        id: KeyId,
        fetch: &Fetch,
    ) -> Result<(Option<Result<Fetched, Refused>>, Basis), StoreError> {
        let Fetch { product, at, request } = *fetch;
        let at = at.trunc_subsecs(3);
        let known = self.loaded.request(id, request)?.cloned();
        // Either way: servers' clocks differ, and clocks are set back.
        let is_known = |row: &RequestRow| at.signed_duration_since(row.at).abs() < KNOWN_FOR;
        let last = known.as_ref().filter(|row| is_known(row));
        // The use was counted while the key was good: that the key has expired or was used up since, whoever brought that about,
        // does not take the answer back. A revocation does, as the money went back.
        if let (Some(last), Some(row)) = (last, self.loaded.key(id)?)
            && row.key.revoked_at().is_none()
            && (last.product != product || last.repeats < MOST_REPEATS)
        {
            let (key, may_be_stale) = (row.key.clone(), row.may_be_stale);
            let read = if may_be_stale { Basis::Cached(id) } else { Basis::Read };
            let basis = self.loaded.unit(id).map_or(read, Basis::Unit);
            if last.product != product {
                return Ok((Some(Err(Refused { refusal: Refusal::OtherRequest, key })), basis));
            }
            // An answer that rests on a stale row is not given.
            if !matches!(basis, Basis::Cached(_)) {
                let repeated = RequestRow { repeats: last.repeats + 1, ..last.clone() };
                self.write_request(id, repeated);
            }
            return Ok((Some(Ok(Fetched { key, is_repeat: true })), basis));
        }
        let counts_each = last.is_some();
        let (changed, basis) = self.change(id, &Change::Use { product, at: fetch.at }, &[])?;
        if let (Some(Ok(_)), Some(row), false) = (&changed, self.loaded.key(id)?, counts_each) {
            let (key, version) = (row.number, known.map_or(0, |known| known.version));
            self.write_request(id, RequestRow { key, request, product, at, repeats: 0, version });
        }
        let fetched = changed.map(|changed| changed.map(|key| Fetched { key, is_repeat: false }));
        Ok((fetched, basis))
    }

    /// Writes a request as the batch leaves it.
    fn write_request(&mut self, id: KeyId, row: RequestRow) {
        let is_this = |other: &RequestRow| (other.key, other.request) == (row.key, row.request);
        match self.writes.requests.iter().position(is_this).and_then(|index| self.writes.requests.get_mut(index)) {
            Some(other) => other.clone_from(&row),
            None => self.writes.requests.push(row.clone()),
        }
        self.loaded.insert_request(id, row);
    }
}
