//! The tables and columns that a dump contains, and the names that a dump uses for their rows and fields.
//!
//! A dump omits columns whose values can be computed from other columns. It also omits bookkeeping that a server
//! creates anew.

use super::table::Kind::{Bytes, Count, Flag, Id, Json, KeyId, Milliseconds, Number, Seconds, Text};
use super::table::Table;

/// The order of the tables is part of the format: rows of a dump stand in this order. A later version may insert a table,
/// but must not move one, because it would refuse earlier dumps.
pub(in crate::store) static TABLES: [Table; 20] = [
    Table {
        row: "keyring",
        what: "secrets",
        name: "delivery_keyring",
        key: &["fingerprint"],
        columns: &[("fingerprint", "fingerprint", Bytes)],
        chunk: 1000,
    },
    Table {
        row: "product",
        what: "products",
        name: "delivery_product",
        key: &["id"],
        columns: &[
            ("product_id", "id", Id),
            ("name", "name", Text),
            ("description", "description", Text),
            ("kind", "kind", Text),
            ("content", "content", Text),
            ("price", "price", Text),
            ("validity_days", "days", Number),
            ("max_uses", "uses", Number),
            ("archived", "archived", Flag),
            ("host_ref", "host_ref", Text),
            ("refs", "refs", Json),
            ("language", "language", Text),
        ],
        chunk: 16,
    },
    Table {
        row: "file",
        what: "files",
        name: "delivery_file",
        key: &["object"],
        columns: &[
            ("object", "object", Text),
            ("product_id", "product", Id),
            ("name", "name", Text),
            ("folded_name", "folded", Text),
            ("size", "size", Count),
            ("sha256", "sha256", Bytes),
            ("type", "kind", Text),
            ("added_at", "added_at", Milliseconds),
            ("ended_at", "ended_at", Milliseconds),
        ],
        chunk: 1000,
    },
    Table {
        row: "post",
        what: "posts",
        name: "delivery_post",
        key: &["id"],
        columns: &[
            ("post_id", "id", Id),
            ("title", "title", Text),
            ("category", "category", Text),
            ("content", "content", Text),
            ("published_at", "published_at", Seconds),
            ("version", "version", Count),
        ],
        chunk: 16,
    },
    Table {
        row: "key",
        what: "keys",
        name: "delivery_key",
        key: &["number"],
        columns: &[
            ("number", "number", Id),
            ("key_id", "id", KeyId),
            ("secret_version", "secret_version", Number),
            ("product_id", "product", Id),
            ("customer_email", "email", Text),
            ("source", "source", Text),
            ("order_id", "order_id", Text),
            ("created_at", "issued_at", Seconds),
            ("granted_until", "granted_until", Seconds),
            ("granted_uses", "granted_uses", Number),
            ("expires_at", "expires_at", Seconds),
            ("max_uses", "max_uses", Number),
            ("used_count", "used", Count),
            ("last_use", "last_use", Id),
            ("revoked_at", "revoked_at", Milliseconds),
            ("revoked_reason", "revoked_reason", Text),
            ("revoked_by", "revoked_by", Text),
            ("successor", "successor", Text),
            ("host_ref", "host_ref", Text),
            ("notified_of", "noticed", Seconds),
            ("marked_expired", "lapsed", Seconds),
        ],
        chunk: 5000,
    },
    Table {
        row: "purchase",
        what: "purchases",
        name: "delivery_purchase",
        key: &["order_id", "source", "product"],
        columns: &[
            ("order_id", "order_id", Text),
            ("source", "source", Text),
            ("product_id", "product", Id),
            ("key", "key", Id),
        ],
        chunk: 10000,
    },
    Table {
        row: "alias",
        what: "aliases",
        name: "delivery_alias",
        key: &["mac"],
        columns: &[("mac", "mac", Bytes), ("key", "key", Id)],
        chunk: 10000,
    },
    Table {
        row: "use",
        what: "uses",
        name: "delivery_use",
        key: &["number"],
        columns: &[
            ("number", "number", Id),
            ("key", "key", Id),
            ("at", "at", Milliseconds),
            ("used_count", "used", Count),
            ("previous", "previous", Id),
        ],
        chunk: 10000,
    },
    Table {
        row: "message",
        what: "messages",
        name: "delivery_message",
        key: &["number"],
        columns: &[
            ("number", "number", Count),
            ("key", "key", Id),
            ("kind", "kind", Text),
            ("recipient", "recipient", Text),
            ("message_id", "message_id", Text),
            ("state", "state", Count),
            ("leased", "leased", Flag),
            ("attempts", "attempts", Count),
            ("token", "token", Count),
            ("queued_at", "queued_at", Milliseconds),
            ("due_at", "due_at", Milliseconds),
            ("reason", "reason", Text),
            ("route", "route", Text),
        ],
        chunk: 5000,
    },
    Table {
        row: "audit",
        what: "audit entries",
        name: "delivery_event",
        key: &["number"],
        columns: &[
            ("number", "number", Count),
            ("key", "key", Id),
            ("product_id", "product", Id),
            ("at", "at", Milliseconds),
            ("actor", "actor", Text),
            ("action", "action", Text),
            ("detail", "detail", Text),
        ],
        chunk: 10000,
    },
    Table {
        row: "event",
        what: "events of platforms",
        name: "delivery_inbox",
        key: &["number"],
        columns: &[
            ("number", "number", Count),
            ("source", "source", Text),
            ("name", "name", Text),
            ("kind", "kind", Text),
            ("order_id", "order_id", Text),
            ("body", "body", Text),
            ("received_at", "received_at", Milliseconds),
            ("outcome", "outcome", Text),
            ("reason", "reason", Text),
            ("keys", "keys", Json),
            ("due_at", "due_at", Milliseconds),
            ("attempts", "attempts", Count),
            ("version", "version", Count),
        ],
        chunk: 16,
    },
    Table {
        row: "deal",
        what: "deals",
        name: "delivery_deal",
        key: &["number"],
        columns: &[("number", "number", Number), ("version", "version", Number), ("facts", "facts", Json)],
        chunk: 1000,
    },
    Table {
        row: "payment",
        what: "payments",
        name: "delivery_payment",
        key: &["deal", "name"],
        columns: &[
            ("deal", "deal", Id),
            ("name", "name", Text),
            ("at", "at", Milliseconds),
            ("units", "units", Count),
            ("currency", "currency", Text),
        ],
        chunk: 10000,
    },
    Table {
        row: "reference",
        what: "references",
        name: "delivery_reference",
        key: &["source", "kind", "name"],
        columns: &[("source", "source", Text), ("kind", "kind", Text), ("name", "name", Text), ("deal", "deal", Id)],
        chunk: 10000,
    },
    Table {
        row: "customer",
        what: "customers",
        name: "delivery_customer",
        key: &["source", "reference"],
        columns: &[
            ("source", "source", Text),
            ("reference", "reference", Text),
            ("email", "email", Text),
            ("told_at", "told_at", Milliseconds),
        ],
        chunk: 10000,
    },
    Table {
        row: "platform_secret",
        what: "secrets of platforms",
        name: "delivery_platform_secret",
        key: &["source"],
        columns: &[("source", "source", Text), ("sealed", "sealed", Bytes)],
        chunk: 1000,
    },
    Table {
        row: "dismissed",
        what: "dismissed products",
        name: "delivery_dismissed",
        key: &["source", "name"],
        columns: &[("source", "source", Text), ("name", "name", Text)],
        chunk: 10000,
    },
    Table {
        row: "request",
        what: "requests",
        name: "delivery_request",
        key: &["key", "request"],
        columns: &[
            ("key", "key", Id),
            ("request", "request", Text),
            ("product_id", "product", Id),
            ("at", "at", Milliseconds),
            ("repeats", "repeats", Count),
            ("version", "version", Count),
        ],
        chunk: 10000,
    },
    Table {
        row: "sign_in",
        what: "sign-ins",
        name: "delivery_session",
        key: &["id"],
        columns: &[
            ("id", "id", Bytes),
            ("actor", "actor", Text),
            ("token", "token", Bytes),
            ("expires_at", "expires_at", Seconds),
        ],
        chunk: 1000,
    },
    Table {
        row: "lost",
        what: "requests for lost keys",
        name: "delivery_lost",
        key: &["number"],
        columns: &[("number", "number", Number), ("customer_email", "email", Text), ("at", "at", Milliseconds)],
        chunk: 10000,
    },
];

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests {
    use std::collections::BTreeSet;

    use sqlx::ConnectOptions;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;

    /// Columns that a dump does not read from their own tables. Use counts are dumped with the keys instead. The other
    /// columns can be computed from dumped columns, or a server creates them anew.
    const LEFT_OUT: [&str; 12] = [
        "delivery_count.key",
        "delivery_count.last_use",
        "delivery_count.used",
        "delivery_key.exhausted",
        "delivery_key.state",
        "delivery_key.told",
        "delivery_product_ref.name",
        "delivery_product_ref.product",
        "delivery_product_ref.source",
        "delivery_watermark.number",
        "delivery_watermark.one",
        "delivery_watermark.reserved",
    ];

    /// Every column of the schema must be in [`TABLES`] or in [`LEFT_OUT`]. The values of any other column would be
    /// missing from dumps without notice.
    #[tokio::test]
    async fn every_column_of_the_schema_is_dumped_or_left_out_on_purpose() {
        const COLUMNS: &str = "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c \
            WHERE t.type = 'table' AND t.name LIKE 'delivery_%'";
        let mut connection = SqliteConnectOptions::new().connect().await.unwrap();
        crate::store::sqlite::migrate(&mut connection).await.unwrap();
        let stored: BTreeSet<String> =
            sqlx::query_scalar(COLUMNS).fetch_all(&mut connection).await.unwrap().into_iter().collect();
        let dumped = TABLES.iter().flat_map(|table| table.columns.iter().map(move |(_, name, _)| (table.name, *name)));
        // In a dump, `used` and `last_use` are fields of keys. In this schema they are columns of `delivery_count`, not
        // of `delivery_key`.
        let dumped = dumped.filter(|column| !matches!(column, ("delivery_key", "used" | "last_use")));
        let known: BTreeSet<String> =
            dumped.map(|(table, column)| format!("{table}.{column}")).chain(LEFT_OUT.map(str::to_owned)).collect();
        assert_eq!(stored, known);
    }
}
