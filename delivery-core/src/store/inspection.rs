//! Looking at a database without changing it.

use crate::key::Acceptance;

/// What was found at the address of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// What it runs on, such as `SQLite 3.51.3` or `PostgreSQL 17.2`.
    pub engine: String,
    /// Whether there is a store, and whether opening it would change its schema.
    pub schema: Schema,
    /// Whether the store may be used with the secrets that were asked about; `None` if there is no store.
    pub acceptance: Option<Acceptance>,
}

/// What there is of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schema {
    /// Nothing: opening makes it.
    Missing,
    /// The schema of an older version: opening brings it up to date.
    Older,
    /// The schema of this version.
    Current,
}

impl Inspection {
    pub(super) fn missing(engine: String) -> Self {
        Self { engine, schema: Schema::Missing, acceptance: None }
    }

    pub(super) fn found(engine: String, is_current: bool, acceptance: Acceptance) -> Self {
        let schema = if is_current { Schema::Current } else { Schema::Older };
        Self { engine, schema, acceptance: Some(acceptance) }
    }
}
