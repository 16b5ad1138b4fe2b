//! Queues e-mails that failed for good once more. The next server that runs sends them.

use crate::settings::Settings;
use crate::start::assemble::{Service, assemble};
use crate::{Refusal, say};

pub(super) async fn run(settings: &Settings) -> Result<(), Refusal> {
    settings.expect_database()?;
    let Service { delivery, .. } = assemble(settings, settings.listen.bind).await?;
    let count = delivery.retry_messages().await?;
    delivery.close().await;
    say(&format!("{count} e-mails are queued again"));
    Ok(())
}
