//! What the SQL stores commit, as data: the committer's queue holds [`Operation`]s, and answers [`Answer`]s.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::commit::Committer;
use super::{Issue, Letter, LetterId, MessageId, Outcome, Receipt, Route, StoreError};
use crate::key::{Acceptance, Change, Fingerprint, Key, KeyId, NewKey, Refusal};
use crate::post::{NewPost, Post};
use crate::product::{NewProduct, Product};

/// Something to commit.
pub(in crate::store) enum Operation {
    Enroll(Vec<Fingerprint>),
    Issue(Arc<NewKey>, Option<MessageId>),
    Change(KeyId, Change),
    /// One slice: the caller goes on until nothing is left, and others get their turn between.
    Prune {
        before: DateTime<Utc>,
        from: i64,
    },
    Claim {
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    },
    Renew(Vec<Receipt>, DateTime<Utc>),
    Settle(Receipt, Outcome),
    Unpark(LetterId, DateTime<Utc>),
    UnparkAll(Option<Route>, DateTime<Utc>),
    AddProduct(NewProduct),
    AddPost(NewPost),
    /// Nothing: to see whether the writer answers.
    #[cfg(feature = "sqlite")]
    Ping,
}

/// What it came to.
pub(in crate::store) enum Answer {
    Enrolled(Acceptance),
    Issued(Issue),
    Changed(Option<Result<Key, Refusal>>),
    /// How many uses were forgotten, and where the next slice begins.
    Pruned(u64, Option<i64>),
    Claimed(Vec<Letter>),
    Settled,
    Unparked(u64),
    Product(Arc<Product>),
    Post(Post),
}

impl Operation {
    /// The key that is to be issued for an order.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "only SQLite's plan asks"))]
    pub(super) fn order(&self) -> Option<&NewKey> {
        match self {
            Self::Issue(key, _) => Some(key.as_ref()).filter(|key| key.order.is_some()),
            _ => None,
        }
    }
}

/// An answer of another kind than its operation's would be a fault of the writer.
fn mismatch<T>(_: Answer) -> Result<T, StoreError> {
    Err(StoreError::corrupt("an answer to another operation"))
}

/// Each operation as a call.
impl Committer<Operation, Answer> {
    pub(super) async fn enroll(&self, ring: &[Fingerprint]) -> Result<(), StoreError> {
        match self.submit(Operation::Enroll(ring.to_vec())).await? {
            Answer::Enrolled(Acceptance::Accepted) => Ok(()),
            Answer::Enrolled(Acceptance::Retired) => Err(StoreError::RetiredSecret),
            Answer::Enrolled(Acceptance::Foreign) => Err(StoreError::ForeignSecret),
            other => mismatch(other),
        }
    }

    pub(super) async fn issue(&self, key: NewKey, letter: Option<MessageId>) -> Result<Issue, StoreError> {
        match self.submit(Operation::Issue(Arc::new(key), letter)).await? {
            Answer::Issued(issue) => Ok(issue),
            other => mismatch(other),
        }
    }

    pub(super) async fn change(&self, id: KeyId, change: Change) -> Result<Option<Result<Key, Refusal>>, StoreError> {
        match self.submit(Operation::Change(id, change)).await? {
            Answer::Changed(changed) => Ok(changed),
            other => mismatch(other),
        }
    }

    pub(super) async fn prune(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let (mut total, mut from) = (0, 0);
        loop {
            match self.submit(Operation::Prune { before, from }).await? {
                Answer::Pruned(pruned, Some(next)) => (total, from) = (total + pruned, next),
                Answer::Pruned(pruned, None) => return Ok(total + pruned),
                other => return mismatch(other),
            }
        }
    }

    pub(super) async fn claim(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<Letter>, StoreError> {
        match self.submit(Operation::Claim { now, lease_until, limit }).await? {
            Answer::Claimed(letters) => Ok(letters),
            other => mismatch(other),
        }
    }

    pub(super) async fn settle(&self, receipt: Receipt, outcome: Outcome) -> Result<(), StoreError> {
        self.submit(Operation::Settle(receipt, outcome)).await.map(drop)
    }

    pub(super) async fn unpark(&self, letter: LetterId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        match self.submit(Operation::Unpark(letter, now)).await? {
            Answer::Unparked(found) => Ok(found > 0),
            other => mismatch(other),
        }
    }

    pub(super) async fn unpark_all(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        match self.submit(Operation::UnparkAll(route, now)).await? {
            Answer::Unparked(count) => Ok(count),
            other => mismatch(other),
        }
    }

    pub(super) async fn renew(&self, receipts: &[Receipt], until: DateTime<Utc>) -> Result<(), StoreError> {
        self.submit(Operation::Renew(receipts.to_vec(), until)).await.map(drop)
    }

    pub(super) async fn add_product(&self, product: NewProduct) -> Result<Arc<Product>, StoreError> {
        match self.submit(Operation::AddProduct(product)).await? {
            Answer::Product(product) => Ok(product),
            other => mismatch(other),
        }
    }

    pub(super) async fn add_post(&self, post: NewPost) -> Result<Post, StoreError> {
        match self.submit(Operation::AddPost(post)).await? {
            Answer::Post(post) => Ok(post),
            other => mismatch(other),
        }
    }

    #[cfg(feature = "sqlite")]
    pub(super) async fn ping(&self) -> Result<(), StoreError> {
        self.submit(Operation::Ping).await.map(drop)
    }
}
