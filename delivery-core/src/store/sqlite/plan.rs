//! What a batch comes to, worked out in memory: the rules are applied to keys as earlier operations of the batch leave
//! them, and nothing is visible until it is committed.

use std::collections::HashMap;

use sqlx::sqlite::SqliteConnection;

use super::append::{UseRow, append};
use super::error::store_error;
use super::find::load;
use super::rows::entry;
use super::view::Entry;
use super::write::{Scribe, json};
use crate::key::{Change, Key, KeyId, NewKey};
use crate::store::operation::{Answer, Operation};
use crate::store::rows::{self, Columns};
use crate::store::statements::{Settled, settled};
use crate::store::{Issue, StoreError};

type Identity = (String, String, i64);
type KeyRow = (i64, String, u16, i64, String, Option<String>, Option<String>, i64, i64, i64);
type LetterRow = (i64, i64, String, i64);
/// A receipt, and what [`settled`] makes of the outcome.
type SettledRow = (i64, i64, i64, Option<i64>, Option<String>, i64, Option<String>);

/// A planned batch.
#[derive(Default)]
pub(super) struct Plan {
    /// Keys as the batch leaves them.
    keys: HashMap<KeyId, Entry>,
    orders: HashMap<Identity, Key>,
    answers: Vec<Option<Answer>>,
    new_keys: Vec<KeyRow>,
    new_letters: Vec<LetterRow>,
    new_uses: Vec<UseRow>,
    exhausted: Vec<i64>,
    revoked: Vec<(i64, i64)>,
    settled: Vec<SettledRow>,
    others: bool,
}

/// Whether orders may have been written before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Orders {
    /// Those that were are read.
    Known,
    /// They are taken for new.
    New,
}

impl Plan {
    /// Plans `operations`, reading what is not in view.
    pub(super) async fn of(scribe: &mut Scribe, operations: &[Operation], orders: Orders) -> Result<Self, StoreError> {
        let mut plan = Self::default();
        plan.read_keys(scribe, operations).await?;
        if orders == Orders::Known {
            plan.read_orders(scribe, operations).await?;
        }
        for operation in operations {
            let answer = match operation {
                Operation::Change(id, change) => Some(Answer::Changed(plan.change(scribe, *id, change))),
                Operation::Issue(key, letter) => {
                    let letter = letter.as_ref().map(|id| id.as_str().to_owned());
                    Some(Answer::Issued(plan.issue(scribe, key.as_ref().clone(), letter)))
                }
                Operation::Settle(receipt, outcome) => {
                    let Settled { state, due_at, reason, given_back, route } = settled(outcome);
                    let (letter, reason) = (receipt.letter.get(), reason.map(str::to_owned));
                    plan.settled.push((letter, receipt.fence, state, due_at, reason, given_back, route));
                    Some(Answer::Settled)
                }
                _ => {
                    plan.others = true;
                    None
                }
            };
            plan.answers.push(answer);
        }
        Ok(plan)
    }

    /// Whether there is anything to write.
    pub(super) fn writes(&self) -> bool {
        self.others || !self.new_uses.is_empty() || self.has_more_than_uses()
    }

    /// Whether there are operations that [`write`](Self::write) does not cover.
    pub(super) fn has_others(&self) -> bool {
        self.others
    }

    fn has_more_than_uses(&self) -> bool {
        let keys = !(self.new_keys.is_empty() && self.exhausted.is_empty() && self.revoked.is_empty());
        keys || !self.settled.is_empty()
    }

    /// Writes keys, letters, uses and outcomes: in one statement, which outside a transaction is one of its own.
    pub(super) async fn write(&self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        const ALL: &str = "INSERT INTO delivery_batch VALUES (?, ?, ?, ?, ?, ?)";
        if !self.has_more_than_uses() {
            return if self.new_uses.is_empty() { Ok(()) } else { append(connection, &self.new_uses).await };
        }
        let statement = sqlx::query(ALL)
            .bind(json(&self.new_keys)?)
            .bind(json(&self.new_letters)?)
            .bind(json(&self.new_uses)?)
            .bind(json(&self.exhausted)?)
            .bind(json(&self.revoked)?)
            .bind(json(&self.settled)?);
        statement.execute(connection).await.map(drop).map_err(store_error)
    }

    /// Notes the answer of an operation that [`write`](Self::write) does not cover.
    pub(super) fn answer(&mut self, index: usize, answer: Answer) {
        if let Some(place) = self.answers.get_mut(index) {
            *place = Some(answer);
        }
    }

    /// After the commit: shows everyone what was written, and answers.
    pub(super) fn publish(self, scribe: &mut Scribe) -> Vec<Option<Answer>> {
        scribe.last_key += count(self.new_keys.len());
        scribe.last_letter += count(self.new_letters.len());
        scribe.last_use += count(self.new_uses.len());
        {
            // Until the entries are in view, nobody adds these uses to rows: a count would go up and down again.
            let mut unfolded = scribe.view.unfolded();
            self.new_uses.iter().for_each(|(number, key, ..)| unfolded.add(*key, *number));
            for (id, entry) in self.keys {
                scribe.view.keys.insert(id, entry);
            }
        }
        let answers: Vec<Answer> = self.answers.into_iter().flatten().collect();
        for answer in &answers {
            if let Answer::Product(product) = answer {
                scribe.view.shelf.keep(product.clone());
                scribe.view.product_added();
            }
        }
        // None may come again.
        answers.into_iter().map(Some).collect()
    }

    fn change(&mut self, scribe: &Scribe, id: KeyId, change: &Change) -> Option<Result<Key, crate::key::Refusal>> {
        let entry = self.keys.get_mut(&id)?;
        let changed = match entry.key.apply(change) {
            Ok(changed) => changed,
            Err(refusal) => return Some(Err(refusal)),
        };
        match change {
            Change::Use { at, .. } => {
                let number = scribe.last_use + 1 + count(self.new_uses.len());
                self.new_uses.push((number, entry.number, at.timestamp_millis(), entry.last_use));
                entry.last_use = Some(number);
                if changed.remaining() == Some(0) {
                    self.exhausted.push(entry.number);
                }
            }
            Change::Revoke { .. } => {
                let at = changed.revoked_at().filter(|_| entry.key.revoked_at().is_none());
                self.revoked.extend(at.map(|at| (entry.number, at.timestamp_millis())));
            }
        }
        entry.key = changed.clone();
        Some(Ok(changed))
    }

    fn issue(&mut self, scribe: &Scribe, key: NewKey, letter: Option<String>) -> Issue {
        let identity = identity(&key);
        if let Some(existing) = identity.as_ref().and_then(|identity| self.orders.get(identity)) {
            return Issue::Existing(existing.clone());
        }
        let number = scribe.last_key + 1 + count(self.new_keys.len());
        let (source, order_id) =
            identity.clone().map_or((None, None), |(source, order_id, _)| (Some(source), Some(order_id)));
        self.new_keys.push((
            number,
            data_encoding::HEXUPPER.encode(key.id.as_bytes()),
            key.ring.get(),
            key.product.get(),
            key.email.as_str().to_owned(),
            source,
            order_id,
            key.issued_at.timestamp(),
            key.expires_at.timestamp(),
            key.limit.as_count(),
        ));
        if let Some(message_id) = letter {
            let letter = scribe.last_letter + 1 + count(self.new_letters.len());
            self.new_letters.push((letter, number, message_id, key.issued_at.timestamp_millis()));
        }
        let key = Key::from(key);
        if let Some(identity) = identity {
            self.orders.insert(identity, key.clone());
        }
        self.keys.insert(key.id(), Entry { key: key.clone(), number, last_use: None });
        Issue::New(key)
    }

    async fn read_keys(&mut self, scribe: &mut Scribe, operations: &[Operation]) -> Result<(), StoreError> {
        let mut missing = Vec::new();
        for operation in operations {
            let Operation::Change(id, _) = operation else { continue };
            if self.keys.contains_key(id) {
                continue;
            }
            match scribe.view.keys.get(id) {
                Some(entry) => drop(self.keys.insert(*id, entry)),
                None => missing.push(*id),
            }
        }
        self.keys.extend(load(&mut scribe.connection, &scribe.view, &missing).await?);
        Ok(())
    }

    /// Nobody sweeps meanwhile: that is the writer's work too.
    async fn read_orders(&mut self, scribe: &mut Scribe, operations: &[Operation]) -> Result<(), StoreError> {
        const SQL: &str = concat!(
            "SELECT ",
            rows::key_columns!(),
            " FROM json_each(?) j JOIN delivery_key k \
              ON k.order_id = j.value->>1 AND k.source = j.value->>0 AND k.product = j.value->>2"
        );
        let identities: Vec<Identity> = operations.iter().filter_map(Operation::order).filter_map(identity).collect();
        if identities.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(SQL).bind(json(&identities)?);
        let found = query.fetch_all(&mut scribe.connection).await.map_err(store_error)?;
        let unfolded = scribe.view.unfolded();
        for row in &found {
            let uses = unfolded.since(row.integer("number")?, row.integer_or_null("last_use")?);
            let key = entry(row, uses)?.key;
            if let Some(identity) = identity(key.granted()) {
                self.orders.insert(identity, key);
            }
        }
        Ok(())
    }
}

fn identity(key: &NewKey) -> Option<Identity> {
    let order = key.order.as_ref()?;
    Some((order.source.as_str().to_owned(), order.id.as_str().to_owned(), key.product.get()))
}

/// A batch is far smaller than 2^63.
fn count(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
