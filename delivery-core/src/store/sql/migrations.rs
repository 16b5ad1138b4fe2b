//! Schema migrations. The table `_delivery_migrations` lists the scripts that were run, each with the hash of its text.
//! So a script must not be changed after its release.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A script: its number, its name and its SQL.
pub(in crate::store) type Script = (i64, &'static str, &'static str);

/// Returns a migrator that runs `scripts` in the order of their numbers, each once and in a transaction.
pub(in crate::store) fn migrator(scripts: &[Script]) -> Migrator {
    let migration = |(number, name, sql): &Script| {
        Migration::new(*number, (*name).into(), MigrationType::Simple, (*sql).into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(scripts.iter().map(migration).collect());
    // The host application may keep its own sqlx migrations in the same schema.
    migrator.dangerous_set_table_name("_delivery_migrations");
    migrator
}
