//! The commands of the programs. Without one they serve.

use std::path::PathBuf;

use clap::Subcommand;
use delivery_core::delivery::ImportFormat;

#[derive(Clone, Subcommand)]
#[expect(clippy::doc_markdown, reason = "the text of --help, where Markdown would show")]
pub(crate) enum Command {
    /// Look at the settings, the database, Redis and the mail server, say what was found, and change nothing
    Check,
    /// Copy a SQLite store to FOLDER/delivery.db, also while a server uses it; a copy that is there is replaced once the new one was read
    Backup {
        /// Where the copy goes; it is made if it is missing
        folder: PathBuf,
    },
    /// Write the whole store to FILE as JSON Lines, also while a server uses it
    Dump {
        /// Where the dump goes; - is standard output
        file: PathBuf,
    },
    /// Fill a new, empty store from the dump in FILE: all of it, or nothing. The secrets that signed its keys must be set
    Load {
        /// A dump that this program wrote
        file: PathBuf,
    },
    /// Import sales that were made elsewhere from a CSV file, and report each row as CSV. A server on a SQLite file must be stopped before
    Import {
        /// A file with a header row; - is standard input
        sales: PathBuf,
        /// Read the platform's own export: gumroad, lemonsqueezy, shopify or stripe
        #[arg(long, value_name = "PLATFORM")]
        from: Option<ImportFormat>,
        /// Say what would happen, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// E-mail buyers their new keys, and tell them of keys that a refund revoked
        #[arg(long)]
        send: bool,
    },
    /// Send an e-mail to ADDRESS, to try out SMTP_URL and MAIL_FROM
    TestMail {
        /// Who gets it
        address: String,
    },
    /// Ask the server that runs at BIND whether it is ready, for containers
    Healthcheck,
    /// Queue every e-mail that failed for good once more. A server on a SQLite file must be stopped before
    Retry,
}
