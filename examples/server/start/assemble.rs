//! Assembles the service from the settings: store, mailer, secrets, limits.

use std::error::Error;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use delivery_core::delivery::Stores;
use delivery_core::key::Keyring;
use delivery_core::limit::RedisLimiter;
use delivery_core::mail::{FolderMailer, Mailer};
use delivery_core::store::{CatalogEditor, Ledger, PostgresStore, Posts, SqliteStore};
use delivery_core::{Delivery, explain};

use super::private::make_database_private;
use super::secrets::Secrets;
use crate::Refusal;
use crate::observe::alert::{AlertWorker, alerts};
use crate::settings::refusal::read;
use crate::settings::{Database, Settings};

/// A service that is ready to start.
pub(crate) struct Service {
    pub delivery: Delivery,
    pub secrets: Secrets,
    /// Sends the seller alerts about failed messages; `None` without `ALERT_EMAIL`.
    pub alerts: Option<AlertWorker>,
}

/// Makes the data folder, opens the store, and puts together the service that listens on `address`.
pub(crate) async fn assemble(settings: &Settings, address: SocketAddr) -> Result<Service, Refusal> {
    fs::create_dir_all(&settings.data_dir).map_err(|error| {
        format!(
            "DATA_DIR (--data-dir) must be a folder that can be made and written to; {}: {error}",
            settings.data_dir.display()
        )
    })?;
    make_database_private(&settings.data_dir);
    let mailer: Arc<dyn Mailer> = if let Some(mailer) = &settings.smtp {
        Arc::new(mailer.clone())
    } else {
        let folder = settings.data_dir.join("mail");
        tracing::warn!("SMTP_URL is not set: e-mails become files in {}, and reach no buyer", folder.display());
        let opened = FolderMailer::open(&folder);
        Arc::new(opened.map_err(|error| format!("{} cannot be made: {error}", folder.display()))?)
    };
    // The store is opened first, so that a second server on the same folder is refused before it makes secrets.
    match &settings.database {
        Database::Sqlite(path) => {
            let store = SqliteStore::open(path).await.map_err(|error| no_database(&error))?;
            build(settings, address, mailer, Arc::new(store)).await
        }
        Database::Postgres(url) => {
            let store = PostgresStore::connect(url).await.map_err(|error| no_database(&error))?;
            build(settings, address, mailer, Arc::new(store)).await
        }
    }
}

/// Opens the store and puts together a service for dry runs of imports. Unlike [`assemble`], makes no secrets, and does
/// not register `keyring` in the store. The caller must have checked that the store is there and needs no migration.
pub(crate) async fn assemble_dry(settings: &Settings, keyring: Keyring) -> Result<Delivery, Refusal> {
    let stores: Stores = match &settings.database {
        Database::Sqlite(path) => Arc::new(SqliteStore::open(path).await.map_err(|error| no_database(&error))?).into(),
        Database::Postgres(url) => {
            let store = PostgresStore::options().without_migrating().connect(url).await;
            Arc::new(store.map_err(|error| no_database(&error))?).into()
        }
    };
    // A dry run sends nothing, so nothing is written to this folder.
    let mailer = Arc::new(FolderMailer::open(std::env::temp_dir())?);
    Ok(Delivery::builder(stores, mailer, keyring).options(settings.options.clone()).build())
}

fn no_database(error: &(dyn Error + 'static)) -> Refusal {
    format!("DATABASE_URL (--database-url): {}", explain(error)).into()
}

async fn build<S: Ledger + CatalogEditor + Posts>(
    settings: &Settings,
    address: SocketAddr,
    mailer: Arc<dyn Mailer>,
    store: Arc<S>,
) -> Result<Service, Refusal> {
    let secrets = Secrets::load(settings, store.as_ref()).await?;
    let mut options = settings.options.clone();
    options.base_url.get_or_insert_with(|| format!("http://{address}"));
    let (keyring, webhook, admin) = (secrets.keyring.clone(), secrets.webhook.clone(), secrets.admin.clone());
    let pepper = keyring.pepper();
    let seller = read("ADMIN_TOKENS", "", |_| settings.admin_tokens.clone().with_admin(admin))?;
    let alert = settings
        .watch
        .alert
        .clone()
        .map(|to| alerts(mailer.clone(), options.sender.clone(), to, options.base_url.clone().unwrap_or_default()));
    let (observer, alerts) = alert.unzip();
    let mut builder =
        Delivery::builder(store, mailer, keyring).webhook_secret(webhook).seller(Arc::new(seller)).options(options);
    builder = builder
        .templates(settings.templates.clone())
        .mail_lease(settings.mail_lease)
        .body_budget(settings.body_budget)
        .pages(settings.look.clone())
        .max_file_size(settings.objects.max_size);
    settings.objects.prepare()?;
    let (objects, links) = settings.objects.open()?;
    builder = builder.files(objects);
    if let Some(links) = links {
        builder = builder.file_links(links);
    }
    builder = builder.mail_route(settings.given.text("SMTP_URL").unwrap_or_default());
    if let Some(observer) = observer {
        builder = builder.observer(Arc::new(observer));
    }
    if let Some(webhooks) = settings.webhooks.clone() {
        builder = builder.webhooks(webhooks);
    }
    if let Some(url) = &settings.redis_url {
        builder = builder.limiter(Arc::new(RedisLimiter::new(url, pepper)?));
    }
    let delivery = builder.build();
    delivery.register().await?;
    report_failed(&delivery).await;
    Ok(Service { delivery, secrets, alerts })
}

/// Logs a warning if messages failed and need the seller.
async fn report_failed(delivery: &Delivery) {
    match delivery.backlog().await {
        Ok(backlog) if backlog.unanswered > 0 => {
            let messages = backlog.unanswered;
            tracing::warn!(messages, "messages failed for good: the seller finds them at /desk/messages?state=failed");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!("failed messages cannot be counted: {}", explain(&error)),
    }
}
