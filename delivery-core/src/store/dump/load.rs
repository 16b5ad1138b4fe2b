//! Loading a checked dump.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use data_encoding::HEXLOWER;
use serde_json::value::RawValue;

use super::check::Checked;
use super::{DumpError, Dumped, Kind, Progress, TABLES, Table};
use crate::key::KeyId;
use crate::store::sql::session::Value;

/// The greatest number that a [`Kind::Id`] column of a dump may contain. It leaves enough greater numbers for the rows
/// that the store adds after the load.
const MAX_ID: i64 = 1 << 62;

/// An empty store that is filled in one transaction.
#[async_trait]
pub(in crate::store) trait Target: Send {
    /// Inserts rows of a table. Each row has the values of the table's columns, in the columns' order.
    async fn insert(&mut self, table: &'static Table, rows: Vec<Vec<Value>>) -> Result<(), DumpError>;
}

/// Fills `target` with the rows of the dump. If this succeeds, the caller commits. After an error, the caller discards
/// the target.
pub(in crate::store) async fn load(
    mut checked: Checked,
    target: &mut (dyn Target + '_),
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Dumped, DumpError> {
    let (mut line, mut number, mut loaded) = (Vec::new(), 1, Vec::with_capacity(TABLES.len()));
    for table in &TABLES {
        let of = checked.counts.get(table.row).copied().unwrap_or(0);
        let mut done = 0;
        while done < of {
            let most = usize::try_from(of - done).unwrap_or(usize::MAX).min(table.chunk);
            let mut rows = Vec::with_capacity(most);
            for _ in 0..most {
                number += 1;
                let values = values(table, checked.next(&mut line)?);
                rows.push(values.map_err(|why| DumpError::Line { line: number, why })?);
            }
            done += rows.len() as u64;
            target.insert(table, rows).await?;
            progress(Progress { what: table.what, done, of });
        }
        loaded.push((table.what, done));
    }
    Ok(Dumped { rows: loaded, sha256: checked.finish()? })
}

/// Returns the values of a row, in the order of the table's columns.
fn values(table: &Table, line: &[u8]) -> Result<Vec<Value>, &'static str> {
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_slice(line).map_err(|_| "it is no JSON object")?;
    let row = fields.remove("row").and_then(|row| serde_json::from_str::<&str>(row.get()).ok());
    if row != Some(table.row) {
        return Err("it is no row of the table whose turn it is");
    }
    let values = table.columns.iter().map(|(field, _, kind)| value(*kind, fields.remove(field)));
    let values = values.collect::<Option<Vec<_>>>().ok_or("a field has a value of another kind")?;
    if fields.is_empty() { Ok(values) } else { Err("it has a field that this program does not know") }
}

fn value(kind: Kind, field: Option<&RawValue>) -> Option<Value> {
    let text = |field: &RawValue| serde_json::from_str::<String>(field.get()).ok();
    let time = |field: &RawValue| Some(DateTime::parse_from_rfc3339(&text(field)?).ok()?.with_timezone(&Utc));
    Some(match (kind, field) {
        (Kind::Number | Kind::Id | Kind::Count | Kind::Flag | Kind::Seconds | Kind::Milliseconds, None) => {
            Value::Integer(None)
        }
        (Kind::Text | Kind::Json, None) => Value::Text(None),
        (Kind::KeyId | Kind::Bytes, None) => Value::Bytes(None),
        (Kind::Number, Some(field)) => Value::Integer(Some(field.get().parse().ok()?)),
        (Kind::Id, Some(field)) => {
            Value::Integer(field.get().parse().ok().filter(|id| (1..=MAX_ID).contains(id)).map(Some)?)
        }
        (Kind::Count, Some(field)) => {
            Value::Integer(field.get().parse().ok().filter(|count: &i64| *count >= 0).map(Some)?)
        }
        (Kind::Flag, Some(field)) => Value::Integer(Some(field.get().parse::<bool>().ok()?.into())),
        (Kind::Seconds, Some(field)) => Value::Integer(Some(time(field)?.timestamp())),
        (Kind::Milliseconds, Some(field)) => Value::Integer(Some(time(field)?.timestamp_millis())),
        (Kind::Text, Some(field)) => Value::Text(Some(text(field)?)),
        (Kind::Json, Some(field)) => Value::Text(Some(field.get().to_owned())),
        (Kind::KeyId, Some(field)) => Value::Bytes(Some(text(field)?.parse::<KeyId>().ok()?.as_bytes().to_vec())),
        (Kind::Bytes, Some(field)) => Value::Bytes(Some(HEXLOWER.decode(text(field)?.as_bytes()).ok()?)),
    })
}
