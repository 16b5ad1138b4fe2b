//! What the example servers share: settings, secrets, and putting the service together. Only the framework differs.

pub mod assemble;
pub mod capacity;
pub mod docs;
pub mod health;
pub mod log;
pub mod requests;
pub mod secrets;
pub mod settings;
pub mod signal;
pub mod welcome;

use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use delivery_core::{Delivery, explain};
use tokio::net::TcpListener;

use self::assemble::{Service, assemble};
use self::settings::Arguments;

/// How long open requests may take once the server is asked to stop.
pub const GRACE: Duration = Duration::from_secs(25);

/// A refusal to start, with a sentence for the operator.
pub type Refusal = Box<dyn Error + Send + Sync>;

/// Everything a framework needs to serve.
pub struct Opened {
    pub listener: TcpListener,
    pub address: SocketAddr,
    pub delivery: Delivery,
}

/// Reads the settings, listens, opens the store, and greets the seller on the first start.
pub async fn open() -> Result<Opened, Refusal> {
    let settings = Arguments::read()?.check()?;
    log::start()?;
    let listener = TcpListener::bind(settings.bind).await.map_err(|error| not_listening(settings.bind, &error))?;
    let address = listener.local_addr()?;
    let Service { delivery, secrets } = assemble(&settings, address).await?;
    if let Some(greeting) = welcome::greeting(&secrets, &settings.data_dir, address) {
        say(&greeting);
    }
    Ok(Opened { listener, address, delivery })
}

pub fn not_listening(address: SocketAddr, error: &io::Error) -> Refusal {
    format!("BIND (--bind): {address} cannot be listened on: {error}").into()
}

/// Says on standard output, in one line, that requests are answered from now on.
pub fn announce(address: SocketAddr) {
    say(&format!("listening on http://{address}"));
}

/// To standard output; a server whose output nobody takes serves all the same.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Runs the server to its end; a refusal is told on standard error.
pub async fn run(server: impl Future<Output = Result<(), Refusal>>) -> ExitCode {
    match server.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            let _ = writeln!(io::stderr(), "error: {}", explain(refusal.as_ref()));
            ExitCode::FAILURE
        }
    }
}
