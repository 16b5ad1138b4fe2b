//! How a store is connected: to which schema, over whose connections, and whether it migrates the schema.

use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use url::Url;

use super::connect::Sessions;
use super::hosts::Hosts;
use super::inspect::inspect;
use super::schema::SchemaConfig;
use super::{PostgresError, PostgresStore, SCHEMA};
use crate::key::Fingerprint;
use crate::store::Inspection;
use crate::text::is_cut_short;

/// The parameters of an address that are passed on to the driver. The driver also knows other spellings of them, which
/// are refused.
const PARAMETERS: [&str; 9] =
    ["sslmode", "sslrootcert", "sslcert", "sslkey", "dbname", "user", "password", "application_name", "options"];

/// Options for connecting a [`PostgresStore`]. By default the store uses the schema `delivery`, and creates and
/// migrates it as needed.
///
/// # Whose connections
///
/// | | sessions | an order costs | behind PgBouncer |
/// |---|---|---|---|
/// | [`connect`](Self::connect), [`connect_with`](Self::connect_with) | at most nine of its own | one trip to the server | no: its settings are startup parameters |
/// | [`with_pool`](Self::with_pool) | one of the pool's for each transaction | some sixteen trips | transaction mode |
///
/// The settings and prepared statements of the store's own sessions outlive a transaction, so a write needs only one
/// statement. On a connection from the host application's pool, everything happens inside a transaction, and neither
/// settings nor prepared statements stay behind on the connection.
///
/// # Example: the host's pool
///
/// ```no_run
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use delivery_core::store::PostgresStore;
///
/// let store = PostgresStore::options().schema("keys").with_pool(pool).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Example: PgBouncer in transaction mode
///
/// Migrating needs a whole session, which PgBouncer in transaction mode does not provide. So migrate once, over a
/// direct connection, before the servers start.
///
/// The driver sends a startup parameter that PgBouncer refuses by default. Configure PgBouncer with
/// `ignore_startup_parameters = extra_float_digits`.
///
/// The store's own statements are prepared without a name and leave nothing behind. Your own statements may: the driver
/// gives each of them a name, whatever the size of its statement cache. If PgBouncer runs two clients in the same
/// session of the server, their names collide there. There are three remedies:
///
/// - Run your statements with `persistent(false)` inside a transaction.
/// - Let PgBouncer manage the names (`max_prepared_statements`, from version 1.21 on).
/// - Let PgBouncer forget the names after each transaction (`server_reset_query_always = 1`).
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use delivery_core::store::PostgresStore;
/// use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
///
/// let direct: PgConnectOptions = "postgres://shop:secret@database:5432/shop".parse()?;
/// PostgresStore::options().migrate(direct).await?;
///
/// let pooled: PgConnectOptions = "postgres://shop:secret@pooler:6432/shop".parse()?;
/// let pool = PgPoolOptions::new().connect_with(pooled.statement_cache_capacity(0)).await?;
/// let store = PostgresStore::options().without_migrating().with_pool(pool).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    schema: String,
    migrates: bool,
    may_lose: bool,
}

impl PostgresOptions {
    pub(super) fn new() -> Self {
        Self { schema: SCHEMA.to_owned(), migrates: true, may_lose: false }
    }

    /// Uses the schema with this name. The name has 1 to 63 lower-case letters, digits and underscores, and begins with
    /// a letter. If several services share a database, each needs a schema of its own.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Does not migrate the schema when the store connects. The schema must be up to date already, for example because
    /// a deployment step [migrates](Self::migrate) it as a database user that may change tables.
    #[must_use]
    pub fn without_migrating(mut self) -> Self {
        self.migrates = false;
        self
    }

    /// Accepts a database that loses what it has acknowledged when it crashes: one with `fsync`, `full_page_writes` or
    /// `synchronous_commit` off, as test servers often have. Without this, such a database is refused. Keys that were sold
    /// would be lost, so this is for tests alone.
    #[must_use]
    pub fn losing_data_in_a_crash(mut self) -> Self {
        self.may_lose = true;
        self
    }

    /// Connects to the database at `url`, `postgres://user:password@host:5432/database`.
    ///
    /// `url` may list several hosts, `host1:5432,host2:5432`. They are tried in order: each one half a second after the
    /// one before it, or at once if the one before it has failed. The addresses of a host name are tried in the same
    /// way. If several hosts are listed, standby servers are skipped.
    ///
    /// With `sslmode=verify-full`, the addresses of a host name are tried strictly one after another, so an address
    /// that does not answer delays the addresses after it.
    ///
    /// The parameters are those of libpq: `sslmode`, `sslrootcert` (also `system`), `sslcert`, `sslkey`,
    /// `channel_binding`, `host` (also the folder of a socket), `hostaddr`, `port`, `dbname`, `user`, `password`,
    /// `application_name`, `options`, `connect_timeout` (for each host, within the store's own limits) and
    /// `target_session_attrs`. The driver does not support channel binding, so `channel_binding=require` is treated as
    /// `sslmode=verify-full`.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] names the cause, in a sentence for the operator.
    pub async fn connect(self, url: &str) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::own(address(url)?, self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Connects with the driver's own options, for example to use certificates, a socket, or a password that is not
    /// part of an address. In addition, the store sets the session settings that it depends on, such as `search_path`
    /// and timeouts.
    ///
    /// Call [`PostgresStore::set_connect_options`] when the password changes.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_with(self, options: PgConnectOptions) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::own(options.into(), self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Uses the host application's pool for everything except migrating. For migrating, the store opens a separate
    /// connection with the pool's options. The role in these options must be allowed to create a schema, unless [the
    /// deployment migrates the schema](Self::without_migrating). [`close`](crate::store::Backend::close) leaves the
    /// pool open.
    ///
    /// Writing and finding keys take up to five of the pool's connections. Each search or list takes one more. A call
    /// that gets no free connection within two seconds is refused.
    ///
    /// If the host application holds a connection of the pool while it calls the service, it needs two connections at
    /// once. To avoid this, call [`prepare`](crate::Delivery::prepare) before the transaction begins.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn with_pool(self, pool: PgPool) -> Result<PostgresStore, PostgresError> {
        let sessions = Sessions::lent(pool, self.checked()?).await?;
        Ok(PostgresStore::start(sessions))
    }

    /// Creates and migrates the schema without opening a store. Any number of servers may do so at once.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn migrate(self, options: PgConnectOptions) -> Result<(), PostgresError> {
        Sessions::migrate(options.into(), &Self { migrates: true, ..self }.checked()?).await
    }

    /// Inspects the schema without changing it: whether it contains a store, and whether that store accepts secrets
    /// with the fingerprints in `keyring`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn inspect(self, url: &str, keyring: &[Fingerprint]) -> Result<Inspection, PostgresError> {
        inspect(address(url)?, &self.checked()?, keyring).await
    }

    pub(super) fn checked(self) -> Result<SchemaConfig, PostgresError> {
        let Self { schema, migrates, may_lose } = self;
        let named = (1..=63).contains(&schema.len())
            && schema.starts_with(|c: char| c.is_ascii_lowercase())
            && schema.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if named { Ok(SchemaConfig { schema, migrates, may_lose }) } else { Err(PostgresError::SchemaName) }
    }
}

/// Parses an address into its hosts and their options.
pub(super) fn address(url: &str) -> Result<Hosts, PostgresError> {
    let known = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let rest = known.ok_or(PostgresError::Malformed)?;
    // Only the part before the `?` is checked, because parameters may contain an `@`.
    if url.contains('#') || is_cut_short(url.split('?').next().unwrap_or_default()) {
        return Err(PostgresError::Unescaped);
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, listed) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    // The driver connects to one host at a time. So the address is parsed with `localhost` in place of the listed
    // hosts, and each host is added later as the parameter `host`, which takes precedence.
    let mut base = Url::parse(&format!("postgres://{user}localhost{path}")).map_err(|_| PostgresError::Malformed)?;
    let words = words(&base).map_err(|error| if is_cut_short(url) { PostgresError::Unescaped } else { error })?;
    let listed: Option<(Vec<_>, Vec<_>)> = listed.split(',').map(host_and_port).collect();
    let (mut hosts, mut ports) = listed.ok_or(PostgresError::Malformed)?;
    if !words.hosts.is_empty() {
        hosts = words.hosts;
    }
    if !words.ports.is_empty() {
        ports = words.ports;
    }
    // A single port applies to all hosts.
    if let [port] = ports.as_slice() {
        ports = vec![port.clone(); hosts.len()];
    }
    if ports.len() != hosts.len() {
        return Err(PostgresError::Malformed);
    }
    base.set_query(None);
    let options = |(host, port): (String, String)| {
        let mut url = base.clone();
        let host = if host.is_empty() { PgConnectOptions::new_without_pgpass().get_host().to_owned() } else { host };
        url.query_pairs_mut().extend_pairs(&words.driver).append_pair("host", &host);
        if !port.is_empty() {
            url.query_pairs_mut().append_pair("port", &port);
        }
        PgConnectOptions::from_str(url.as_str()).map_err(|_| PostgresError::Malformed)
    };
    let mut all = hosts.into_iter().zip(ports).map(options);
    let first = all.next().ok_or(PostgresError::Malformed)??;
    Ok(Hosts::new(first, all.collect::<Result<_, _>>()?, words.patience))
}

/// The parameters of an address.
#[derive(Default)]
struct Words {
    hosts: Vec<String>,
    ports: Vec<String>,
    /// Time limit for connecting to one host.
    patience: Option<Duration>,
    /// Parameters that are passed on to the driver.
    driver: Vec<(String, String)>,
}

fn words(url: &Url) -> Result<Words, PostgresError> {
    let list = |value: &str| value.split(',').map(str::to_owned).collect();
    let wrong = |name, expected| PostgresError::Value { name, expected };
    let mut words = Words::default();
    let mut verifies = false;
    for (name, value) in url.query_pairs() {
        match &*name {
            "host" | "hostaddr" => words.hosts = list(&value),
            "port" => words.ports = list(&value),
            "connect_timeout" => {
                let seconds: i64 =
                    value.parse().map_err(|_| wrong("connect_timeout", "must be a number of seconds"))?;
                // As in libpq: 0 means no limit, and 1 is raised to 2.
                let limit = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                words.patience = limit.map(|seconds| Duration::from_secs(seconds.max(2)));
            }
            "channel_binding" => match &*value {
                "require" => verifies = true,
                "prefer" | "disable" => {}
                _ => return Err(wrong("channel_binding", "must be require, prefer or disable")),
            },
            "target_session_attrs" if !matches!(&*value, "any" | "read-write" | "primary") => {
                return Err(wrong("target_session_attrs", "must be read-write, primary or any: the store writes"));
            }
            "target_session_attrs" => {}
            // The driver trusts the system's root certificates anyway, so `system` only switches verification on.
            "sslrootcert" if value == "system" => verifies = true,
            // Only known parameters are passed on. The driver would ignore an unknown one, and would log its value,
            // which may be a secret.
            _ if PARAMETERS.contains(&&*name) || name.starts_with("options[") => {
                words.driver.push((name.into_owned(), value.into_owned()));
            }
            _ if words.driver.iter().any(|(name, _)| name == "password") => return Err(PostgresError::Unescaped),
            _ if name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-') => {
                return Err(PostgresError::Parameter { name: name.into_owned() });
            }
            _ => return Err(PostgresError::Malformed),
        }
    }
    if verifies {
        words.driver.push(("sslmode".to_owned(), "verify-full".to_owned()));
    }
    Ok(words)
}

/// Parses one entry in an address's list of hosts. Returns the host and the port, each of which may be empty.
fn host_and_port(text: &str) -> Option<(String, String)> {
    let (host, port) = text.rsplit_once(':').filter(|(_, port)| !port.contains(']')).unwrap_or((text, ""));
    let host = percent_decode_str(host.trim_matches(['[', ']'])).decode_utf8().ok()?;
    Some((host.into_owned(), port.to_owned()))
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgSslMode;

    use super::*;

    /// Returns the hosts of an address, each with its port.
    fn hosts(url: &str) -> Option<String> {
        let shown = |options: &PgConnectOptions| {
            let socket = options.get_socket().map(|folder| folder.display().to_string());
            format!("{}:{}", socket.as_deref().unwrap_or(options.get_host()), options.get_port())
        };
        Some(address(url).ok()?.all().map(shown).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_address_has_one_host_or_several_or_the_folder_of_a_socket() {
        for (url, expected) in [
            ("postgres://shop:secret@db.example:5433/shop", Some("db.example:5433")),
            ("postgresql://[::1]:5433/shop", Some("::1:5433")),
            ("postgres://shop@one:1,[::1]:2,three:3/shop", Some("one:1 ::1:2 three:3")),
            ("postgres://shop@one,two/shop?port=5433", Some("one:5433 two:5433")),
            ("postgres://shop@/shop?host=one,two&port=1,2", Some("one:1 two:2")),
            ("postgres://shop@:5433/shop?host=/var/run/postgresql", Some("/var/run/postgresql:5433")),
            ("postgres://shop@%2Fvar%2Frun%2Fpostgresql:5433/shop", Some("/var/run/postgresql:5433")),
            ("postgres://shop@one,two/shop?port=1,2,3", None),
            ("postgres://shop@one:http/shop", None),
            ("mysql://shop@one/shop", None),
        ] {
            assert_eq!(hosts(url).as_deref(), expected, "{url}");
        }
        let url = "postgres://us%40er:secret@one,two/shop?user=x&options=-c%20a%3Db";
        for options in address(url).unwrap().all() {
            assert_eq!((options.get_username(), options.get_database()), ("x", Some("shop")));
            assert_eq!(options.get_options(), Some("-c a=b"));
        }
    }

    #[test]
    fn words_of_libpq_are_understood_and_others_are_named() {
        use PgSslMode::{Prefer, Require, VerifyFull};
        for (words, mode, seconds) in [
            ("sslmode=require", Require, None),
            ("sslrootcert=system", VerifyFull, None),
            ("sslmode=require&channel_binding=require", VerifyFull, None),
            ("sslmode=prefer&channel_binding=prefer&target_session_attrs=read-write", Prefer, None),
            ("sslmode=prefer&connect_timeout=0", Prefer, None),
            ("sslmode=prefer&connect_timeout=1", Prefer, Some(2)),
            ("sslmode=prefer&connect_timeout=10", Prefer, Some(10)),
        ] {
            let hosts = address(&format!("postgres://shop@db.example/shop?{words}")).unwrap();
            let found = hosts.all().next().unwrap().get_ssl_mode();
            assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&mode), "{words}");
            assert_eq!(hosts.patience(), seconds.map(Duration::from_secs), "{words}");
        }
        for (url, told) in [
            ("postgres://shop:hunter2@db.example/shop?sslmod=require", "the unknown parameter sslmod:"),
            ("postgres://shop@db.example/shop?connect_timeout=soon", "connect_timeout of the address must be"),
            ("postgres://shop@db.example/shop?channel_binding=yes", "channel_binding of the address must be"),
            ("postgres://shop@db.example/shop?target_session_attrs=standby", "the store writes"),
            ("postgres://shop:hunter2/x@db.example/shop", "/ is %2F"),
            ("postgres://shop:12/hunter@db.example/shop", "/ is %2F"),
            ("postgres://shop:12#hunter@db.example/shop", "# is %23"),
            ("postgres://shop:12?hunter=2@db.example/shop", "? is %3F"),
            ("postgres://db.example/shop?password=12&hunter", "percent-encoded"),
            ("postgres://db.example/shop?password=12#hunter", "percent-encoded"),
            ("postgres://db.example/shop?hunter2=x", "must be an address"),
        ] {
            let said = address(url).err().unwrap().to_string();
            assert!(said.contains(told) && !said.contains("hunter"), "{url}: {said}");
        }
    }
}
