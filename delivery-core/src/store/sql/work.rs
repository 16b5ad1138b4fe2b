//! The work queue of a database writer. There are two kinds of work: *operations*, which are planned and committed
//! together in batches, and *statements*, which are closures that each run alone.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use futures_util::future::BoxFuture;

use crate::ledger::operation::{Answer, Operation};
use crate::store::StoreError;
use crate::store::batch::BatchQueue;

/// Work for `W`, the owner of a database connection.
pub(in crate::store) enum Work<W> {
    /// An operation, which is planned and persisted together with the other operations of its batch.
    Operation(Operation),
    /// A closure that runs on the connection, alone and at most once.
    Statement(Statement<W>),
}

/// The result of a [`Work`].
pub(in crate::store) enum Done {
    /// The answer of an operation.
    Answer(Answer),
    /// What a statement returned.
    Returned(Box<dyn Any + Send>),
}

pub(in crate::store) struct Statement<W>(Mutex<Option<Running<W>>>);

type Running<W> = Box<dyn for<'w> FnOnce(&'w mut W) -> BoxFuture<'w, Result<Done, StoreError>> + Send>;

impl<W> Work<W> {
    pub(in crate::store) fn operation(&self) -> Option<&Operation> {
        match self {
            Self::Operation(operation) => Some(operation),
            Self::Statement(_) => None,
        }
    }
}

impl<W> Statement<W> {
    pub(in crate::store) async fn run(&self, writer: &mut W) -> Result<Done, StoreError> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match running {
            Some(run) => run(writer).await,
            None => Err(StoreError::corrupt("a statement that ran before")),
        }
    }
}

/// A handle that submits work to a writer.
pub(in crate::store) struct WorkQueue<W>(BatchQueue<Work<W>, Result<Done, StoreError>>);

impl<W: Send + 'static> WorkQueue<W> {
    pub(in crate::store) fn new(queue: BatchQueue<Work<W>, Result<Done, StoreError>>) -> Self {
        Self(queue)
    }

    /// Plans and commits an operation together with the other operations in the queue.
    pub(in crate::store) async fn submit(&self, operation: Operation) -> Result<Answer, StoreError> {
        match self.0.submit(Work::Operation(operation)).await?? {
            Done::Answer(answer) => Ok(answer),
            Done::Returned(_) => Err(StoreError::corrupt("an operation without an answer")),
        }
    }

    /// Runs a statement between two batches.
    pub(in crate::store) async fn run<T: Send + 'static>(
        &self,
        statement: impl for<'w> FnOnce(&'w mut W) -> BoxFuture<'w, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let statement: Running<W> = Box::new(move |writer| {
            let running = statement(writer);
            Box::pin(async move { running.await.map(|returned| Done::Returned(Box::new(returned))) })
        });
        let done = self.0.submit(Work::Statement(Statement(Mutex::new(Some(statement))))).await??;
        match done {
            Done::Returned(returned) => returned.downcast().ok().map(|returned| *returned),
            Done::Answer(_) => None,
        }
        .ok_or(StoreError::corrupt("a statement that returned something else"))
    }
}

impl<W> Clone for WorkQueue<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
