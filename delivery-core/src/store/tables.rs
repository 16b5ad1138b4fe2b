//! Tables that both databases have, to be copied as they are, and parts of them as columns of values.

use sha2::{Digest, Sha256};

use crate::store::StoreError;
use crate::store::rows::Columns;

/// A table that is copied as it is, row by row under the same number.
pub(super) struct Table {
    /// What a human calls its rows.
    pub(super) what: &'static str,
    pub(super) name: &'static str,
    /// The first is the number.
    columns: &'static [(&'static str, Kind)],
    /// Rows at a time: few of what may be large.
    pub(super) chunk: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Integer,
    Text,
    Bytes,
}

use Kind::{Bytes, Integer, Text};

pub(super) static TABLES: [Table; 5] = [
    Table {
        what: "products",
        name: "delivery_product",
        columns: &[
            ("id", Integer),
            ("name", Text),
            ("description", Text),
            ("kind", Text),
            ("content", Text),
            ("price", Text),
            ("days", Integer),
            ("uses", Integer),
        ],
        chunk: 16,
    },
    Table {
        what: "posts",
        name: "delivery_post",
        columns: &[("id", Integer), ("title", Text), ("category", Text), ("content", Text), ("published_at", Integer)],
        chunk: 16,
    },
    Table {
        what: "keys",
        name: "delivery_key",
        columns: &[
            ("number", Integer),
            ("id", Bytes),
            ("ring", Integer),
            ("product", Integer),
            ("email", Text),
            ("source", Text),
            ("order_id", Text),
            ("issued_at", Integer),
            ("expires_at", Integer),
            ("max_uses", Integer),
            ("used", Integer),
            ("last_use", Integer),
            ("revoked_at", Integer),
        ],
        chunk: 10_000,
    },
    Table {
        what: "uses",
        name: "delivery_use",
        columns: &[("number", Integer), ("key", Integer), ("at", Integer), ("previous", Integer)],
        chunk: 20_000,
    },
    Table {
        what: "letters",
        name: "delivery_letter",
        columns: &[
            ("number", Integer),
            ("key", Integer),
            ("message_id", Text),
            ("state", Integer),
            ("attempts", Integer),
            ("fence", Integer),
            ("queued_at", Integer),
            ("due_at", Integer),
            ("reason", Text),
            ("route", Text),
        ],
        chunk: 10_000,
    },
];

impl Table {
    /// All columns, for a statement.
    pub(super) fn columns(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    /// How many rows.
    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM {}", self.name)
    }

    /// The next rows after number `$1`, at most `$2`.
    pub(super) fn select(&self) -> String {
        let (columns, name, number) = (self.columns(), self.name, self.number());
        format!("SELECT {columns} FROM {name} WHERE {number} > $1 ORDER BY {number} LIMIT $2")
    }

    /// Deletes the rows after number `$1`.
    pub(super) fn forget(&self) -> String {
        format!("DELETE FROM {} WHERE {} > $1", self.name, self.number())
    }

    fn number(&self) -> &'static str {
        self.columns.first().map_or("number", |(name, _)| name)
    }

    /// The rows as columns.
    pub(super) fn chunk(&self, rows: &[impl Columns]) -> Result<Chunk, StoreError> {
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
        Ok(Chunk(self.columns.iter().map(column).collect::<Result<_, StoreError>>()?))
    }
}

/// Some rows of a table, in the order of their numbers.
#[derive(PartialEq)]
pub(super) struct Chunk(pub(super) Vec<Column>);

#[derive(PartialEq)]
pub(super) enum Column {
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
    Bytes(Vec<Vec<u8>>),
}

impl Chunk {
    /// How many rows.
    pub(super) fn rows(&self) -> usize {
        self.numbers().len()
    }

    /// The number of the last row.
    pub(super) fn last(&self) -> Option<i64> {
        *self.numbers().last()?
    }

    fn numbers(&self) -> &[Option<i64>] {
        match self.0.first() {
            Some(Column::Integers(numbers)) => numbers,
            _ => &[],
        }
    }

    /// Adds every value to a fingerprint; no two chunks add the same bytes.
    pub(super) fn digest(&self, into: &mut Sha256) {
        let mut add = |value: Option<&[u8]>| {
            // No value is as long as that.
            into.update(value.map_or(u64::MAX, |value| value.len() as u64).to_be_bytes());
            into.update(value.unwrap_or_default());
        };
        for column in &self.0 {
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
