//! What stores and limiters promise, beyond the cases of the conformance suite.

#[macro_use]
mod fixtures;

mod batches;
mod dump;
mod histories;
mod host_transaction;
mod import;
mod linearizable;
mod own_store;
mod places;
mod postgres;
mod races;
mod redis;
mod searches;
mod sqlite;
mod timelines;
