//! The commands of the programs, which do something else than serve.

mod backup;
mod check;
mod dump;
mod healthcheck;
mod retry;
mod test_mail;

use crate::Refusal;
use crate::settings::Settings;
use crate::settings::command::Command;

pub(crate) async fn run(command: Command, settings: &Settings) -> Result<(), Refusal> {
    match command {
        Command::Check => check::run(settings).await,
        Command::Backup { folder } => backup::run(settings, &folder).await,
        Command::Dump { file } => dump::dump(settings, &file).await,
        Command::Load { file } => dump::load(settings, &file).await,
        Command::TestMail { address } => test_mail::run(settings, &address).await,
        Command::Healthcheck => healthcheck::run(settings).await,
        Command::Retry => retry::run(settings).await,
    }
}
