//! A store of one's own: an append-only file, read into memory when it is opened.
//!
//! Each change is a line of JSON, which is on the disk before the call returns. The contents of the store are the
//! result of replaying all lines into a [`MemoryStore`]. Only one process may open the file at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use delivery_core::key::{Fingerprint, Key, KeyId};
use delivery_core::ledger::{
    Edit, FailedMessage, Lease, LeasedMessage, Loaded, MessageNumber, Needs, Numbers, Route, Writes,
};
use delivery_core::store::{Attempt, Backend, KeyQuery, Office, Page, Persisted, Storage, StoreError, Use, UseId};
use delivery_testing::MemoryStore;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard};

/// A store in an append-only file.
#[derive(Debug)]
pub(crate) struct FileStore {
    memory: MemoryStore,
    /// `None` once the store is closed, or a line could not be written. Every read and write holds the lock, so that no
    /// caller sees a change that is not on the disk yet.
    log: Mutex<Option<File>>,
}

/// A line of the file: a call that changed something.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    Persist(Box<Writes>),
    Numbers(i64),
    Register(Vec<Fingerprint>),
    Claim(DateTime<Utc>, DateTime<Utc>, usize),
    Renew(Vec<Lease>, DateTime<Utc>),
    Retry(MessageNumber, Edit),
    RetryAll(Option<Route>, DateTime<Utc>),
    Prune(DateTime<Utc>),
}

impl FileStore {
    /// Opens the file, making it if it is missing. A last line that a crash cut off was not acknowledged: it is removed.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or a line in it is not one of this store's.
    pub(crate) async fn open(path: &Path) -> io::Result<Self> {
        let mut log = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let memory = MemoryStore::new();
        let (mut reader, mut line, mut whole) = (BufReader::new(&log), String::new(), 0);
        while reader.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let replayed: Line = serde_json::from_str(&line)?;
            apply(&memory, &replayed).await.map_err(io::Error::other)?;
            whole += line.len() as u64;
            line.clear();
        }
        log.set_len(whole)?;
        log.flush()?;
        log.sync_all()?;
        Ok(Self { memory, log: Mutex::new(Some(log)) })
    }

    /// Locks the store for a read or a write. Returns an error if the store is closed.
    async fn turn(&self) -> Result<MutexGuard<'_, Option<File>>, StoreError> {
        let turn = self.log.lock().await;
        if turn.is_some() { Ok(turn) } else { Err(StoreError::unavailable("closed")) }
    }

    /// Applies a change and writes its line. If the line cannot be written, memory is ahead of the disk, so
    /// the store is closed.
    async fn write(&self, line: Line) -> Result<Applied, StoreError> {
        let mut turn = self.turn().await?;
        let applied = apply(&self.memory, &line).await?;
        let written = turn.as_mut().map_or(Ok(()), |log| append(log, &line));
        match written {
            Ok(()) => Ok(applied),
            Err(error) => {
                *turn = None;
                Err(StoreError::unknown(error))
            }
        }
    }
}

fn append(log: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    log.write_all(&text)?;
    log.sync_data()
}

/// The result of a line.
enum Applied {
    Done,
    Persisted(Vec<Persisted>),
    Numbers(Numbers),
    Claimed(Vec<LeasedMessage>),
    Retried(bool),
    Count(u64),
}

async fn apply(memory: &MemoryStore, line: &Line) -> Result<Applied, StoreError> {
    Ok(match line {
        Line::Persist(writes) => Applied::Persisted(memory.persist(writes).await?),
        Line::Numbers(count) => Applied::Numbers(memory.numbers(*count).await?),
        Line::Register(keyring) => memory.register(keyring).await.map(|()| Applied::Done)?,
        Line::Claim(now, until, limit) => Applied::Claimed(memory.claim_messages(*now, *until, *limit).await?),
        Line::Renew(leases, until) => memory.renew_leases(leases, *until).await.map(|()| Applied::Done)?,
        Line::Retry(message, edit) => Applied::Retried(memory.retry_message(*message, edit.clone()).await?),
        Line::RetryAll(route, now) => Applied::Count(memory.retry_messages(*route, *now).await?),
        Line::Prune(before) => Applied::Count(memory.prune_history(*before).await?),
    })
}

/// The error for a result that does not match its line.
fn unexpected() -> StoreError {
    StoreError::corrupt("a line of another kind")
}

#[async_trait]
impl Storage for FileStore {
    async fn load(&self, needs: &Needs, attempt: Attempt) -> Result<Loaded, StoreError> {
        let _turn = self.turn().await?;
        self.memory.load(needs, attempt).await
    }

    async fn numbers(&self, count: i64) -> Result<Numbers, StoreError> {
        let Applied::Numbers(numbers) = self.write(Line::Numbers(count)).await? else { return Err(unexpected()) };
        Ok(numbers)
    }

    async fn persist(&self, writes: &Writes) -> Result<Vec<Persisted>, StoreError> {
        let line = Line::Persist(Box::new(writes.clone()));
        let Applied::Persisted(persisted) = self.write(line).await? else { return Err(unexpected()) };
        Ok(persisted)
    }
}

#[async_trait]
impl Backend for FileStore {
    async fn register(&self, keyring: &[Fingerprint]) -> Result<(), StoreError> {
        self.write(Line::Register(keyring.to_vec())).await.map(drop)
    }

    async fn search(&self, query: &KeyQuery) -> Result<Page<Key, KeyId>, StoreError> {
        let _turn = self.turn().await?;
        self.memory.search(query).await
    }

    async fn claim_messages(
        &self,
        now: DateTime<Utc>,
        lease_until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        let line = Line::Claim(now, lease_until, limit);
        let Applied::Claimed(claimed) = self.write(line).await? else { return Err(unexpected()) };
        Ok(claimed)
    }

    async fn renew_leases(&self, leases: &[Lease], lease_until: DateTime<Utc>) -> Result<(), StoreError> {
        self.write(Line::Renew(leases.to_vec(), lease_until)).await.map(drop)
    }

    async fn failed_messages(&self, limit: usize) -> Result<Vec<FailedMessage>, StoreError> {
        let _turn = self.turn().await?;
        self.memory.failed_messages(limit).await
    }

    async fn retry_message(&self, message: MessageNumber, edit: Edit) -> Result<bool, StoreError> {
        let Applied::Retried(retried) = self.write(Line::Retry(message, edit)).await? else { return Err(unexpected()) };
        Ok(retried)
    }

    async fn retry_messages(&self, route: Option<Route>, now: DateTime<Utc>) -> Result<u64, StoreError> {
        let Applied::Count(count) = self.write(Line::RetryAll(route, now)).await? else { return Err(unexpected()) };
        Ok(count)
    }

    async fn history(&self, id: KeyId, before: Option<UseId>, limit: usize) -> Result<Page<Use, UseId>, StoreError> {
        let _turn = self.turn().await?;
        self.memory.history(id, before, limit).await
    }

    async fn prune_history(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let Applied::Count(count) = self.write(Line::Prune(before)).await? else { return Err(unexpected()) };
        Ok(count)
    }

    /// `None`, because this store keeps only keys, orders and messages.
    fn office(&self) -> Option<&dyn Office> {
        None
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.turn().await.map(drop)
    }

    async fn close(&self) {
        self.log.lock().await.take();
    }
}
