//! The commands of the programs, which do something else than serve.

mod backup;
mod check;
mod dump;
mod healthcheck;
mod import;
mod retry;
mod test_mail;

use delivery_core::delivery::Import;

use crate::Refusal;
use crate::settings::Settings;
use crate::settings::command::Command;

pub(crate) async fn run(command: Command, settings: &Settings) -> Result<(), Refusal> {
    match command {
        Command::Check => check::run(settings).await,
        Command::Backup { folder } => backup::run(settings, &folder).await,
        Command::Dump { file } => dump::dump(settings, &file).await,
        Command::Load { file } => dump::load(settings, &file).await,
        Command::Import { sales, from, dry_run, send } => {
            import::run(settings, &sales, Import { dry_run, send, from }).await
        }
        Command::TestMail { address } => test_mail::run(settings, &address).await,
        Command::Healthcheck => healthcheck::run(settings).await,
        Command::Retry => retry::run(settings).await,
    }
}
