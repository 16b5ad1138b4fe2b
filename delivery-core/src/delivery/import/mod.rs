//! Imports sales that were made elsewhere, from a CSV file.
//!
//! ```text
//! sheet      finds the cells of a row
//! formats    knows the columns of platforms' exports
//! row        reads the cells: a sale, or why there is none
//! importer   looks up the sale's product, and issues its key or records its refund
//! ```

mod formats;
mod importer;
mod row;
mod sale;
mod sheet;

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};

use futures_util::future::join_all;

pub use self::formats::ImportFormat;
use self::importer::Importer;
use self::row::Row;
use self::sale::ProductName;
use self::sheet::Sheet;
use super::{Delivery, Error};
use crate::key::{KeyId, Keyring};
use crate::order::OrderRef;
use crate::store::StoreError;

/// The maximum number of rows that are submitted to the store at the same time.
const AT_ONCE: usize = 256;
/// The columns that a file must have.
const REQUIRED: &[&str] = &["order_id", "customer_email", "product_id|product_ref"];
/// What rows of such a file [share](Sheet::sharing).
const NOTHING: &[&str] = &[];

/// How a file is imported. The default writes the rows and sends no e-mails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct Import {
    /// Whether nothing is written, and the report says what would happen.
    pub dry_run: bool,
    /// Whether buyers are told of the import: by the e-mail with a new key that has not expired, and by the e-mail
    /// about a key that was revoked because its payment was refunded.
    pub send: bool,
    /// The platform whose own export the file is. `None` if the file has the columns that
    /// [`import`](Delivery::import) lists.
    pub from: Option<ImportFormat>,
}

/// What an import did with one row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedRow {
    /// The line of the file on which the row begins. The header row is on line 1.
    pub line: u64,
    /// The order's number as the file has it; empty if it has none.
    pub order: String,
    /// What the import did.
    pub outcome: ImportOutcome,
    /// The key of the row's order. `None` if there is none, or if it would be issued without
    /// [`dry_run`](Import::dry_run).
    pub key: Option<KeyId>,
    /// Why the row is not as the file says, for the seller to read.
    pub reason: Option<String>,
}

crate::text::names! {
    /// What an import did with a row.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum ImportOutcome, "must be the outcome of an imported row", {
        /// The key of the sale was issued.
        Issued = "issued",
        /// The order already had a key for the product, which was not changed.
        Existing = "existing",
        /// The order was refunded. It gets no key, and the keys that it had are revoked.
        Refunded = "refunded",
        /// The row was not imported.
        Refused = "refused",
    }
}

/// How many rows of an import had each outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImportSummary {
    /// Rows whose key was issued.
    pub issued: u64,
    /// Rows whose order already had a key for the product.
    pub existing: u64,
    /// Rows whose order was refunded.
    pub refunded: u64,
    /// Rows that were not imported.
    pub refused: u64,
}

/// Why an import ended before the end of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file lacks a required column. No row was imported.
    #[error("the column {0} is missing")]
    MissingColumn(String),
    /// The file cannot be read. The rows that were reported before stay imported.
    #[error("the file cannot be read")]
    Unreadable(#[from] io::Error),
    /// The store failed. The rows that were reported before stay imported. Importing the file again is safe.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Delivery {
    /// Imports sales that were made elsewhere from a CSV file in UTF-8, and calls `report` for each row, in the order
    /// of the file. Each row is judged on its own: a row that is refused changes nothing, and the other rows are
    /// imported. Importing a file again changes nothing, and neither does a platform's event about a sale that was
    /// imported.
    ///
    /// The header row names the columns, in any order and case. Other columns are ignored, and an empty cell counts as
    /// left out. Commas or semicolons separate the cells.
    ///
    /// | column | meaning |
    /// |---|---|
    /// | `order_id`, `customer_email` | required |
    /// | `source` | the platform's name, as in the path of its webhook, or another name; default `import` |
    /// | `product_id`, or `product_ref` | the product's number, or the platform's name for the product |
    /// | `created_at`, `expires_at` | RFC 3339, or a date: its beginning in UTC; default now, and as for a new sale |
    /// | `max_uses`, `used_count` | -1 is unlimited; default as for a new sale, and 0 |
    /// | `status` | `paid` (default) or `refunded`: the keys of the order are revoked, and no later row or event of a platform issues one |
    /// | `key` | the text that the buyer already has, 8 to 512 characters; it keeps working beside the new text, in header fields if it is visible ASCII |
    ///
    /// A refund is refused if it names a product, and the order has a valid key for another one. A row that says `paid`
    /// is refused if its order was refunded before it had a key for the product.
    ///
    /// A platform's own export has other columns: set [`from`](field@Import::from). The export must have all its
    /// columns. A row is refused if it is not paid, if its payment is disputed, or if it is a further charge of a
    /// subscription. An order that was refunded or cancelled as a whole counts as refunded. An order that was refunded
    /// in part counts as paid.
    ///
    /// | platform | order | product | an event about the order |
    /// |---|---|---|---|
    /// | Gumroad | `Purchase ID` | `Product ID` | changes nothing, and its refund revokes the key |
    /// | Shopify | `Id` | `Lineitem sku` | changes nothing, and its cancellation revokes the key: see below |
    /// | Stripe | `Checkout Session ID` | `Payment Link ID` or `product_id (metadata)` | changes nothing: see below |
    /// | Lemon Squeezy | `id` or `identifier` | `variant_id`, `product_id` or `product_name` | see below |
    ///
    /// Stripe's event about a refund names only the payment, and Shopify's names only lines of the order, so neither
    /// revokes an imported key. Lemon Squeezy's events have the order number `id`. If the file has only `identifier`,
    /// they are about other orders. On each platform, the next charge of a subscription whose first order was imported
    /// issues another key.
    ///
    /// An archived product gets keys too, because the sale was made while it was sold. Observers and webhooks are
    /// notified of new keys as of any other. `file` is read in small pieces between the rows, without a thread of its
    /// own: pass a file or bytes in memory, and no network connection.
    ///
    /// ```
    /// use delivery_core::delivery::Import;
    /// # use std::sync::Arc;
    /// # use delivery_core::{Delivery, mail::FolderMailer, product::NewProduct, store::SqliteStore};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let (store, mail) = (folder.path().join("delivery.db"), folder.path().join("mail"));
    /// # let store = Arc::new(SqliteStore::open(store).await?);
    /// # let mailer = Arc::new(FolderMailer::open(mail)?);
    /// # let delivery = Delivery::builder(store, mailer, "a signing secret that is kept".parse()?).build();
    /// # delivery.add_product(NewProduct::new("Guide")?).await?;
    ///
    /// let sales = "order_id,customer_email,product_id,key\n1001,ada@example.com,1,LICENCE-0001\n";
    /// let summary = delivery.import(sales.as_bytes(), Import::default(), |row| println!("{row:?}")).await?;
    /// assert_eq!((summary.issued, summary.refused), (1, 0));
    /// assert_eq!(delivery.validate("LICENCE-0001").await?.email().as_str(), "ada@example.com");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ImportError`] if a column is missing, if the file cannot be read, or if the store failed or has no
    /// [`office`](crate::store::Backend::office).
    pub async fn import(
        &self,
        file: impl Read + Send,
        options: Import,
        mut report: impl FnMut(ImportedRow) + Send,
    ) -> Result<ImportSummary, ImportError> {
        self.register().await.map_err(Error::from)?;
        let office = self.inner.ledger.office().ok_or(Error::Store(StoreError::Unsupported))?;
        let export = options.from.map(ImportFormat::export);
        let (required, shared) = export.map_or((REQUIRED, NOTHING), |export| (export.required, export.shared));
        let mut sheet = Sheet::open(file, required)?.sharing(shared);
        let mut importer = Importer::new(self, office, options);
        let (mut summary, mut next) = (ImportSummary::default(), None);
        loop {
            let rows = take_rows(&mut sheet, &mut next, (&self.inner.keyring, options.from))?;
            if rows.is_empty() {
                return Ok(summary);
            }
            let mut tasks = Vec::with_capacity(rows.len());
            for row in rows {
                tasks.push(importer.prepare(row).await?);
            }
            let mut failed = None;
            for done in join_all(tasks.into_iter().map(|task| importer.finish(task))).await {
                match done {
                    Ok(row) => {
                        summary.count(row.outcome);
                        report(row);
                    }
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
    }
}

/// Returns the rows that are submitted next. Their outcomes do not depend on which of them is committed first: no two
/// are about the same product of an order, or about the same key text, and a refund is the only row of its order.
/// `next` is a row that was read and has to wait for one of these rows.
fn take_rows<R: Read>(
    sheet: &mut Sheet<R>,
    next: &mut Option<Row>,
    (keyring, from): (&Keyring, Option<ImportFormat>),
) -> Result<Vec<Row>, ImportError> {
    let (mut rows, mut aliases) = (Vec::new(), HashSet::new());
    // The products of each order. `None` stands for all of them.
    let mut orders = HashMap::<OrderRef, HashSet<Option<ProductName>>>::new();
    while rows.len() < AT_ONCE {
        let row = match next.take() {
            Some(row) => row,
            None => match sheet.next_row()? {
                Some(row) => match Row::of(&row, keyring, from) {
                    Some(row) => row,
                    None => continue,
                },
                None => break,
            },
        };
        let is_alone = row.sale.as_ref().map_or(true, |sale| {
            let products = orders.entry(sale.order.clone()).or_default();
            let product = sale.product.clone().filter(|_| !sale.is_refunded);
            let is_first = products.is_empty() || product.is_some() && !products.contains(&None);
            is_first && products.insert(product) && sale.aliases.first().is_none_or(|alias| aliases.insert(*alias))
        });
        if !is_alone {
            *next = Some(row);
            break;
        }
        rows.push(row);
    }
    Ok(rows)
}

impl ImportSummary {
    /// Returns whether no row was refused.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.refused == 0
    }

    fn count(&mut self, outcome: ImportOutcome) {
        let count = match outcome {
            ImportOutcome::Issued => &mut self.issued,
            ImportOutcome::Existing => &mut self.existing,
            ImportOutcome::Refunded => &mut self.refunded,
            ImportOutcome::Refused => &mut self.refused,
        };
        *count += 1;
    }
}
