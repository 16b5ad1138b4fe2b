//! Inspecting a database without changing it.

use crate::key::Acceptance;
use crate::product::ObjectName;

/// The result of inspecting the database at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The database and its version, such as `SQLite 3.51.3` or `PostgreSQL 17.2`.
    pub engine: String,
    /// Whether the database contains a store, and whether opening the store would change its schema.
    pub schema: Schema,
    /// Whether the store may be used with the given signing secrets; `None` if there is no store.
    pub acceptance: Option<Acceptance>,
    /// The names of the objects that contain the bytes of all current [files](super::Files). Empty if `schema` is not
    /// [`Current`](Schema::Current).
    pub objects: Vec<ObjectName>,
}

/// Selects the names of the objects of all current files.
pub(super) const OBJECTS: &str = "SELECT object FROM delivery_file WHERE ended_at IS NULL ORDER BY object";

/// The state of a store's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Schema {
    /// There is no schema: opening the store creates it.
    Missing,
    /// The schema is that of an older version: opening the store migrates it.
    Older,
    /// The schema is that of this version.
    Current,
}

impl Inspection {
    pub(super) fn missing(engine: String) -> Self {
        Self { engine, schema: Schema::Missing, acceptance: None, objects: Vec::new() }
    }

    pub(super) fn found(engine: String, is_current: bool, acceptance: Acceptance) -> Self {
        let schema = if is_current { Schema::Current } else { Schema::Older };
        Self { engine, schema, acceptance: Some(acceptance), objects: Vec::new() }
    }

    /// Sets the field `objects` to these names. Leaves out names that cannot be parsed.
    pub(super) fn with_objects(self, names: &[String]) -> Self {
        Self { objects: names.iter().filter_map(|name| name.parse().ok()).collect(), ..self }
    }
}
