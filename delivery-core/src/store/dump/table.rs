//! A database table, and the form of its rows in a dump.

/// A database table. A dump contains its rows in the order of the primary key.
#[derive(Debug)]
pub(in crate::store) struct Table {
    /// The kind of the rows, such as `key`. In a dump, the field `row` of each row contains this text.
    pub(super) row: &'static str,
    /// The name of the rows in messages to the operator, such as `keys`.
    pub(super) what: &'static str,
    pub(in crate::store) name: &'static str,
    /// The columns of the primary key.
    pub(super) key: &'static [&'static str],
    /// The fields of a row in a dump. Each is the name of the field, the column from which its value comes, and the
    /// kind of the value.
    pub(in crate::store) columns: &'static [(&'static str, &'static str, Kind)],
    /// The maximum number of rows that are read or inserted at a time. It is small if single rows may be large.
    pub(super) chunk: usize,
}

/// The kind of a column's values, which determines how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Kind {
    /// An integer.
    Number,
    /// The number of a row: an integer of 1 or more. A load accepts at most 2^62.
    Id,
    /// An integer of 0 or more.
    Count,
    /// 0 or 1, written as `false` or `true`.
    Flag,
    /// Seconds since 1970, written as an RFC 3339 time.
    Seconds,
    /// Milliseconds since 1970, written as an RFC 3339 time.
    Milliseconds,
    Text,
    /// JSON, written unchanged.
    Json,
    /// The 16 bytes of a key's id, written as a UUID.
    KeyId,
    /// Bytes, written in hexadecimal digits.
    Bytes,
}

impl Table {
    /// Returns the names of all columns, separated by commas.
    pub(in crate::store) fn column_names(&self) -> String {
        self.columns.iter().map(|(_, column, _)| *column).collect::<Vec<_>>().join(", ")
    }

    /// Returns a statement that selects the next [`chunk`](Self::chunk) rows of `source`, which is the table or a view
    /// with the same columns. If `is_first`, the statement starts at the first row. Otherwise it starts after the row
    /// whose primary key is bound to its parameters.
    pub(super) fn select(&self, source: &str, is_first: bool) -> String {
        let (columns, key, limit) = (self.column_names(), self.key.join(", "), self.chunk);
        let parameters = (1..=self.key.len()).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ");
        let after = if is_first { String::new() } else { format!("WHERE ({key}) > ({parameters})") };
        format!("SELECT {columns} FROM {source} {after} ORDER BY {key} LIMIT {limit}")
    }

    /// Returns the positions of the primary key's columns among all columns.
    pub(super) fn key_places(&self) -> impl Iterator<Item = usize> {
        self.key.iter().filter_map(|key| self.columns.iter().position(|(_, column, _)| column == key))
    }
}
