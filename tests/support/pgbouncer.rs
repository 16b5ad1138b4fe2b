//! A private PgBouncer in transaction mode, in front of a private PostgreSQL server.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use crate::postgres::Postgres;
use crate::programs;
use crate::{free_port, supervise, wait_for};

/// `nobody`: PgBouncer refuses to run as root.
const NOBODY: u32 = 65_534;

/// A PgBouncer that ends with this process.
pub struct PgBouncer {
    port: u16,
    _supervisor: Child,
}

/// The PgBouncer of this test binary.
pub fn pgbouncer(server: &Postgres) -> &'static PgBouncer {
    static POOLER: OnceLock<PgBouncer> = OnceLock::new();
    POOLER.get_or_init(|| PgBouncer::start(server))
}

impl PgBouncer {
    fn start(server: &Postgres) -> Self {
        let binaries = programs::folder("pgbouncer");
        let folder = tempfile::Builder::new().prefix("delivery-pgbouncer-").tempdir().unwrap().keep();
        let (port, behind) = (free_port(), server.address());
        let (host, behind) = behind.split_once(':').unwrap();
        // Few sessions for many clients: each transaction gets another one.
        let settings = format!(
            "[databases]\npostgres = host={host} port={behind} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 12\nmax_client_conn = 500\n\
             unix_socket_dir =\nignore_startup_parameters = extra_float_digits\nlogfile = {folder}/log\n",
            folder = folder.display()
        );
        fs::write(folder.join("pgbouncer.ini"), settings).unwrap();
        let mut shell = Command::new("sh");
        if fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
            chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
            shell.uid(NOBODY).gid(NOBODY);
        }
        shell.current_dir(&folder);
        let script = r#""$1/pgbouncer" -q "$2/pgbouncer.ini" & pooler=$!; cat >/dev/null; kill $pooler; rm -rf "$2""#;
        let supervisor = supervise(shell, script, &binaries, &folder, port);
        wait_for(Duration::from_mins(1), || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { port, _supervisor: supervisor }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}
