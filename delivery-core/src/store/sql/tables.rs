//! Tables that both databases have, to be copied as they are, and parts of them as columns of values.

use sha2::{Digest, Sha256};

use crate::store::StoreError;
use crate::store::sql::rows::Columns;

/// A table that is copied as it is, row by row under the same primary key.
pub(in crate::store) struct Table {
    /// What a human calls its rows.
    pub(in crate::store) what: &'static str,
    pub(in crate::store) name: &'static str,
    /// The columns of the primary key, by which rows are ordered.
    key: &'static [&'static str],
    columns: &'static [(&'static str, Kind)],
    /// Rows at a time: few of what may be large.
    pub(in crate::store) chunk: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Text,
    Bytes,
}

use Kind::{Bytes, Integer, Text};

pub(in crate::store) static TABLES: [Table; 13] = [
    Table {
        what: "products",
        name: "delivery_product",
        key: &["id"],
        columns: &[
            ("id", Integer),
            ("name", Text),
            ("description", Text),
            ("kind", Text),
            ("content", Text),
            ("price", Text),
            ("days", Integer),
            ("uses", Integer),
            ("archived", Integer),
            ("host_ref", Text),
            ("refs", Text),
            ("language", Text),
        ],
        chunk: 16,
    },
    Table {
        what: "posts",
        name: "delivery_post",
        key: &["id"],
        columns: &[
            ("id", Integer),
            ("title", Text),
            ("category", Text),
            ("content", Text),
            ("published_at", Integer),
            ("version", Integer),
        ],
        chunk: 16,
    },
    Table {
        what: "keys",
        name: "delivery_key",
        key: &["number"],
        columns: &[
            ("number", Integer),
            ("id", Bytes),
            ("secret_version", Integer),
            ("product", Integer),
            ("email", Text),
            ("source", Text),
            ("order_id", Text),
            ("issued_at", Integer),
            ("granted_until", Integer),
            ("granted_uses", Integer),
            ("expires_at", Integer),
            ("max_uses", Integer),
            ("used", Integer),
            ("last_use", Integer),
            ("revoked_at", Integer),
            ("revoked_reason", Text),
            ("revoked_by", Text),
            ("successor", Text),
            ("host_ref", Text),
            ("noticed", Integer),
            ("lapsed", Integer),
        ],
        chunk: 10_000,
    },
    Table {
        what: "purchases",
        name: "delivery_purchase",
        key: &["order_id", "source", "product"],
        columns: &[("order_id", Text), ("source", Text), ("product", Integer), ("key", Integer)],
        chunk: 10_000,
    },
    Table {
        what: "uses",
        name: "delivery_use",
        key: &["number"],
        columns: &[("number", Integer), ("key", Integer), ("at", Integer), ("used", Integer), ("previous", Integer)],
        chunk: 20_000,
    },
    Table {
        what: "messages",
        name: "delivery_message",
        key: &["number"],
        columns: &[
            ("number", Integer),
            ("key", Integer),
            ("kind", Text),
            ("recipient", Text),
            ("message_id", Text),
            ("state", Integer),
            ("attempts", Integer),
            ("token", Integer),
            ("queued_at", Integer),
            ("due_at", Integer),
            ("reason", Text),
            ("route", Text),
        ],
        chunk: 10_000,
    },
    Table {
        what: "audit entries",
        name: "delivery_event",
        key: &["number"],
        columns: &[
            ("number", Integer),
            ("key", Integer),
            ("product", Integer),
            ("at", Integer),
            ("actor", Text),
            ("action", Text),
            ("detail", Text),
        ],
        chunk: 10_000,
    },
    Table {
        what: "events of platforms",
        name: "delivery_inbox",
        key: &["number"],
        columns: &[
            ("number", Integer),
            ("source", Text),
            ("name", Text),
            ("kind", Text),
            ("order_id", Text),
            ("body", Text),
            ("received_at", Integer),
            ("outcome", Text),
            ("reason", Text),
            ("keys", Text),
            ("due_at", Integer),
            ("attempts", Integer),
            ("version", Integer),
        ],
        // Few of what may be large.
        chunk: 16,
    },
    Table {
        what: "deals",
        name: "delivery_deal",
        key: &["number"],
        columns: &[("number", Integer), ("version", Integer), ("facts", Text)],
        chunk: 1000,
    },
    Table {
        what: "references",
        name: "delivery_reference",
        key: &["source", "kind", "name"],
        columns: &[("source", Text), ("kind", Text), ("name", Text), ("deal", Integer)],
        chunk: 10_000,
    },
    Table {
        what: "customers",
        name: "delivery_customer",
        key: &["source", "reference"],
        columns: &[("source", Text), ("reference", Text), ("email", Text), ("told_at", Integer)],
        chunk: 10_000,
    },
    Table {
        what: "dismissed products",
        name: "delivery_dismissed",
        key: &["source", "name"],
        columns: &[("source", Text), ("name", Text)],
        chunk: 10_000,
    },
    Table {
        what: "requests",
        name: "delivery_request",
        key: &["key", "request"],
        columns: &[
            ("key", Integer),
            ("request", Text),
            ("product", Integer),
            ("at", Integer),
            ("repeats", Integer),
            ("version", Integer),
        ],
        chunk: 10_000,
    },
];

/// A place in a table: the primary key of a row.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) struct Place(pub(in crate::store) Vec<Value>);

#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) enum Value {
    Integer(i64),
    Text(String),
}

/// Binds a place and, for a table, how many rows to read from there.
macro_rules! bind_place {
    ($statement:expr, $place:expr) => {
        $place.0.iter().fold($statement, |statement, value| match value {
            crate::store::sql::tables::Value::Integer(value) => statement.bind(*value),
            crate::store::sql::tables::Value::Text(value) => statement.bind(value.clone()),
        })
    };
    ($statement:expr, $place:expr, $table:expr) => {
        bind_place!($statement, $place).bind(crate::store::sql::statements::limit($table.chunk))
    };
}
pub(in crate::store) use bind_place;

impl Table {
    /// The place before every row.
    pub(in crate::store) fn start(&self) -> Place {
        let least = |name: &&'static str| match self.columns.iter().find(|(column, _)| column == name) {
            Some((_, Text)) => Value::Text(String::new()),
            _ => Value::Integer(i64::MIN),
        };
        Place(self.key.iter().map(least).collect())
    }

    /// All columns, for a statement.
    pub(in crate::store) fn columns(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// How many rows.
    pub(in crate::store) fn count(&self) -> String {
        format!("SELECT count(*) FROM {}", self.name)
    }

    /// The next rows after the place `$1, …`, at most as many as the parameter after it says. Keys are read from `keys`.
    pub(in crate::store) fn select(&self, keys: &str) -> String {
        let (columns, (after, order)) = (self.columns(), self.after());
        let (name, most) = (if self.name == "delivery_key" { keys } else { self.name }, self.key.len() + 1);
        format!("SELECT {columns} FROM {name} WHERE {after} ORDER BY {order} LIMIT ${most}")
    }

    /// Deletes the rows after the place `$1, …`.
    pub(in crate::store) fn delete(&self) -> String {
        format!("DELETE FROM {} WHERE {}", self.name, self.after().0)
    }

    fn after(&self) -> (String, String) {
        let key = self.key.join(", ");
        let parameters: Vec<String> = (1..=self.key.len()).map(|number| format!("${number}")).collect();
        (format!("({key}) > ({})", parameters.join(", ")), key)
    }

    /// The rows as columns.
    pub(in crate::store) fn chunk(&self, rows: &[impl Columns]) -> Result<Chunk, StoreError> {
        let column = |(name, kind): &(&'static str, Kind)| {
            Ok(match kind {
                Integer => {
                    Column::Integers(rows.iter().map(|row| row.integer_or_null(name)).collect::<Result<_, _>>()?)
                }
                Text => {
                    let text = |row| Ok(Columns::text_or_null(row, name)?.map(str::to_owned));
                    Column::Texts(rows.iter().map(text).collect::<Result<_, _>>()?)
                }
                Bytes => {
                    let bytes = |row| Ok(Columns::bytes(row, name)?.to_owned());
                    Column::Bytes(rows.iter().map(bytes).collect::<Result<_, _>>()?)
                }
            })
        };
        let last = |row| {
            let value = |name: &&'static str| match self.columns.iter().find(|(column, _)| column == name) {
                Some((_, Text)) => Ok(Value::Text(Columns::text(row, name)?.to_owned())),
                _ => Ok(Value::Integer(Columns::integer(row, name)?)),
            };
            self.key.iter().map(value).collect::<Result<_, StoreError>>().map(Place)
        };
        let last = rows.last().map(last).transpose()?;
        let columns = self.columns.iter().map(column).collect::<Result<_, StoreError>>()?;
        Ok(Chunk { columns, rows: rows.len(), last })
    }
}

/// Some rows of a table, in the order of their keys.
#[derive(PartialEq)]
pub(in crate::store) struct Chunk {
    pub(in crate::store) columns: Vec<Column>,
    pub(in crate::store) rows: usize,
    /// The place of the last row.
    pub(in crate::store) last: Option<Place>,
}

#[derive(PartialEq)]
pub(in crate::store) enum Column {
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Bytes(Vec<Vec<u8>>),
}

impl Chunk {
    /// Adds every value to a fingerprint; no two chunks add the same bytes.
    pub(in crate::store) fn digest(&self, into: &mut Sha256) {
        let mut add = |value: Option<&[u8]>| {
            // No value is as long as that.
            into.update(value.map_or(u64::MAX, |value| value.len() as u64).to_be_bytes());
            into.update(value.unwrap_or_default());
        };
        for column in &self.columns {
            match column {
                Column::Integers(values) => {
                    for value in values {
                        add(value.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
                    }
                }
                Column::Texts(values) => values.iter().for_each(|value| add(value.as_deref().map(str::as_bytes))),
                Column::Bytes(values) => values.iter().for_each(|value| add(Some(value))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sqlx::ConnectOptions;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;

    /// Not copied, since it is no content of the store: what follows from other columns, or what a server begins anew.
    const LEFT_OUT: [&str; 24] = [
        "delivery_count.key",
        "delivery_count.last_use",
        "delivery_count.used",
        "delivery_key.exhausted",
        "delivery_key.state",
        "delivery_key.told",
        "delivery_keyring.fingerprint",
        "delivery_lost.at",
        "delivery_lost.email",
        "delivery_lost.number",
        "delivery_message.leased",
        "delivery_product_ref.name",
        "delivery_product_ref.product",
        "delivery_product_ref.source",
        "delivery_session.actor",
        "delivery_session.expires_at",
        "delivery_session.id",
        "delivery_session.token",
        "delivery_transfer.finished_at",
        "delivery_transfer.id",
        "delivery_transfer.one",
        "delivery_watermark.number",
        "delivery_watermark.one",
        "delivery_watermark.reserved",
    ];

    /// A column that is added to a table and not to [`TABLES`] would be lost by a transfer.
    #[tokio::test]
    async fn every_column_of_the_schema_is_copied_or_left_out_on_purpose() {
        const COLUMNS: &str = "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c \
            WHERE t.type = 'table' AND t.name LIKE 'delivery_%'";
        let mut connection = SqliteConnectOptions::new().connect().await.unwrap();
        crate::store::sqlite::migrate(&mut connection).await.unwrap();
        let stored: BTreeSet<String> =
            sqlx::query_scalar(COLUMNS).fetch_all(&mut connection).await.unwrap().into_iter().collect();
        let copied = TABLES.iter().flat_map(|table| table.columns.iter().map(move |(name, _)| (table.name, *name)));
        // Counts stand in a table of their own, and are read with their keys.
        let copied = copied.filter(|column| !matches!(column, ("delivery_key", "used" | "last_use")));
        let known: BTreeSet<String> =
            copied.map(|(table, column)| format!("{table}.{column}")).chain(LEFT_OUT.map(str::to_owned)).collect();
        assert_eq!(stored, known);
    }
}
