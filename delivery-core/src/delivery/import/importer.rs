//! Imports the rows of a file: issues keys and records refunds. In a dry run, only finds out what an import would do.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::row::Row;
use super::sale::{ProductName, Sale};
use super::{Import, ImportOutcome, ImportedRow};
use crate::delivery::{Delivery, Error};
use crate::key::{Alias, Key, KeyId, NewKey};
use crate::ledger::{Imported, MessageKind, NewSale, Notice, ReferenceKind};
use crate::order::{OrderRef, Source};
use crate::product::{Product, ProductId, RefName};
use crate::store::{Office, StoreError};
use crate::terms::{Terms, UseLimit};

const REFUNDED_BEFORE: &str = "the order was refunded before";
const OTHER_PRODUCT: &str = "the order has a key for another product: revoke the key of this product by hand";
const OTHER_TEXT: &str = "the order already has a key, and the text in key was not kept";
const TAKEN: &str = "another key has the same text";

pub(super) struct Importer<'d> {
    delivery: &'d Delivery,
    office: &'d dyn Office,
    options: Import,
    /// A cache of the product lookups by a platform's name. The value is `None` if no product has the name.
    names: HashMap<(Source, RefName), Option<ProductId>>,
    rehearsed: Rehearsed,
}

/// What the earlier rows of a dry run would have written.
#[derive(Default)]
struct Rehearsed {
    sold: HashMap<OrderRef, HashSet<ProductId>>,
    refunded: HashSet<OrderRef>,
    aliases: HashSet<Alias>,
}

/// A row, with the step that imports it, or the reason why the row is refused.
pub(super) struct Task {
    line: u64,
    order: String,
    step: Result<Step, String>,
}

/// The step that imports a row.
enum Step {
    /// Issue the key of an order. The aliases are MACs of the key text that the buyer already has, by each signing
    /// secret, newest first.
    Sell(Box<NewSale>, OrderRef, Vec<Alias>),
    /// Record the refund of an order. The product is the one that the row names, if any.
    Refund(OrderRef, Option<ProductId>),
    /// Only report this outcome, because this is a dry run.
    Report(Done),
}

/// The outcome of a row that was not refused, the key of its order, and the reason if the outcome differs from what the
/// row says.
type Done = (ImportOutcome, Option<KeyId>, Option<&'static str>);

/// Why a row was not imported.
enum NotIn {
    /// The row is refused, for this reason.
    Refused(&'static str),
    /// The store failed, so the import ends.
    Failed(Error),
}

impl<'d> Importer<'d> {
    pub(super) fn new(delivery: &'d Delivery, office: &'d dyn Office, options: Import) -> Self {
        Self { delivery, office, options, names: HashMap::new(), rehearsed: Rehearsed::default() }
    }

    /// Looks up the product of a row, and returns the step that imports the row. In a dry run, the step is to report
    /// what an import would do.
    pub(super) async fn prepare(&mut self, row: Row) -> Result<Task, Error> {
        let Row { line, order, sale } = row;
        let step = match sale {
            Ok(sale) => judged(self.step(sale).await)?,
            Err(reason) => Err(reason),
        };
        Ok(Task { line, order, step })
    }

    /// Carries out the step of a row.
    pub(super) async fn finish(&self, task: Task) -> Result<ImportedRow, Error> {
        let Task { line, order, step } = task;
        let done = match step {
            Ok(step) => judged(self.done(step).await)?,
            Err(reason) => Err(reason),
        };
        Ok(match done {
            Ok((outcome, key, reason)) => ImportedRow { line, order, outcome, key, reason: reason.map(str::to_owned) },
            Err(reason) => {
                ImportedRow { line, order, outcome: ImportOutcome::Refused, key: None, reason: Some(reason) }
            }
        })
    }

    async fn step(&mut self, sale: Sale) -> Result<Step, NotIn> {
        let product = match &sale.product {
            Some(name) => Some(self.product(&sale.order.source, name).await?),
            None => None,
        };
        let step = if sale.is_refunded {
            Step::Refund(sale.order, product.map(|product| product.id()))
        } else {
            let product = product.ok_or(NotIn::Refused("product_id or product_ref is missing"))?;
            let (order, aliases) = (sale.order.clone(), sale.aliases.clone());
            Step::Sell(Box::new(self.new_sale(sale, &product)?), order, aliases)
        };
        if self.options.dry_run { self.rehearse(step).await.map(Step::Report) } else { Ok(step) }
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
                found.ok_or(NotIn::Refused("no product has the name that the row has for it"))?
            }
        };
        let found = self.delivery.inner.catalog.product(number).await?;
        found.ok_or(NotIn::Refused("there is no product with the number that the row has for it"))
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
        let Sale { order, email, created_at, expires_at, limit, used, aliases, .. } = sale;
        let terms = product.terms().unwrap_or(inner.terms);
        let terms = Terms { limit: limit.unwrap_or(terms.limit), ..terms };
        if matches!(terms.limit, UseLimit::Uses(most) if used > most.get()) {
            return Err(NotIn::Refused("used_count must be at most max_uses"));
        }
        let id = delivery.new_key_id();
        let issued_at = created_at.unwrap_or_else(|| inner.clock.now());
        let key = NewKey::on_terms((id, inner.keyring.newest()), product.id(), email, terms, issued_at);
        let key = NewKey { expires_at: expires_at.unwrap_or(key.expires_at), ..key.bought_with(order) };
        let mut messages = Vec::new();
        if self.options.send && key.expires_at > inner.clock.now() {
            messages.push(Notice::purchase(delivery.message_id(id)?));
        }
        messages.extend(delivery.webhooks(MessageKind::KeyIssued)?);
        let imported = Imported { used, alias: aliases.first().copied() };
        Ok(NewSale { imported: Some(imported), ..NewSale::new(key, messages) })
    }

    async fn done(&self, step: Step) -> Result<Done, NotIn> {
        match step {
            Step::Report(done) => Ok(done),
            Step::Refund(order, product) => {
                self.refundable(&order, product).await?;
                let received = self.delivery.refund(&order, self.options.send).await?;
                Ok((ImportOutcome::Refunded, received.event.keys.first().copied(), None))
            }
            Step::Sell(sale, order, aliases) => self.sell(*sale, &order, &aliases).await,
        }
    }

    async fn sell(&self, sale: NewSale, order: &OrderRef, aliases: &[Alias]) -> Result<Done, NotIn> {
        if self.is_refunded(order).await? {
            return refunded(self.existing(order, sale.key.product).await?);
        }
        // When the key is issued, the ledger compares only the alias by the newest secret. A key that was imported
        // before the secret was replaced has an alias by an older secret, so look for all aliases here.
        if aliases.len() > 1
            && self.existing(order, sale.key.product).await?.is_none()
            && self.is_taken(aliases).await?
        {
            return Err(NotIn::Refused(TAKEN));
        }
        match self.delivery.issue(sale).await {
            Ok(issued) if issued.new => {
                if !aliases.is_empty() {
                    self.delivery.inner.aliases.found();
                }
                // Check again: a platform may have reported a refund since the first check. This refund found no key
                // to revoke, so repeat it.
                if self.is_refunded(order).await? {
                    self.delivery.refund(order, self.options.send).await?;
                    return Ok((ImportOutcome::Refunded, Some(issued.key.id()), Some(REFUNDED_BEFORE)));
                }
                Ok((ImportOutcome::Issued, Some(issued.key.id()), None))
            }
            Ok(issued) => {
                let reason = self.dropped(aliases).await?;
                Ok((ImportOutcome::Existing, Some(issued.key.id()), reason))
            }
            Err(Error::Store(StoreError::Refused { .. })) if !aliases.is_empty() => Err(NotIn::Refused(TAKEN)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the outcome that a step would have after the earlier steps of a dry run.
    async fn rehearse(&mut self, step: Step) -> Result<Done, NotIn> {
        match step {
            Step::Report(done) => Ok(done),
            Step::Refund(order, _) if self.rehearsed.refunded.contains(&order) => {
                Ok((ImportOutcome::Refunded, None, None))
            }
            Step::Refund(order, product) => {
                let keys = self.refundable(&order, product).await?;
                let sold = self.rehearsed.sold.get(&order).into_iter().flatten();
                if sold.into_iter().any(|sold| product.is_some_and(|product| product != *sold)) {
                    return Err(NotIn::Refused(OTHER_PRODUCT));
                }
                self.rehearsed.refunded.insert(order);
                Ok((ImportOutcome::Refunded, keys.first().map(Key::id), None))
            }
            Step::Sell(sale, order, aliases) => {
                let product = sale.key.product;
                let existing = self.existing(&order, product).await?;
                if self.rehearsed.refunded.contains(&order) || self.is_refunded(&order).await? {
                    return refunded(existing);
                }
                let is_rehearsed = aliases.iter().any(|alias| self.rehearsed.aliases.contains(alias));
                if existing.is_some() || self.rehearsed.sold.get(&order).is_some_and(|sold| sold.contains(&product)) {
                    let reason = if is_rehearsed { None } else { self.dropped(&aliases).await? };
                    return Ok((ImportOutcome::Existing, existing, reason));
                }
                if is_rehearsed || self.is_taken(&aliases).await? {
                    return Err(NotIn::Refused(TAKEN));
                }
                self.rehearsed.sold.entry(order).or_default().insert(product);
                self.rehearsed.aliases.extend(aliases);
                Ok((ImportOutcome::Issued, None, None))
            }
        }
    }

    /// Returns the keys of an order that is to be refunded. Refuses the row if it names a product and the order has a
    /// key for another product that is not revoked, because the refund may concern only a part of the order.
    async fn refundable(&self, order: &OrderRef, product: Option<ProductId>) -> Result<Vec<Key>, NotIn> {
        let keys = self.delivery.keys_of_order(&order.source, &order.id).await?;
        let is_other =
            |key: &Key| key.revoked_at().is_none() && product.is_some_and(|product| product != key.product());
        if keys.iter().any(is_other) { Err(NotIn::Refused(OTHER_PRODUCT)) } else { Ok(keys) }
    }

    async fn is_refunded(&self, order: &OrderRef) -> Result<bool, StoreError> {
        let deal = self.office.deal(&order.source, ReferenceKind::Order, &order.id).await?;
        Ok(deal.is_some_and(|deal| deal.is_taken_back(order.id.as_str())))
    }

    async fn existing(&self, order: &OrderRef, product: ProductId) -> Result<Option<KeyId>, Error> {
        let key = self.delivery.issued_before(product, Some(order.clone())).await?;
        Ok(key.map(|key| key.id()))
    }

    /// Returns the reason that a row reports if its order already has a key, because the key text of the row is then
    /// not stored. Returns `None` if the row has no key text, or if a key has this text already.
    async fn dropped(&self, aliases: &[Alias]) -> Result<Option<&'static str>, StoreError> {
        Ok((!aliases.is_empty() && !self.is_taken(aliases).await?).then_some(OTHER_TEXT))
    }

    async fn is_taken(&self, aliases: &[Alias]) -> Result<bool, StoreError> {
        Ok(!aliases.is_empty() && self.office.alias(aliases).await?.is_some())
    }
}

/// Returns the outcome of a row that reports a paid order, although the order was refunded before. `existing` is the
/// key that the order already has for the row's product, if any.
fn refunded(existing: Option<KeyId>) -> Result<Done, NotIn> {
    existing.ok_or(NotIn::Refused(REFUNDED_BEFORE))?;
    Ok((ImportOutcome::Refunded, existing, Some(REFUNDED_BEFORE)))
}

/// Converts a refusal of the row to the inner error, and a failure of the store to the outer error.
fn judged<T>(judged: Result<T, NotIn>) -> Result<Result<T, String>, Error> {
    match judged {
        Ok(done) => Ok(Ok(done)),
        Err(NotIn::Refused(reason)) => Ok(Err(reason.to_owned())),
        Err(NotIn::Failed(error)) => Err(error),
    }
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
