//! Imports sales that were made on other systems, from a CSV file.
//!
//! ```text
//! sheet      splits the file into rows and cells
//! formats    defines the columns of the platforms' own exports
//! row        parses the cells of a row
//! sale       the sale that a row describes, and functions that parse a cell
//! importer   looks up the product of a sale, then issues the key or records the refund
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
use self::importer::{Importer, LookedUp};
use self::row::Row;
use self::sheet::Sheet;
use super::{Delivery, Error};
use crate::key::KeyId;
use crate::order::OrderRef;
use crate::product::ProductId;

/// The maximum number of rows that are submitted to the store at the same time.
const AT_ONCE: usize = 256;
/// The columns that a file must have, unless it is a platform's own export. `|` separates alternative columns.
const REQUIRED: &[&str] = &["order_id", "customer_email", "product_id|product_ref"];
/// The columns whose cells several rows [share](Sheet::sharing): none, unless the file is a platform's own export.
const NOTHING: &[&str] = &[];

/// How a file is imported. The default writes the rows and sends no e-mails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a host writes it as a literal with `..Default::default()`")]
pub struct Import {
    /// Whether this is a dry run, which writes nothing and reports what an import would do. A dry run does not
    /// [register](Delivery::register) the keyring, so it does not notice that the store was made with other secrets.
    pub dry_run: bool,
    /// Whether buyers get e-mails about the import: one with each new key that has not expired yet, and one about each
    /// key that the import revokes because of a refund.
    pub send: bool,
    /// The platform that exported the file. `None` if the file has the columns that [`import`](Delivery::import)
    /// lists.
    pub from: Option<ImportFormat>,
}

/// What an import did with one row, or would do if it is a [dry run](Import::dry_run).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedRow {
    /// The line of the file on which the row begins. The header row is on line 1.
    pub line: u64,
    /// The order's number as it is written in the file; empty if the row has none.
    pub order: String,
    /// What the import did.
    pub outcome: ImportOutcome,
    /// The key of the row's order. `None` if the row was refused, if the order has no key, or if a
    /// [dry run](Import::dry_run) did not issue the key.
    pub key: Option<KeyId>,
    /// Why the outcome differs from what the row says, as a text for the seller.
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
        /// The order was refunded. It gets no key, and its existing keys are revoked.
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
    /// The file cannot be read. The rows that were reported before stay imported, and importing the corrected file
    /// continues after them.
    #[error("the file cannot be read")]
    Unreadable(#[from] io::Error),
    /// The store failed. The rows that were reported before stay imported, and importing the file again continues
    /// after them.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Delivery {
    /// Imports sales that were made on other systems from a CSV file in UTF-8, and calls `report` for each row, in the
    /// order of the file. A row that is refused changes nothing, and the other rows are still imported. Importing a
    /// file again changes nothing. A platform's event that reports an imported sale changes nothing either.
    ///
    /// The header row names the columns, in any order and letter case. Unknown columns are ignored. An empty cell
    /// counts as absent. Commas or semicolons separate the cells, and LF or CR LF ends each line.
    ///
    /// | column | meaning |
    /// |---|---|
    /// | `order_id`, `customer_email` | required |
    /// | `source` | the platform's name, as in the path of its webhook, or another name; the letter case of a platform's name does not matter; default `import` |
    /// | `product_id`, or `product_ref` | the product's number, or the platform's name for the product |
    /// | `created_at` | the time of the sale: RFC 3339, or a date, whose beginning in UTC is used; default: now |
    /// | `expires_at` | when the key expires, in the same form; default: as for a sale at `created_at` |
    /// | `max_uses` | the use limit, or -1 for no limit; default: as for a new sale |
    /// | `used_count` | how often the key was used already; default 0 |
    /// | `status` | `paid` (default) or `refunded`; a refund revokes the keys of the order, and later rows and platform events issue no key for it |
    /// | `key` | the key text that the buyer already has, 8 to 512 characters; it stays valid besides the new text, in header fields only if it is visible ASCII |
    ///
    /// A row with status `refunded` is refused if it names a product and the order has a key for another product that
    /// is not revoked. A row with status `paid` is refused if its order was refunded before, unless the order already
    /// has a key for the product.
    ///
    /// A platform's own export has other columns. To import such a file, set [`from`](field@Import::from), and export
    /// all columns that the platform offers. A row is refused if its order is not paid, if its payment is disputed, or
    /// if it is a further charge of a subscription. An order that was refunded or cancelled as a whole counts as
    /// refunded. An order that was refunded in part counts as paid. Gumroad's column `Quantity` and Shopify's
    /// `Lineitem quantity` have the number of pieces: the key of 3 pieces has 3 times the product's use limit. If an
    /// order has several rows for one product, the pieces of the first row count, and the other rows report the
    /// existing key, with the reason.
    ///
    /// | platform | order | product | platform events about an imported order |
    /// |---|---|---|---|
    /// | Gumroad | `Purchase ID` | `Product ID` | a sale changes nothing, a refund revokes the key |
    /// | Shopify | `Id` | `Lineitem sku` | a sale changes nothing, a cancellation revokes the key; see below |
    /// | Stripe | `Checkout Session ID` | `Payment Link ID` or `product_id (metadata)` | a sale changes nothing; see below |
    /// | Lemon Squeezy | `id` or `identifier` | `variant_id`, `product_id` or `product_name` | see below |
    ///
    /// Stripe's refund events name only the payment, and Shopify's name only lines of the order. Neither of them
    /// revokes an imported key. Lemon Squeezy's events name an order by `id`. If the file has only `identifier`, the
    /// service takes these events for events about other orders. On each platform, the next charge of a subscription
    /// whose first order was imported issues another key.
    ///
    /// An archived product gets keys too, because the sale may have been made while the product was sold. Observers and
    /// webhooks are notified of imported keys as of all other new keys. Reading `file` blocks the current thread, so
    /// pass a file or bytes in memory, not a network connection.
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
        if !options.dry_run {
            self.register().await.map_err(Error::from)?;
        }
        let office = self.inner.office().map_err(Error::from)?;
        let export = options.from.map(ImportFormat::export);
        let (required, shared) = export.map_or((REQUIRED, NOTHING), |export| (export.required, export.shared));
        let mut sheet = Sheet::open(file, required)?.sharing(shared);
        let mut importer = Importer::new(self, office, options);
        let (mut summary, mut next) = (ImportSummary::default(), None);
        loop {
            let rows = take_rows(&mut sheet, &mut next, &mut importer).await?;
            if rows.is_empty() {
                return Ok(summary);
            }
            let mut failed = None;
            for done in join_all(rows.into_iter().map(|row| importer.row(row))).await {
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

/// Returns the rows that are submitted to the store next. Their outcomes do not depend on the order in which they are
/// committed: no two of them concern the same product of an order, whatever they call it, or the same key text, and a
/// refund is the only row of its order. `next` holds a row that was read already, but must wait until these rows are
/// committed.
async fn take_rows<R: Read>(
    sheet: &mut Sheet<R>,
    next: &mut Option<LookedUp>,
    importer: &mut Importer<'_>,
) -> Result<Vec<LookedUp>, ImportError> {
    let (mut rows, mut aliases) = (Vec::new(), HashSet::new());
    // The orders of these rows, each with its products. `None` stands for all products of the order.
    let mut orders = HashMap::<OrderRef, HashSet<Option<ProductId>>>::new();
    while rows.len() < AT_ONCE {
        let row = if let Some(row) = next.take() {
            row
        } else {
            let Some(row) = sheet.next_row()? else { break };
            let Some(row) = importer.read(&row) else { continue };
            importer.look_up(row).await
        };
        let is_alone = match &row {
            (Row { sale: Ok(sale), .. }, Ok(product)) => {
                let products = orders.entry(sale.order.clone()).or_default();
                let product = product.as_ref().map(|product| product.id()).filter(|_| !sale.is_refunded);
                let is_first = products.is_empty() || product.is_some() && !products.contains(&None);
                is_first && products.insert(product) && sale.aliases.first().is_none_or(|alias| aliases.insert(*alias))
            }
            // The row is refused, whatever the other rows say.
            _ => true,
        };
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

    /// Counts one more row with this outcome. To know which rows are in after an import failed, count each row that
    /// was reported.
    pub fn count(&mut self, outcome: ImportOutcome) {
        let count = match outcome {
            ImportOutcome::Issued => &mut self.issued,
            ImportOutcome::Existing => &mut self.existing,
            ImportOutcome::Refunded => &mut self.refunded,
            ImportOutcome::Refused => &mut self.refused,
        };
        *count += 1;
    }
}
