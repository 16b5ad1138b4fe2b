//! The use cases: what a buyer, a commerce platform and a seller can do.
//!
//! [`Delivery`] is the handle that a host application keeps and clones. The handle itself does not use HTTP:
//! [`http`](crate::http) serves its operations over HTTP, and a host application may also call them directly.

mod build;
mod builder;
mod buyer;
mod chores;
mod encoded;
mod expiry;
#[cfg(feature = "files")]
mod files;
mod foreign;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod host;
mod import;
mod lost;
mod maintenance;
mod messages;
mod orders;
mod platforms;
#[cfg(feature = "pages")]
mod recent;
mod running;
mod seller;
mod settings;
mod stores;
mod tickets;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use ipnet::IpNet;
use thiserror::Error;
use tokio::sync::{Mutex, Notify, OnceCell, Semaphore};

pub use self::builder::Builder;
#[cfg(feature = "pages")]
pub(crate) use self::buyer::Opened;
use self::encoded::EncodedLists;
pub use self::expiry::{ExpiryNotice, SubscriptionGrace};
#[cfg(feature = "files")]
pub use self::files::FileLink;
#[cfg(feature = "files")]
pub(crate) use self::files::{NewFile, PutError};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use self::host::Uncommitted;
pub use self::import::{Import, ImportError, ImportFormat, ImportOutcome, ImportSummary, ImportedRow};
pub use self::maintenance::Maintenance;
pub use self::orders::Issued;
#[cfg(feature = "pages")]
pub(crate) use self::platforms::Said;
pub use self::platforms::SecretError;
#[cfg(feature = "pages")]
pub(crate) use self::recent::Recent;
pub use self::running::Running;
pub(crate) use self::seller::KeyHistory;
pub use self::seller::{Desk, Expiry, KnownKey, Person, PreviewError};
pub(crate) use self::settings::PLATFORMS;
#[cfg(any(feature = "pages", all(test, feature = "sqlite", feature = "files")))]
pub(crate) use self::settings::PlatformRow;
pub use self::settings::PlatformSettings;
#[cfg(feature = "pages")]
pub(crate) use self::settings::{NameForm, SIGNING_SECRET, SecretGuide};
pub use self::settings::{Options, Setting, SettingError, Settings};
pub use self::stores::Stores;
use crate::clock::Clock;
use crate::cross_origin::CrossOrigin;
use crate::entropy::Entropy;
use crate::error::ErrorCode;
use crate::key::{Change, Denied, Key, KeyId, Keyring, Refusal, Rules};
use crate::ledger::{Refused, WebhookName};
use crate::limit::bodies::BodyBudget;
use crate::limit::{Quotas, RateLimiter};
use crate::mail::Outbox;
use crate::observer::{Event, Observers};
use crate::product::ProductId;
use crate::secret::WebhookSecret;
use crate::seller::Seller;
use crate::store::{Catalog, CatalogEditor, Ledger, Office, Posts, StoreError};
use crate::telemetry;
use crate::terms::Terms;

/// A handle to the whole service. Cloning is cheap, and all clones share one service.
///
/// A host application that sells without a webhook calls the use cases directly:
///
/// ```
/// # use std::sync::Arc;
/// # use delivery_core::{mail::FolderMailer, product::NewProduct, store::SqliteStore};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (store, mail) = (folder.path().join("delivery.db"), folder.path().join("mail"));
/// use delivery_core::{Delivery, order::Order};
///
/// # let store = Arc::new(SqliteStore::open(store).await?);
/// # let mailer = Arc::new(FolderMailer::open(mail)?);
/// let delivery = Delivery::builder(store, mailer, "a signing secret that is kept".parse()?).build();
/// let guide = delivery.add_product(NewProduct::new("Field Guide")?.content("# Birds")?).await?;
///
/// let order = Order::new("shop", "2026-1001", guide.id(), "ada@example.com")?;
/// let issued = delivery.order(order).await?;
///
/// let key = delivery.validate(issued.text.expose()).await?;
/// let product = delivery.fetch(key.id(), guide.id()).await?;
/// assert_eq!(product.content(), "# Birds");
/// assert_eq!(delivery.check(key.id()).await?.used(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Delivery {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) catalog: Arc<dyn Catalog>,
    /// `None` if the API cannot edit products, because the host application manages them itself.
    pub(crate) editor: Option<Arc<dyn CatalogEditor>>,
    /// `None` if products have no files.
    #[cfg(feature = "files")]
    pub(crate) files: Option<crate::files::FileStore>,
    /// `None` if the service has no store for posts.
    pub(crate) posts: Option<Arc<dyn Posts>>,
    pub(crate) platforms: platforms::Platforms,
    pub(crate) subscription_grace: SubscriptionGrace,
    /// Limits how many exports run at the same time. An export is a download of a whole table by a seller. The limit
    /// leaves connections of the store to other requests.
    pub(crate) exports: Arc<Semaphore>,
    pub(crate) limiter: Arc<dyn RateLimiter>,
    pub(crate) rules: Rules,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) aliases: foreign::KnownAliases,
    /// `None` if orders are not accepted over HTTP.
    pub(crate) webhook_secret: Option<WebhookSecret>,
    /// `None` if nobody can act as the seller over HTTP.
    pub(crate) seller: Option<Arc<dyn Seller>>,
    pub(crate) quotas: Quotas,
    pub(crate) expiry_notice: ExpiryNotice,
    pub(crate) terms: Terms,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) bodies: BodyBudget,
    pub(crate) list_details: bool,
    pub(crate) cross_origin: CrossOrigin,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) wake: Arc<Notify>,
    pub(crate) registered: OnceCell<()>,
    pub(crate) encoded: EncodedLists,
    /// The OpenAPI document, encoded on first use.
    pub(crate) described: OnceLock<Bytes>,
    /// Wakes the background worker when a buyer asks for lost keys.
    pub(crate) asked: Notify,
    /// `None` if the pages are not served.
    #[cfg(feature = "pages")]
    pub(crate) look: Option<Arc<crate::look::Look>>,
    #[cfg(feature = "pages")]
    pub(crate) shelf: crate::look::Shelf,
    /// The tokens with which a seller signs in at the desk (the seller's web pages); `None` if there is no seller, or
    /// if the host application signs sellers in.
    #[cfg(feature = "pages")]
    pub(crate) tokens: Option<crate::seller::AdminTokens>,
    #[cfg(feature = "pages")]
    pub(crate) counted: std::sync::Mutex<recent::Counted>,
    /// Held while a form of the desk (the seller's web pages) adds a product or a post, or sends keys again. A form
    /// that is submitted twice therefore takes effect once. This lock works within one server: a form that reaches two
    /// servers at the same moment may take effect twice.
    #[cfg(feature = "pages")]
    pub(crate) adding: Arc<Mutex<()>>,
    /// Held while the figures for the seller (statistics of keys and recent days) are counted. Counting reads all keys,
    /// so only one call may count at a time.
    pub(crate) counting: Mutex<()>,
    /// The number of sign-ins with a wrong token since the last report about them.
    pub(crate) wrong_sign_ins: AtomicU64,
    pub(crate) observers: Observers,
    /// The names of the host application's webhooks.
    pub(crate) webhooks: Vec<WebhookName>,
}

/// Why a use case was refused or failed.
///
/// ```
/// use delivery_core::{Error, ErrorCode, store::StoreError};
///
/// /// What a host application's own page tells a buyer.
/// fn message_for(error: &Error) -> String {
///     match error {
///         Error::UnknownKey | Error::UnknownProduct => "This key is not valid.".to_owned(),
///         Error::Refused { refusal, key } => format!("{refusal}; it was used {} times", key.used()),
///         _ if error.code() == ErrorCode::Unavailable => "Try again in a moment.".to_owned(),
///         _ => "Something went wrong.".to_owned(),
///     }
/// }
///
/// assert_eq!(message_for(&StoreError::unavailable("the disk is full").into()), "Try again in a moment.");
/// ```
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum Error {
    /// The key was not signed by this service, is unknown or was revoked. The caller cannot tell which.
    #[error("the key is not valid")]
    UnknownKey,
    /// The key is known but does not allow the request.
    #[error("the key does not allow it: {refusal}")]
    Refused {
        /// Why the key does not allow the request.
        refusal: Refusal,
        /// The key as it is now.
        key: Box<Key>,
    },
    /// There is no such product.
    #[error("there is no such product")]
    UnknownProduct,
    /// The [ticket](Delivery::ticket) was not made by this service, or was made for another name than the one passed to
    /// [`check_ticket`](Delivery::check_ticket). The same error is returned if the file or the key of the ticket does
    /// not exist.
    #[error("the ticket is not valid")]
    UnknownTicket,
    /// The ticket or its key has expired.
    #[error("the ticket has ended")]
    ExpiredTicket,
    /// The key of the ticket was revoked.
    #[error("the key was revoked")]
    RevokedKey,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Inner {
    /// Returns the optional part of the store, for a use case that needs it.
    pub(crate) fn office(&self) -> Result<&dyn Office, StoreError> {
        self.ledger.office().ok_or(StoreError::Unsupported)
    }

    /// Returns the change that counts one use of a key for `product` now, under the rules of the host application.
    pub(crate) fn use_of(&self, product: ProductId) -> Change {
        Change::Use { product, at: self.clock.now(), rules: self.rules.clone() }
    }

    /// Runs `work`, which commits a change and then notifies the observers. If there are observers, `work` runs in its
    /// own task, so that it completes even if the caller is cancelled. If `work` were cancelled too, the change could
    /// be committed without the observers being notified.
    pub(crate) async fn run_to_end<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        if !self.observers.any() {
            return work.await;
        }
        spawned(work).await
    }

    /// Runs `work`, which adds a product or a post because a form of the desk (the seller's web pages) was submitted.
    /// Waits first until the work of all earlier forms is done. `work` runs in its own task: if the browser gives up
    /// the request, the next form still waits until `work` is done.
    #[cfg(feature = "pages")]
    pub(crate) async fn add_in_turn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let turn = self.adding.clone().lock_owned().await;
        spawned(async move {
            let _turn = turn;
            work.await
        })
        .await
    }

    /// Records in the metrics that a use of key `id` was counted or refused, and notifies the observers.
    pub(crate) fn note_use(&self, id: KeyId, used: &Result<Key, Error>) {
        match used {
            Ok(key) => {
                telemetry::used();
                self.observers.tell(|| Event::Used { key: key.clone() });
            }
            Err(error) => self.note_refusal(Some(id), error),
        }
    }

    /// Records a refusal in the metrics, and notifies the observers. Store errors are not refusals.
    pub(crate) fn note_refusal(&self, key: Option<KeyId>, error: &Error) {
        if !matches!(error, Error::Store(_)) {
            let code = error.code();
            telemetry::refused(code);
            self.observers.tell(|| Event::Refused { key, code });
        }
    }

    /// Counts a sign-in with a wrong token.
    pub(crate) fn note_wrong_sign_in(&self) {
        self.wrong_sign_ins.fetch_add(1, Ordering::Relaxed);
    }
}

impl Error {
    /// Returns the error code that the API sends for this error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownKey => ErrorCode::InvalidKey,
            Self::Refused { refusal, .. } => match refusal {
                Refusal::Revoked { .. } => ErrorCode::InvalidKey,
                Refusal::Expired { .. } => ErrorCode::ExpiredKey,
                Refusal::WrongProduct { .. } => ErrorCode::WrongProduct,
                Refusal::Exhausted { .. } => ErrorCode::ExceededUses,
                Refusal::Denied(_) => ErrorCode::Denied,
                Refusal::NoLimit | Refusal::NoAddress | Refusal::Replaced { .. } | Refusal::OtherRequest => {
                    ErrorCode::InvalidParams
                }
            },
            Self::ExpiredTicket => ErrorCode::ExpiredTicket,
            Self::RevokedKey => ErrorCode::RevokedKey,
            Self::UnknownTicket | Self::UnknownProduct | Self::Store(StoreError::Unsupported) => ErrorCode::NotFound,
            Self::Store(error) if error.is_temporary() => ErrorCode::Unavailable,
            Self::Store(_) => ErrorCode::Internal,
        }
    }

    /// Returns the refusal if a [`Rule`](crate::key::Rule) of the host application did not allow the use.
    #[must_use]
    pub fn denied(&self) -> Option<&Denied> {
        match self {
            Self::Refused { refusal: Refusal::Denied(denied), .. } => Some(denied),
            _ => None,
        }
    }

    /// Converts a refusal of `key`. A revoked key is reported as unknown.
    fn refused(refusal: Refusal, key: Key) -> Self {
        match refusal {
            Refusal::Revoked { .. } => Self::UnknownKey,
            refusal => Self::Refused { refusal, key: Box::new(key) },
        }
    }
}

/// A revoked key is reported as unknown.
impl From<Refused> for Error {
    fn from(Refused { refusal, key }: Refused) -> Self {
        Self::refused(refusal, key)
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { ledger, catalog, limiter, outbox, quotas, terms, .. } = self.inner.as_ref();
        f.debug_struct("Delivery")
            .field("ledger", ledger)
            .field("catalog", catalog)
            .field("limiter", limiter)
            .field("outbox", outbox)
            .field("quotas", quotas)
            .field("terms", terms)
            .finish_non_exhaustive()
    }
}

/// Runs `work` in its own task, so that it completes even if the caller is cancelled.
async fn spawned<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The task was cancelled, because the runtime is shutting down. The runtime will drop this caller too.
            Err(_) => std::future::pending().await,
        },
    }
}
