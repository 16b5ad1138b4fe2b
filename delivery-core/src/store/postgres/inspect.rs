//! Inspecting a schema without changing it, also while servers use it.

use std::cmp::Ordering;

use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::PostgresError;
use super::cold::cold;
use super::connect::in_schema;
use super::hosts::Hosts;
use super::schema::{PATIENCE, SchemaConfig, check, compare, newest_migration};
use super::session::Session;
use crate::key::Fingerprint;
use crate::store::inspection::Inspection;
use crate::store::inspection::OBJECTS;
use crate::store::sql::keyring::acceptance;

/// Inspects the schema `place` of the database at `hosts`.
pub(super) async fn inspect(
    hosts: Hosts,
    place: &SchemaConfig,
    keyring: &[Fingerprint],
) -> Result<Inspection, PostgresError> {
    let hosts = hosts.map(|options| in_schema(options, &place.schema));
    timeout(PATIENCE, look(&hosts, place, keyring)).await.map_err(|_| PostgresError::Silent)?
}

async fn look(hosts: &Hosts, place: &SchemaConfig, keyring: &[Fingerprint]) -> Result<Inspection, PostgresError> {
    const ENGINE: &str = "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)";
    let schema = place.schema.as_str();
    let failed = |source| PostgresError::while_opening(schema, source);
    let (mut connection, _) = hosts.connect(&[]).await.map_err(failed)?;
    connection.execute("SET default_transaction_read_only = on").await.map_err(failed)?;
    let mut session = Session::Host(&mut connection);
    check(&mut session, place.may_lose).await?;
    let engine = session.scalar(ENGINE).fetch_one(&mut *session).await.map_err(failed)?;
    let newest = newest_migration(&mut session, schema).await?;
    let inspection = match compare(newest)? {
        Ordering::Less if newest == 0 => Inspection::missing(engine),
        compared => {
            let unread = |source| PostgresError::Unreadable { schema: schema.to_owned(), source };
            let (acceptance, _) = acceptance(&mut cold(&mut session), keyring).await.map_err(unread)?;
            let found = Inspection::found(engine, compared.is_eq(), acceptance);
            if compared.is_eq() {
                let objects: Vec<String> = session.scalar(OBJECTS).fetch_all(&mut *session).await.map_err(failed)?;
                found.with_objects(&objects)
            } else {
                found
            }
        }
    };
    connection.close().await.map_err(failed)?;
    Ok(inspection)
}
