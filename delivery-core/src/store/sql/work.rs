//! What a writer's queue holds: operations, which are planned together, and statements of their own.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::key::{Change, Key, KeyId};
use crate::ledger::plan::{Operation, Reply};
use crate::store::batch::BatchQueue;
use crate::store::{
    Fetch, Fetched, Issue, Lease, Notice, Outcome, Receipt, Received, Refused, Resend, Sale, StoreError, Successor,
};

/// Something for the owner `W` of a database connection to do.
pub(in crate::store) enum Work<W> {
    /// Planned and persisted together with its neighbours.
    Operation(Operation),
    /// Run by itself, once.
    Statement(Statement<W>),
}

pub(in crate::store) struct Statement<W>(Mutex<Option<Running<W>>>);

type Running<W> = Box<dyn for<'w> FnOnce(&'w mut W) -> BoxFuture<'w, Result<(), StoreError>> + Send>;

impl<W> Work<W> {
    pub(in crate::store) fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Operation(operation) => Some(operation),
            Self::Statement(_) => None,
        }
    }
}

impl<W> Statement<W> {
    pub(in crate::store) async fn run(&self, writer: &mut W) -> Result<(), StoreError> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match running {
            Some(run) => run(writer).await,
            None => Err(StoreError::corrupt("a statement that ran before")),
        }
    }
}

/// The way to a writer.
pub(in crate::store) struct WorkQueue<W>(BatchQueue<Work<W>, Result<(), StoreError>>);

impl<W: Send + 'static> WorkQueue<W> {
    pub(in crate::store) fn new(queue: BatchQueue<Work<W>, Result<(), StoreError>>) -> Self {
        Self(queue)
    }

    pub(in crate::store) async fn issue(&self, sale: Sale) -> Result<Issue, StoreError> {
        let reply = Reply::default();
        self.submit(Work::Operation(Operation::Issue(Arc::new(sale), reply.clone()))).await?;
        reply.take()
    }

    pub(in crate::store) async fn change(
        &self,
        id: KeyId,
        change: Change,
        messages: Vec<Notice>,
    ) -> Result<Option<Result<Key, Refused>>, StoreError> {
        let reply = Reply::default();
        self.submit(Work::Operation(Operation::Change(id, change, messages, reply.clone()))).await?;
        reply.take()
    }

    pub(in crate::store) async fn resend(
        &self,
        id: KeyId,
        resend: Resend,
    ) -> Result<Option<Result<Key, Refused>>, StoreError> {
        let reply = Reply::default();
        self.submit(Work::Operation(Operation::Resend(id, Arc::new(resend), reply.clone()))).await?;
        reply.take()
    }

    pub(in crate::store) async fn rotate(
        &self,
        id: KeyId,
        successor: Successor,
    ) -> Result<Option<Result<Issue, Refused>>, StoreError> {
        let reply = Reply::default();
        self.submit(Work::Operation(Operation::Rotate(id, Arc::new(successor), reply.clone()))).await?;
        reply.take()
    }

    pub(in crate::store) async fn fetch(
        &self,
        id: KeyId,
        fetch: Fetch,
    ) -> Result<Option<Result<Fetched, Refused>>, StoreError> {
        let reply = Reply::default();
        self.submit(Work::Operation(Operation::Fetch(id, fetch, reply.clone()))).await?;
        reply.take()
    }

    pub(in crate::store) async fn receive(&self, receipt: Receipt) -> Result<Received, StoreError> {
        let reply = Reply::default();
        self.submit(Work::Operation(Operation::Receive(Arc::new(receipt), reply.clone()))).await?;
        reply.take()
    }

    pub(in crate::store) async fn complete(&self, lease: Lease, outcome: Outcome) -> Result<(), StoreError> {
        self.submit(Work::Operation(Operation::Complete(lease, outcome))).await
    }

    /// Runs a statement between two batches.
    pub(in crate::store) async fn run<T: Send + 'static>(
        &self,
        statement: impl for<'w> FnOnce(&'w mut W) -> BoxFuture<'w, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reply = Reply::default();
        let told = reply.clone();
        let statement: Running<W> = Box::new(move |writer| {
            let running = statement(writer);
            Box::pin(async move { running.await.map(|answer| told.give(answer)) })
        });
        self.submit(Work::Statement(Statement(Mutex::new(Some(statement))))).await?;
        reply.take()
    }

    /// Changes rows part by part, so that other work gets its turn between. `change` changes the next part from a number on, and
    /// returns how many rows that were and where the part after it begins.
    pub(in crate::store) async fn part_by_part(
        &self,
        change: impl for<'w> Fn(&'w mut W, i64) -> BoxFuture<'w, Result<(u64, Option<i64>), StoreError>>
        + Send
        + Clone
        + 'static,
    ) -> Result<u64, StoreError> {
        let (mut total, mut from) = (0, 0);
        loop {
            let change = change.clone();
            let (changed, next) = self.run(move |writer| change(writer, from)).await?;
            total += changed;
            match next {
                Some(next) => from = next,
                None => return Ok(total),
            }
        }
    }

    async fn submit(&self, work: Work<W>) -> Result<(), StoreError> {
        self.0.submit(work).await?
    }
}

impl<W> Clone for WorkQueue<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
