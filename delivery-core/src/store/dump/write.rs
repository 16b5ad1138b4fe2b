//! Writing a dump.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::{DumpError, Dumped, Frame, Kind, Progress, TABLES, Table};
use crate::key::KeyId;
use crate::store::StoreError;
use crate::store::sql::rows::{Columns, milliseconds, seconds};
use crate::store::sql::session::{Session, Value};

/// Writes a dump of the rows that `session` sees. The session must see a snapshot of the database. `keys` is the name
/// of the table or view from which keys are read, including their use counts.
pub(in crate::store) async fn write(
    session: &mut Session<'_>,
    keys: &str,
    to: impl Write + Send,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Dumped, DumpError> {
    let mut counts = BTreeMap::new();
    for table in &TABLES {
        let count = format!("SELECT CAST(count(*) AS bigint) AS rows FROM {}", table.name);
        let found = session.row(&count, Vec::new()).await?.ok_or(StoreError::corrupt("a count without a row"))?;
        counts.insert(table.row.to_owned(), found.integer("rows")?.unsigned_abs());
    }
    let mut to = Hashing { to: BufWriter::with_capacity(1 << 16, to), hash: Sha256::new() };
    to.write(Frame::new(counts.clone(), None).line()?.as_bytes())?;
    let mut rows = Vec::with_capacity(TABLES.len());
    for table in &TABLES {
        let of = counts.get(table.row).copied().unwrap_or(0);
        let source = if table.name == "delivery_key" { keys } else { table.name };
        let mut done = 0;
        let mut last: Option<Vec<Value>> = None;
        loop {
            let select = table.select(source, last.is_none());
            let found = session.rows(&select, last.take().unwrap_or_default()).await?;
            let mut lines = Vec::with_capacity(found.len() * 256);
            let count = found.len();
            for (place, row) in (done + 1..).zip(found) {
                let values = row.into_values();
                line(table, &values, &mut lines).map_err(|why| DumpError::Row { what: table.what, row: place, why })?;
                last = Some(table.key_places().filter_map(|place| values.get(place).cloned()).collect());
            }
            to.write(&lines)?;
            done += count as u64;
            if count > 0 {
                progress(Progress { what: table.what, done, of });
            }
            if count < table.chunk {
                break;
            }
        }
        rows.push((table.what, done));
    }
    let sha256: [u8; 32] = to.hash.clone().finalize().into();
    to.write(Frame::new(counts, Some(HEXLOWER.encode(&sha256))).line()?.as_bytes())?;
    to.to.flush().map_err(|source| DumpError::Write { source })?;
    Ok(Dumped { rows, sha256 })
}

struct Hashing<W: Write> {
    to: BufWriter<W>,
    hash: Sha256,
}

impl<W: Write> Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), DumpError> {
        self.hash.update(bytes);
        self.to.write_all(bytes).map_err(|source| DumpError::Write { source })
    }
}

/// Appends a row to `to`, as one line of the dump.
fn line(table: &Table, values: &[Value], to: &mut Vec<u8>) -> Result<(), &'static str> {
    to.extend_from_slice(b"{\"row\":\"");
    to.extend_from_slice(table.row.as_bytes());
    to.push(b'"');
    for ((field, _, kind), value) in table.columns.iter().zip(values) {
        if matches!(value, Value::Integer(None) | Value::Text(None) | Value::Bytes(None)) {
            continue;
        }
        to.extend_from_slice(b",\"");
        to.extend_from_slice(field.as_bytes());
        to.extend_from_slice(b"\":");
        match (kind, value) {
            (Kind::Number | Kind::Id | Kind::Count, Value::Integer(Some(number))) => json(number, to)?,
            (Kind::Flag, Value::Integer(Some(flag @ (0 | 1)))) => json(&(*flag == 1), to)?,
            (Kind::Seconds, Value::Integer(Some(at))) => {
                let at = seconds(*at).map_err(|_| "a time is out of range")?;
                json(&crate::clock::timestamp(at), to)?;
            }
            (Kind::Milliseconds, Value::Integer(Some(at))) => {
                let at = milliseconds(*at).map_err(|_| "a time is out of range")?;
                json(&at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true), to)?;
            }
            (Kind::Text, Value::Text(Some(text))) => json(text, to)?,
            (Kind::Json, Value::Text(Some(text))) if !text.contains('\n') => to.extend_from_slice(text.as_bytes()),
            (Kind::Json, Value::Text(_)) => return Err("its JSON has several lines"),
            (Kind::KeyId, Value::Bytes(Some(bytes))) => {
                let id = <[u8; 16]>::try_from(bytes.as_slice()).map_err(|_| "a key id has another length")?;
                json(&KeyId::from_bytes(id).to_string(), to)?;
            }
            (Kind::Bytes, Value::Bytes(Some(bytes))) => json(&HEXLOWER.encode(bytes), to)?,
            _ => return Err("a column has a value of another kind"),
        }
    }
    to.extend_from_slice(b"}\n");
    Ok(())
}

fn json(value: &(impl serde::Serialize + ?Sized), to: &mut Vec<u8>) -> Result<(), &'static str> {
    serde_json::to_writer(to, value).map_err(|_| "a value is no JSON")
}
