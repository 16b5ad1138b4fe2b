//! Imports the rows of a file: issues keys and records refunds. In a dry run, only finds out what an import would do.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::row::Row;
use super::sale::{ProductName, Sale};
use super::sheet::SheetRow;
use super::{Import, ImportOutcome, ImportedRow};
use crate::delivery::settings::{PLATFORMS, PlatformRow};
use crate::delivery::{Delivery, Error};
use crate::key::{Actor, Alias, Change, Key, KeyId, NewKey, Reason};
use crate::ledger::{Imported, NewSale, ReferenceKind};
use crate::order::{OrderRef, Source};
use crate::product::{Product, ProductId, RefName};
use crate::store::{Office, StoreError};
use crate::terms::{Terms, UseLimit};

const REFUNDED_BEFORE: &str = "the order was refunded before";
const OTHER_PRODUCT: &str = "the order has a key for another product: revoke the key of this product by hand";
const OTHER_TEXT: &str = "the order already has a key, and the text in key was not kept";
const TEXT_OF_OTHER: &str = "the order already has a key, and the text in key belongs to another key";
const REPEATED: &str = "an earlier row is about the same product of the order";
const TAKEN: &str = "another key has the same text";

pub(super) struct Importer<'d> {
    delivery: &'d Delivery,
    office: &'d dyn Office,
    options: Import,
    /// The sources that the service knows: all platforms, the order webhook, and the default of an import.
    sources: Vec<Source>,
    /// A cache of the product lookups by a platform's name. The value is `None` if no product has the name.
    names: HashMap<(Source, RefName), Option<ProductId>>,
    rehearsed: Mutex<Rehearsed>,
    /// The purchases whose rows were not refused so far.
    seen: Mutex<HashSet<Purchase>>,
}

/// A row, and the product that was looked up for it; `None` if the row names no product.
pub(super) type LookedUp = (Row, Result<Option<Arc<Product>>, NotIn>);

/// A product of an order.
type Purchase = (OrderRef, ProductId);

/// What the rows of a dry run would have written so far.
#[derive(Default)]
struct Rehearsed {
    sold: HashMap<OrderRef, HashSet<ProductId>>,
    refunded: HashSet<OrderRef>,
    /// The aliases of the keys, each with the purchase of its key.
    aliases: HashMap<Alias, Purchase>,
}

/// The outcome of a row that was not refused, the key of its order, and the reason if the outcome differs from what the
/// row says.
type Done = (ImportOutcome, Option<KeyId>, Option<String>);

/// Why a row was not imported.
pub(super) enum NotIn {
    /// The row is refused, for this reason.
    Refused(String),
    /// The store failed, so the import ends.
    Failed(Error),
}

impl<'d> Importer<'d> {
    pub(super) fn new(delivery: &'d Delivery, office: &'d dyn Office, options: Import) -> Self {
        let platforms = delivery.inner.platforms.names().cloned();
        let built_in = PLATFORMS.iter().filter_map(PlatformRow::name);
        let sources = platforms.chain(built_in).chain([Source::webhook(), Source::of("import")]).collect();
        let (rehearsed, seen) = (Mutex::default(), Mutex::default());
        Self { delivery, office, options, sources, names: HashMap::new(), rehearsed, seen }
    }

    /// Parses a row; returns `None` if it is not about a sale. The letter case of a known source does not matter, so
    /// that the order is the same as in other rows, in the platform's events and in the order webhook.
    pub(super) fn read(&self, row: &SheetRow<'_>) -> Option<Row> {
        let mut row = Row::of(row, &self.delivery.inner.keyring, self.options.from)?;
        if let Ok(Sale { order: OrderRef { source, .. }, .. }) = &mut row.sale
            && !self.sources.contains(source)
            && let Some(known) = self.sources.iter().find(|known| known.as_str().eq_ignore_ascii_case(source.as_str()))
        {
            source.clone_from(known);
        }
        Some(row)
    }

    /// Looks up the product that a row names, if any. Look up the products of several rows one after the other, so that
    /// rows with the same name cause one lookup.
    pub(super) async fn look_up(&mut self, row: Row) -> LookedUp {
        let product = match &row.sale {
            Ok(Sale { order, product: Some(name), .. }) => self.product(&order.source, name).await.map(Some),
            _ => Ok(None),
        };
        (row, product)
    }

    /// Imports a row, for the product that was looked up. In a dry run, only finds out what an import would do. Rows that
    /// do not depend on each other's outcomes may be imported at the same time.
    pub(super) async fn row(&self, (Row { line, order, sale }, product): LookedUp) -> Result<ImportedRow, Error> {
        let done = match (sale, product) {
            (Ok(sale), Ok(product)) => self.done(sale, product).await,
            (Ok(_), Err(not_in)) => Err(not_in),
            (Err(reason), _) => Err(NotIn::Refused(reason)),
        };
        let (outcome, key, reason) = match done {
            Ok(done) => done,
            Err(NotIn::Refused(reason)) => (ImportOutcome::Refused, None, Some(reason)),
            Err(NotIn::Failed(error)) => return Err(error),
        };
        Ok(ImportedRow { line, order, outcome, key, reason })
    }

    async fn done(&self, sale: Sale, product: Option<Arc<Product>>) -> Result<Done, NotIn> {
        let is_dry = self.options.dry_run;
        if sale.is_refunded {
            let (order, product) = (sale.order, product.map(|product| product.id()));
            return if is_dry {
                self.rehearse_refund(order, product).await
            } else {
                self.refund(&order, product).await
            };
        }
        let product = product.ok_or_else(|| refused("product_id or product_ref is missing"))?;
        let (purchase, aliases) = ((sale.order.clone(), product.id()), sale.aliases.clone());
        let sale = self.new_sale(sale, &product)?;
        let (outcome, key, reason) = if is_dry {
            self.rehearse_sale(&purchase, &aliases).await?
        } else {
            self.sell(sale, &purchase, &aliases).await?
        };
        let is_repeated = !locked(&self.seen).insert(purchase) && outcome == ImportOutcome::Existing;
        Ok((outcome, key, reason.or_else(|| is_repeated.then(|| REPEATED.into()))))
    }

    async fn product(&mut self, source: &Source, name: &ProductName) -> Result<Arc<Product>, NotIn> {
        let number = match name {
            ProductName::Number(number) => *number,
            ProductName::References(names) => {
                let mut found = None;
                for name in names {
                    if found.is_none() {
                        found = self.product_named(source, name).await?;
                    }
                }
                found.ok_or_else(|| refused("no product has the name that the row has for it"))?
            }
        };
        let found = self.delivery.inner.catalog.product(number).await?;
        found.ok_or_else(|| refused("there is no product with the number that the row has for it"))
    }

    async fn product_named(&mut self, source: &Source, name: &RefName) -> Result<Option<ProductId>, StoreError> {
        let Some(names) = &self.delivery.inner.platforms.names else { return Ok(None) };
        let key = (source.clone(), name.clone());
        if let Some(known) = self.names.get(&key) {
            return Ok(*known);
        }
        let found = names.product_named(source, name).await?;
        self.names.insert(key, found);
        Ok(found)
    }

    fn new_sale(&self, sale: Sale, product: &Product) -> Result<NewSale, NotIn> {
        let (delivery, inner) = (self.delivery, &self.delivery.inner);
        let Sale { order, email, pieces, created_at, expires_at, limit, used, aliases, .. } = sale;
        let terms = product.terms().unwrap_or(inner.terms);
        let terms = Terms { limit: limit.unwrap_or(terms.limit.times(pieces)), ..terms };
        if matches!(terms.limit, UseLimit::Uses(most) if used > most.get()) {
            return Err(refused("used_count must be at most max_uses"));
        }
        let issued_at = created_at.unwrap_or_else(|| inner.clock.now());
        let identity = (delivery.new_key_id(), inner.keyring.newest());
        let key = NewKey::on_terms(identity, product.id(), email, terms, issued_at);
        let key = NewKey { expires_at: expires_at.unwrap_or(key.expires_at), ..key.bought_with(order) };
        let sends = self.options.send && key.expires_at > inner.clock.now();
        let imported = Imported { used, alias: aliases.first().copied() };
        Ok(NewSale { imported: Some(imported), ..delivery.new_sale(key, sends)? })
    }

    /// Records the refund of an order. The product is the one that the row names, if any.
    async fn refund(&self, order: &OrderRef, product: Option<ProductId>) -> Result<Done, NotIn> {
        self.refundable(order, product).await?;
        let received = self.delivery.refund(order, self.options.send).await?;
        Ok((ImportOutcome::Refunded, received.event.keys.first().copied(), None))
    }

    /// Returns the outcome that a refund would have after the earlier rows of a dry run.
    async fn rehearse_refund(&self, order: OrderRef, product: Option<ProductId>) -> Result<Done, NotIn> {
        if self.is_refund_rehearsed(&order) {
            return Ok((ImportOutcome::Refunded, None, None));
        }
        let keys = self.refundable(&order, product).await?;
        let mut rehearsed = locked(&self.rehearsed);
        let mut sold = rehearsed.sold.get(&order).into_iter().flatten();
        if sold.any(|sold| product.is_some_and(|product| product != *sold)) {
            return Err(refused(OTHER_PRODUCT));
        }
        rehearsed.refunded.insert(order);
        Ok((ImportOutcome::Refunded, keys.first().map(Key::id), None))
    }

    /// Issues the key of an order. The aliases are MACs of the key text that the buyer already has, by each signing
    /// secret, newest first.
    async fn sell(&self, sale: NewSale, purchase: &Purchase, aliases: &[Alias]) -> Result<Done, NotIn> {
        let (order, _) = purchase;
        if self.is_refunded(order).await? {
            let existing = self.existing(order, sale.key.product).await?;
            return if existing.is_some() { Ok(refunded_before(existing)) } else { Err(refused(REFUNDED_BEFORE)) };
        }
        // When the key is issued, the ledger compares only the alias by the newest secret. A key that was imported
        // before the secret was replaced has an alias by an older secret, so look for all aliases here.
        if aliases.len() > 1
            && self.existing(order, sale.key.product).await?.is_none()
            && self.office.alias(aliases).await?.is_some()
        {
            return Err(refused(TAKEN));
        }
        match self.delivery.issue(sale).await {
            Ok(issued) if issued.new => {
                if !aliases.is_empty() {
                    self.delivery.inner.aliases.found();
                }
                // Check again: a platform may have reported a refund since the first check. The report found no key to
                // revoke, so revoke the key here.
                if self.is_refunded(order).await? {
                    let (at, by) = (self.delivery.inner.clock.now(), Actor::platform(&order.source));
                    let revoke = Change::Revoke { at, reason: Some(Reason::refunded()), by };
                    self.delivery.change(issued.key.id(), revoke).await?;
                    return Ok((ImportOutcome::Refunded, Some(issued.key.id()), Some(REFUNDED_BEFORE.into())));
                }
                Ok((ImportOutcome::Issued, Some(issued.key.id()), None))
            }
            Ok(issued) => {
                let key = Some(issued.key.id());
                let is_own = self.is_text_of(purchase, key, aliases).await?;
                Ok((ImportOutcome::Existing, key, not_kept(aliases, is_own)))
            }
            Err(Error::Store(StoreError::Refused { .. })) if !aliases.is_empty() => Err(refused(TAKEN)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the outcome that a sale would have after the earlier rows of a dry run.
    async fn rehearse_sale(&self, purchase: &Purchase, aliases: &[Alias]) -> Result<Done, NotIn> {
        let (order, product) = purchase;
        let existing = self.existing(order, *product).await?;
        let is_refunded = self.is_refund_rehearsed(order) || self.is_refunded(order).await?;
        let is_own = self.is_text_of(purchase, existing, aliases).await?;
        let mut rehearsed = locked(&self.rehearsed);
        let is_sold = existing.is_some() || rehearsed.sold.get(order).is_some_and(|sold| sold.contains(product));
        if is_refunded {
            return if is_sold { Ok(refunded_before(existing)) } else { Err(refused(REFUNDED_BEFORE)) };
        }
        let is_own =
            is_own.or_else(|| Some(aliases.iter().find_map(|alias| rehearsed.aliases.get(alias))? == purchase));
        if is_sold {
            return Ok((ImportOutcome::Existing, existing, not_kept(aliases, is_own)));
        }
        if is_own.is_some() {
            return Err(refused(TAKEN));
        }
        rehearsed.sold.entry(order.clone()).or_default().insert(*product);
        rehearsed.aliases.extend(aliases.iter().map(|alias| (*alias, purchase.clone())));
        Ok((ImportOutcome::Issued, None, None))
    }

    fn is_refund_rehearsed(&self, order: &OrderRef) -> bool {
        locked(&self.rehearsed).refunded.contains(order)
    }

    /// Returns the keys of an order that is to be refunded. Refuses the row if it names a product and the order has a
    /// key for another product that is not revoked, because the refund may concern only a part of the order.
    async fn refundable(&self, order: &OrderRef, product: Option<ProductId>) -> Result<Vec<Key>, NotIn> {
        let keys = self.delivery.keys_of_order(&order.source, &order.id).await?;
        let is_other =
            |key: &Key| key.revoked_at().is_none() && product.is_some_and(|product| product != key.product());
        if keys.iter().any(is_other) { Err(refused(OTHER_PRODUCT)) } else { Ok(keys) }
    }

    async fn is_refunded(&self, order: &OrderRef) -> Result<bool, StoreError> {
        let deal = self.office.deal(&order.source, ReferenceKind::Order, &order.id).await?;
        Ok(deal.is_some_and(|deal| deal.is_taken_back(order.id.as_str())))
    }

    async fn existing(&self, order: &OrderRef, product: ProductId) -> Result<Option<KeyId>, Error> {
        let key = self.delivery.issued_before(product, Some(order.clone())).await?;
        Ok(key.map(|key| key.id()))
    }

    /// Returns whether the key text with these aliases is that of the purchase: of its key `existing`, or of a key that
    /// `existing` has replaced. Returns `None` if no key has the text.
    async fn is_text_of(
        &self,
        (order, product): &Purchase,
        existing: Option<KeyId>,
        aliases: &[Alias],
    ) -> Result<Option<bool>, Error> {
        if aliases.is_empty() {
            return Ok(None);
        }
        let Some(owner) = self.office.alias(aliases).await? else { return Ok(None) };
        if existing == Some(owner) {
            return Ok(Some(true));
        }
        let key = self.delivery.key(owner).await?;
        Ok(Some(key.is_some_and(|key| key.product() == *product && key.granted().order.as_ref() == Some(order))))
    }
}

/// Returns why the key text of a row was not kept, if the order already has a key. `is_own` is the answer of
/// [`Importer::is_text_of`].
fn not_kept(aliases: &[Alias], is_own: Option<bool>) -> Option<String> {
    match is_own {
        Some(false) => Some(TEXT_OF_OTHER.to_owned()),
        None if !aliases.is_empty() => Some(OTHER_TEXT.to_owned()),
        _ => None,
    }
}

/// Returns the outcome of a row that reports a paid order, although the order was refunded before. `key` is the key that
/// the order already has for the row's product. In a dry run, an earlier row may stand for the key.
fn refunded_before(key: Option<KeyId>) -> Done {
    (ImportOutcome::Refunded, key, Some(REFUNDED_BEFORE.into()))
}

fn refused(reason: &str) -> NotIn {
    NotIn::Refused(reason.to_owned())
}

/// Locks a mutex. Do not hold the lock across an `await`, because one task imports many rows concurrently.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<Error> for NotIn {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for NotIn {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}
