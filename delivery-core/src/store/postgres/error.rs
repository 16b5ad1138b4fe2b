//! Errors of connecting a store, and the meaning of PostgreSQL's own errors.

use std::sync::Arc;

use sqlx::migrate::MigrateError;
use sqlx::postgres::PgRow;
use thiserror::Error;

use crate::store::StoreError;
use crate::store::sql::rows::columns;
use crate::text::UNESCAPED;

columns!(PgRow);

/// An error while a PostgreSQL store is connected, migrated or inspected. The message is for the operator, names the
/// remedy, and contains no password.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The address is not a `postgres://` URL.
    #[error("must be an address such as postgres://user:password@host:5432/database")]
    Malformed,
    /// The address has an unknown parameter.
    #[error(
        "the address has the unknown parameter {name}: known are sslmode, sslrootcert, sslcert, sslkey, channel_binding, \
         host, hostaddr, port, dbname, user, password, application_name, options, connect_timeout and target_session_attrs"
    )]
    Parameter {
        /// The name of the parameter. A name that may be a part of a password is not reported.
        name: String,
    },
    /// A parameter of the address has a value that cannot be used.
    #[error("the parameter {name} of the address {expected}")]
    Value {
        /// The name of the parameter.
        name: &'static str,
        /// What the value must be.
        expected: &'static str,
    },
    /// The user name or the password contains a character that must be percent-encoded.
    #[error("the address {UNESCAPED}")]
    Unescaped,
    /// The name of the schema is not allowed.
    #[error(
        "the name of the schema must be 1 to 63 lower-case letters, digits and underscores, and begin with a letter"
    )]
    SchemaName,
    /// The server cannot be reached, refuses the user, or reports another error.
    #[error("the PostgreSQL server cannot be connected to")]
    Unreachable {
        /// The error of the server or of the connection.
        #[source]
        source: sqlx::Error,
    },
    /// The server does not answer in time. For example, it is frozen, or it is not PostgreSQL.
    #[error("the PostgreSQL server does not answer within 15 seconds")]
    Silent,
    /// A setting of the server would let a crash lose acknowledged writes.
    #[error("PostgreSQL has {setting} = off, and would lose keys and uses that were acknowledged: set it on")]
    NotDurable {
        /// The setting that is off: `fsync`, `full_page_writes` or `synchronous_commit`.
        setting: String,
    },
    /// The server is too old.
    #[error("PostgreSQL 14 or newer is needed; this is {found}")]
    TooOld {
        /// The version of the server.
        found: String,
    },
    /// The schema does not exist, or the user may not create or use it.
    #[error(
        "the schema {schema} is not there or not this user's: as the owner of the database, \
         CREATE SCHEMA \"{schema}\" AUTHORIZATION the_user"
    )]
    Forbidden {
        /// The name of the schema.
        schema: String,
        /// The error of the server.
        #[source]
        source: sqlx::Error,
    },
    /// The database's encoding is not UTF8.
    #[error(
        "the database must have the encoding UTF8: CREATE DATABASE the_database ENCODING 'UTF8' TEMPLATE template0"
    )]
    NotUtf8,
    /// A later version of this software migrated the schema.
    #[error("the schema was used with a newer version of this software: it has step {step}, unknown here")]
    NewerSchema {
        /// The number of a migration that this version does not contain.
        step: i64,
    },
    /// The schema is missing or not up to date, and this call does not migrate it.
    #[error("the schema {schema} is not up to date: call PostgresStore::options().schema(..).migrate(..) first")]
    NotMigrated {
        /// The name of the schema.
        schema: String,
    },
    /// The schema contains a store that cannot be read.
    #[error("the store in the schema {schema} cannot be read")]
    Unreadable {
        /// The name of the schema.
        schema: String,
        /// The error of reading the store.
        #[source]
        source: StoreError,
    },
    /// The schema cannot be migrated for a reason that no other variant names.
    #[error("the schema cannot be brought up to date")]
    Migration {
        /// The error of the migration.
        #[source]
        source: MigrateError,
    },
}

impl PostgresError {
    /// Converts an error that occurred while the store in `schema` was opened.
    pub(super) fn while_opening(schema: &str, source: sqlx::Error) -> Self {
        // `42501` is `insufficient_privilege`, `3F000` is `invalid_schema_name`.
        if matches!(code(&source).as_deref(), Some("42501" | "3F000")) {
            return Self::Forbidden { schema: schema.to_owned(), source };
        }
        Self::Unreachable { source }
    }

    /// Converts an error that occurred while `schema` was migrated.
    pub(super) fn while_migrating(schema: &str, error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(step) | MigrateError::VersionTooNew(step, _) => Self::NewerSchema { step },
            MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
                Self::while_opening(schema, source)
            }
            source => Self::Migration { source },
        }
    }
}

/// Converts an error that occurred while the store was in use. Appendix A of PostgreSQL's manual lists the error codes.
///
/// The result is:
///
/// - [`StoreError::Refused`] for an invalid statement or row
/// - [`StoreError::Conflict`] if another transaction has locked or changed what the statement needs
/// - [`StoreError::Corrupt`] for data that cannot be read
/// - [`StoreError::Full`] if the disk is full
/// - [`StoreError::Unavailable`] for every other error, because the same call may succeed later
pub(super) fn store_error(error: sqlx::Error) -> StoreError {
    let Some(code) = code(&error) else {
        return match error {
            sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) => {
                StoreError::corrupt_because("a column has another type", error)
            }
            error => StoreError::unavailable_because("the database does not answer", error),
        };
    };
    // `lock_not_available`, `deadlock_detected`, `serialization_failure`.
    if matches!(code.as_str(), "55P03" | "40P01" | "40001") {
        return StoreError::conflict(error);
    }
    match code.get(..2) {
        // Data exception, integrity constraint violation, syntax error or access rule violation.
        Some("22" | "23" | "42") => StoreError::refused(error),
        _ if code == "53100" => StoreError::Full { source: Some(Arc::new(error)) },
        Some("53") => StoreError::unavailable_because("the database has no space or memory left", error),
        _ => StoreError::unavailable_because("the database cannot do it now", error),
    }
}

/// Returns whether a statement that failed with this error may have been executed nevertheless. This is possible if the
/// error has no PostgreSQL error code, because the reply of the server may be lost. It is also possible if the code
/// reports that the connection failed (`08…`) or that the server is shutting down (`57P…`). Any other code means that
/// nothing was executed.
pub(super) fn may_have_happened(error: &StoreError) -> bool {
    let StoreError::Unavailable { source, .. } = error else { return false };
    let source = source.as_ref().and_then(|source| source.downcast_ref::<sqlx::Error>());
    let code = source.and_then(code);
    code.is_none_or(|code| code.starts_with("57P") || code.starts_with("08"))
}

pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}
