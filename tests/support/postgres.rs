//! A private PostgreSQL server.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, Executor, FromRow, PgConnection};
use tokio::runtime::{Builder, Runtime};

use crate::programs;
use crate::{free_port, supervise, wait_for};

/// `nobody`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;

/// A PostgreSQL server that ends with this process.
pub struct Postgres {
    /// With its data and its log.
    pub folder: PathBuf,
    port: u16,
    /// Ends the server when its standard input is closed.
    _supervisor: Child,
}

/// The server of this test binary. Tests that need one of their own [start](Postgres::start) it.
pub fn postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(Postgres::start)
}

impl Postgres {
    /// A new server, beside the others.
    pub fn start() -> Self {
        let binaries = programs::folder("postgres");
        let folder = tempfile::Builder::new().prefix("delivery-postgres-").tempdir().unwrap().keep();
        let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
        if root {
            chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let as_user = |program: PathBuf| {
            let mut command = Command::new(program);
            if root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command.current_dir(&folder);
            command
        };
        let data = folder.join("data");
        let made = as_user(binaries.join("initdb"))
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        // The shell waits until this process ends, in whatever way, and takes the server with it. Until then a server that
        // ends is started again.
        let script = r#"(while :; do "$1/postgres" -D "$2/data" -k "" -h 127.0.0.1 -p "$3" -c max_connections=300; sleep 0.1; done \
                >>"$2/log" 2>&1) & loop=$!
            cat >/dev/null; kill $loop; main=$(head -n 1 "$2/data/postmaster.pid")
            kill -CONT $main $(pgrep -P $main); kill -QUIT $main
            for wait in 1 2 3 4 5 6 7 8 9; do kill -0 $main 2>/dev/null || break; sleep 0.2; done; rm -rf "$2""#;
        let supervisor = supervise(as_user("sh".into()), script, &binaries, &folder, port);
        let server = Self { folder, port, _supervisor: supervisor };
        let ready = "database system is ready to accept connections";
        wait_for(Duration::from_mins(1), || server.log().contains(ready));
        server
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address())
    }

    /// The address of a new database.
    pub fn database(&self) -> String {
        let name = unique();
        administer(&self.url(), &format!("CREATE DATABASE {name}"));
        format!("postgres://postgres@{}/{name}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

/// Runs a statement as the administrator of a database.
pub fn administer(url: &str, statement: &str) {
    runtime().block_on(async {
        let mut session = PgConnection::connect(url).await.unwrap();
        session.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    });
}

/// What a query of one column finds in a database.
pub fn column<T>(url: &str, query: String) -> Vec<T>
where
    (T,): for<'row> FromRow<'row, PgRow>,
    T: Send + Unpin,
{
    runtime().block_on(async {
        let mut session = PgConnection::connect(url).await.unwrap();
        sqlx::query_scalar::<sqlx::Postgres, T>(AssertSqlSafe(query)).fetch_all(&mut session).await.unwrap()
    })
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// The name of a schema or database that nobody else has.
pub fn unique() -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    format!("test_{}", NAMES.fetch_add(1, Ordering::Relaxed))
}
