//! Moves the store of a server from its SQLite file into PostgreSQL: `cargo run --release --example move_store`.
//!
//! Stop the server first. An interrupted move can be run again, and continues where it stopped. After the move, keys
//! that were sold keep working with the same secrets, and the SQLite file can no longer be opened.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use data_encoding::HEXLOWER;
use delivery_core::store::{Moved, Progress, Transfer, TransferError};
use delivery_core::{SystemClock, explain};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};

/// Moves a store from its SQLite file into PostgreSQL
#[derive(Parser)]
#[command(version, after_help = "Stop the server first. A move that was interrupted can be run again, and goes on.")]
struct Arguments {
    /// Database file of the server that was stopped [default: delivery.db in its folder]
    file: Option<PathBuf>,
    /// Folder of the server that was stopped
    #[arg(long, env, default_value = "./delivery-data")]
    data_dir: PathBuf,
    /// postgres://… of the new store; safer as the variable, for other users of the machine see arguments
    #[arg(long, env, hide_env_values = true)]
    database_url: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let file = arguments.file.unwrap_or_else(|| arguments.data_dir.join("delivery.db"));
    match moved(&file, &arguments.database_url).await {
        Ok(moved) => {
            say(&report(&file, &moved));
            ExitCode::SUCCESS
        }
        // The move was already finished, so running it again is a success.
        Err(TransferError::Finished { .. }) => {
            say("The store was moved here already; nothing was changed.");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let setting =
                if matches!(error, TransferError::Target(_)) { "DATABASE_URL (--database-url): " } else { "" };
            let _ = writeln!(stderr(), "error: {setting}{}", explain(&error));
            ExitCode::FAILURE
        }
    }
}

async fn moved(file: &Path, url: &str) -> Result<Vec<Moved>, TransferError> {
    let transfer = Transfer::open(file, url).await?;
    let mut bar = None;
    let moved = transfer.run(&SystemClock::default(), |progress| show(&mut bar, progress)).await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    moved
}

/// A bar for each kind on a terminal; elsewhere, a line.
fn show(bar: &mut Option<ProgressBar>, Progress { checking, what, done, of }: Progress) {
    let message = format!("{} {what}", if checking { "comparing" } else { "copying" });
    if !stderr().is_terminal() {
        if done == of {
            let _ = writeln!(stderr(), "{message}: {}", HumanCount(of));
        }
        return;
    }
    match bar {
        Some(bar) if bar.message() == message => bar.set_position(done),
        _ => {
            if let Some(last) = bar.take() {
                last.finish_and_clear();
            }
            let next = ProgressBar::new(of).with_style(style()).with_message(message).with_position(done);
            next.tick();
            *bar = Some(next);
        }
    }
}

fn style() -> ProgressStyle {
    let template = "{msg:18} {bar:36} {human_pos} of {human_len}, {eta} left";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn report(file: &Path, moved: &[Moved]) -> String {
    let line = |Moved { what, rows, fingerprint }: &Moved| {
        format!("  {what:<9}{:>12}   sha256 {}\n", HumanCount(*rows).to_string(), HEXLOWER.encode(fingerprint))
    };
    let lines: String = moved.iter().map(line).collect();
    format!(
        "Moved, and equal on both sides:\n\n{lines}\n\
         Now start the servers with this DATABASE_URL and the secrets of the old one: its DATA_DIR, or its KEY_SECRET,\n\
         WEBHOOK_SECRET and ADMIN_TOKEN. {} keeps what it held, as a backup, and opens no more. Older copies\n\
         of it do not know that: never start a server with one.",
        file.display()
    )
}

/// To standard output, if anybody takes it.
fn say(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}
