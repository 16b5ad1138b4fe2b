//! What a batch does to keys and orders: locked in one order, judged by the rules, written in as few statements as there
//! are kinds of rows.

use std::collections::{HashMap, HashSet};

use sqlx::postgres::{PgConnection, PgRow};

use super::error::store_error;
use super::letters::{machine, skew};
use super::write::Numbers;
use crate::key::{Change, Key, KeyId, NewKey};
use crate::store::operation::{Answer, Operation};
use crate::store::rows::{self, Columns};
use crate::store::{Issue, MessageId, StoreError};

type Identity<'a> = (&'a str, &'a str, i64);

/// The answers of a batch, as far as they are known.
pub(super) struct Plan(Vec<Option<Answer>>);

impl Plan {
    /// Issues the keys, then applies the changes. In this order: an order that has a key already waits for whoever is changing
    /// that, who must not be waiting for another key.
    pub(super) async fn of(
        session: &mut PgConnection,
        numbers: &mut Numbers,
        operations: &[Operation],
    ) -> Result<Self, StoreError> {
        let mut plan = Self(operations.iter().map(|_| None).collect());
        plan.issue(session, operations).await?;
        plan.change(session, numbers, operations).await?;
        Ok(plan)
    }

    pub(super) fn answer(&mut self, index: usize, answer: Answer) {
        if let Some(place) = self.0.get_mut(index) {
            *place = Some(answer);
        }
    }

    pub(super) fn answers(self) -> Vec<Answer> {
        self.0.into_iter().flatten().collect()
    }

    async fn change(
        &mut self,
        session: &mut PgConnection,
        numbers: &mut Numbers,
        operations: &[Operation],
    ) -> Result<(), StoreError> {
        let changes: Vec<(usize, KeyId, &Change)> = operations
            .iter()
            .enumerate()
            .filter_map(|(index, operation)| match operation {
                Operation::Change(id, change) => Some((index, *id, change)),
                _ => None,
            })
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        numbers.provide(changes.len(), session).await?;
        let ids: HashSet<KeyId> = changes.iter().map(|(_, id, _)| *id).collect();
        let mut locked = lock(session, &ids).await?;
        let mut uses = Uses::default();
        for (index, id, change) in changes {
            let answer = locked.get_mut(&id).map(|row| row.change(change, numbers, &mut uses));
            self.answer(index, Answer::Changed(answer));
        }
        locked.retain(|_, row| row.dirty);
        if locked.is_empty() { Ok(()) } else { write(session, locked.into_values(), uses).await }
    }

    async fn issue(&mut self, session: &mut PgConnection, operations: &[Operation]) -> Result<(), StoreError> {
        let mut wanted: Vec<(usize, &NewKey, Option<&MessageId>)> = operations
            .iter()
            .enumerate()
            .filter_map(|(index, operation)| match operation {
                Operation::Issue(key, letter) => Some((index, key.as_ref(), letter.as_ref())),
                _ => None,
            })
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        // In one order on every server; of the same order, who came first.
        wanted.sort_by_key(|(index, key, _)| (identity(key), *index));
        let mut firsts: Vec<(&NewKey, Option<&MessageId>)> = Vec::with_capacity(wanted.len());
        for (_, key, letter) in &wanted {
            let same =
                firsts.last().is_some_and(|(first, _)| identity(first).is_some_and(|it| Some(it) == identity(key)));
            if !same {
                firsts.push((key, *letter));
            }
        }
        let inserted = insert(session, &firsts).await?;
        write_letters(session, &firsts, &inserted).await?;
        let refused: Vec<Identity<'_>> = firsts
            .iter()
            .filter(|(key, _)| !inserted.contains_key(&key.id))
            .filter_map(|(key, _)| identity(key))
            .collect();
        let existing = existing(session, &refused).await?;
        // The key that each order has: from before, or from this batch.
        let new = firsts.iter().filter(|(key, _)| inserted.contains_key(&key.id));
        let new = new.filter_map(|(key, _)| Some((identity(key)?, Key::from((*key).clone()))));
        let before = existing.iter().filter_map(|key| Some((identity(key.granted())?, key.clone())));
        let of_order: HashMap<Identity<'_>, Key> = new.chain(before).collect();
        for (index, key, _) in wanted {
            let issue = if inserted.contains_key(&key.id) {
                Issue::New(Key::from(key.clone()))
            } else {
                let found = identity(key).and_then(|order| of_order.get(&order)).cloned();
                Issue::Existing(found.ok_or(StoreError::corrupt("an order that has a key, and has none"))?)
            };
            self.answer(index, Answer::Issued(issue));
        }
        Ok(())
    }
}

/// A key, as the batch leaves it.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) number: i64,
    pub(super) last_use: Option<i64>,
    pub(super) dirty: bool,
}

/// Rows of `delivery_use`, column by column.
#[derive(Default)]
pub(super) struct Uses {
    pub(super) numbers: Vec<i64>,
    pub(super) keys: Vec<i64>,
    pub(super) at: Vec<i64>,
    pub(super) previous: Vec<Option<i64>>,
}

impl Row {
    pub(super) fn read(row: &PgRow) -> Result<Self, StoreError> {
        let (number, last_use) = (row.integer("number")?, row.integer_or_null("last_use")?);
        Ok(Self { key: rows::key(row)?, number, last_use, dirty: false })
    }

    pub(super) fn change(
        &mut self,
        change: &Change,
        numbers: &mut Numbers,
        uses: &mut Uses,
    ) -> Result<Key, crate::key::Refusal> {
        let changed = self.key.apply(change)?;
        if let Change::Use { at, .. } = change {
            let number = numbers.take();
            uses.numbers.push(number);
            uses.keys.push(self.number);
            uses.at.push(at.timestamp_millis());
            uses.previous.push(self.last_use.replace(number));
        }
        self.dirty |= changed != self.key;
        self.key = changed.clone();
        Ok(changed)
    }
}

/// Locks the rows of keys, in the order of their numbers.
async fn lock(session: &mut PgConnection, ids: &HashSet<KeyId>) -> Result<HashMap<KeyId, Row>, StoreError> {
    const LOCK: &str = concat!(
        "SELECT ",
        rows::key_columns!(),
        " FROM delivery_key k WHERE k.id = ANY($1) ORDER BY k.number FOR UPDATE"
    );
    let found = ask(session, LOCK, ids).await?;
    found.iter().map(|row| Row::read(row).map(|row| (row.key.id(), row))).collect()
}

/// What `statement` finds of keys by their ids.
pub(super) async fn ask<'a>(
    session: &mut PgConnection,
    statement: &'static str,
    ids: impl IntoIterator<Item = &'a KeyId>,
) -> Result<Vec<PgRow>, StoreError> {
    let ids: Vec<Vec<u8>> = ids.into_iter().map(|id| id.as_bytes().to_vec()).collect();
    sqlx::query(statement).bind(ids).fetch_all(session).await.map_err(store_error)
}

async fn write(session: &mut PgConnection, dirty: impl Iterator<Item = Row>, uses: Uses) -> Result<(), StoreError> {
    const WRITE: &str = "WITH changed AS ( \
            UPDATE delivery_key k SET used = c.used, last_use = c.last_use, revoked_at = c.revoked_at \
            FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS c (number, used, last_use, revoked_at) \
            WHERE k.number = c.number) \
        INSERT INTO delivery_use (number, key, at, previous) \
        SELECT * FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[])";
    let (mut numbers, mut counts, mut last_uses, mut revoked_at) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for row in dirty {
        numbers.push(row.number);
        counts.push(i64::try_from(row.key.used()).unwrap_or(i64::MAX));
        last_uses.push(row.last_use);
        revoked_at.push(row.key.revoked_at().map(|at| at.timestamp_millis()));
    }
    sqlx::query(WRITE)
        .bind(numbers)
        .bind(counts)
        .bind(last_uses)
        .bind(revoked_at)
        .bind(uses.numbers)
        .bind(uses.keys)
        .bind(uses.at)
        .bind(uses.previous)
        .execute(session)
        .await
        .map(drop)
        .map_err(store_error)
}

/// Inserts keys; whose order has one already is left out. Answers the numbers of the new rows.
async fn insert(
    session: &mut PgConnection,
    keys: &[(&NewKey, Option<&MessageId>)],
) -> Result<HashMap<KeyId, i64>, StoreError> {
    const INSERT: &str = "INSERT INTO delivery_key \
            (id, ring, product, email, source, order_id, issued_at, expires_at, max_uses) \
        SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::bigint[], \
            $8::bigint[], $9::bigint[]) \
        ON CONFLICT (order_id, source, product) WHERE order_id IS NOT NULL DO NOTHING RETURNING id, number";
    let column = |of: fn(&NewKey) -> i64| keys.iter().map(|(key, _)| of(key)).collect::<Vec<i64>>();
    let found = sqlx::query(INSERT)
        .bind(keys.iter().map(|(key, _)| key.id.as_bytes().to_vec()).collect::<Vec<_>>())
        .bind(column(|key| key.ring.get().into()))
        .bind(column(|key| key.product.get()))
        .bind(keys.iter().map(|(key, _)| key.email.as_str().to_owned()).collect::<Vec<_>>())
        .bind(keys.iter().map(|(key, _)| identity(key).map(|it| it.0.to_owned())).collect::<Vec<_>>())
        .bind(keys.iter().map(|(key, _)| identity(key).map(|it| it.1.to_owned())).collect::<Vec<_>>())
        .bind(column(|key| key.issued_at.timestamp()))
        .bind(column(|key| key.expires_at.timestamp()))
        .bind(column(|key| key.limit.as_count()))
        .fetch_all(session)
        .await
        .map_err(store_error)?;
    found.iter().map(|row| Ok((rows::key_id(row)?, row.integer("number")?))).collect()
}

async fn write_letters(
    session: &mut PgConnection,
    keys: &[(&NewKey, Option<&MessageId>)],
    inserted: &HashMap<KeyId, i64>,
) -> Result<(), StoreError> {
    // Letters wait by the database's clock.
    const LETTERS: &str = concat!(
        "INSERT INTO delivery_letter (key, message_id, queued_at, due_at) \
         SELECT key, message_id, at + skew, at + skew \
         FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS l (key, message_id, at), (SELECT ",
        skew!("$4"),
        " AS skew) c"
    );
    let (mut numbers, mut ids, mut at) = (Vec::new(), Vec::new(), Vec::new());
    for (key, letter) in keys {
        if let (Some(number), Some(letter)) = (inserted.get(&key.id), letter) {
            numbers.push(*number);
            ids.push(letter.as_str().to_owned());
            at.push(key.issued_at.timestamp_millis());
        }
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let insert = sqlx::query(LETTERS).bind(numbers).bind(ids).bind(at).bind(machine());
    insert.execute(session).await.map(drop).map_err(store_error)
}

/// The keys of orders that have one.
async fn existing(session: &mut PgConnection, orders: &[Identity<'_>]) -> Result<Vec<Key>, StoreError> {
    const SQL: &str = concat!(
        "SELECT ",
        rows::key_columns!(),
        " FROM unnest($1::text[], $2::text[], $3::bigint[]) AS o (source, order_id, product) JOIN delivery_key k \
          ON k.order_id = o.order_id AND k.source = o.source AND k.product = o.product"
    );
    if orders.is_empty() {
        return Ok(Vec::new());
    }
    let found = sqlx::query(SQL)
        .bind(orders.iter().map(|order| order.0.to_owned()).collect::<Vec<_>>())
        .bind(orders.iter().map(|order| order.1.to_owned()).collect::<Vec<_>>())
        .bind(orders.iter().map(|order| order.2).collect::<Vec<_>>())
        .fetch_all(session)
        .await
        .map_err(store_error)?;
    found.iter().map(rows::key).collect()
}

fn identity(key: &NewKey) -> Option<Identity<'_>> {
    let order = key.order.as_ref()?;
    Some((order.source.as_str(), order.id.as_str(), key.product.get()))
}
