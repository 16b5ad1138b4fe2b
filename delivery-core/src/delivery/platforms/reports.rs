//! From what a platform says to what the store is told: products found, addresses checked, keys ready to be issued.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::delivery::{Delivery, Error};
use crate::email::Email;
use crate::key::KeyId;
use crate::order::{OrderId, OrderRef, Source};
use crate::platform::{self, Buyer, Event, Line, Reference, References, Unreadable};
use crate::product::{Product, ProductId, RefName};
use crate::redact::redacted;
use crate::store::{
    Cause, Charged, Customer, End, Entry, Extent, Handling, Links, MOST_PRODUCTS, MessageKind, Notice, Of, Offer,
    Report, Returned, Sale,
};
use crate::terms::{Terms, UseLimit};

/// The most lines of one order, each of which may be a query.
const MOST_LINES: usize = 500;
/// How much of a platform's name for a product is shown to the seller, in characters.
const SHOWN: usize = 80;

/// What the inbox keeps of an event.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
    is_test: bool,
    /// `None` if it cannot be read.
    events: Option<Vec<Event>>,
    #[serde(default)]
    added: Added,
}

/// What the seller adds to an event that waits: the buyer's address, where the platform has none that can be used, and the product
/// of lines that name none that is sold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Added {
    pub(super) email: Option<Email>,
    pub(super) product: Option<ProductId>,
}

/// What a charge says.
struct Bought<'e> {
    order: &'e str,
    lines: &'e [Line],
    buyer: &'e Buyer,
    references: &'e References,
    /// The subscription that is charged again.
    renews: Option<&'e str>,
    added: &'e Added,
}

/// What a charge may issue, and what of it is missing.
struct Offered {
    offers: Vec<Offer>,
    unmapped: Vec<(String, String)>,
    missing: Option<String>,
}

/// A product, or why there is none that is sold.
type MayBeSold = Result<Arc<Product>, NotSold>;

enum NotSold {
    Unknown(String),
    Archived(String),
}

/// Lines that are one product.
struct Found {
    product: Arc<Product>,
    names: Vec<String>,
    lines: Vec<String>,
    pieces: u64,
}

impl Told {
    pub(super) fn new(is_test: bool, events: Option<Vec<Event>>) -> Self {
        Self { is_test, events, added: Added::default() }
    }

    /// Adds what the seller says, beside what was said before.
    pub(super) fn add(&mut self, Added { email, product }: Added) {
        self.added.email = email.or(self.added.email.take());
        self.added.product = product.or(self.added.product);
    }
}

impl Delivery {
    /// What is to be done with an event.
    pub(super) async fn handling(&self, entry: &Entry, told: Told) -> Result<Handling, Error> {
        let source = &entry.id.source;
        let unreadable = || Ok(Handling::Wait(Unreadable.to_string()));
        let Some(events) = &told.events else { return unreadable() };
        if told.is_test && !self.inner.platforms.accept_test_events {
            return Ok(Handling::Ignore("it is about a test purchase".to_owned()));
        }
        if let [Event::Customer { reference, email, told_at }] = events.as_slice() {
            let told_at = told_at.unwrap_or(entry.received_at);
            return Ok(remembered(source, reference, (email, &told.added), told_at));
        }
        let mut reports = Vec::with_capacity(events.len());
        for event in events {
            match self.report(source, event, &told.added).await? {
                Ok(report) => reports.push(report),
                Err(Unreadable) => return unreadable(),
            }
        }
        if reports.is_empty() {
            return Ok(Handling::Ignore("the event has no effect here".to_owned()));
        }
        Ok(Handling::Apply(reports))
    }

    async fn report(&self, source: &Source, event: &Event, added: &Added) -> Result<Result<Report, Unreadable>, Error> {
        let bought = match event {
            Event::Paid(platform::Sale { order, lines, buyer, references }) => {
                Bought { order, lines, buyer, references, renews: None, added }
            }
            Event::Renewed(platform::Renewal { charge, subscription, lines, buyer, references }) => {
                Bought { order: charge, lines, buyer, references, renews: Some(subscription), added }
            }
            event => return Ok(without_products(event)),
        };
        let Ok((order, links)) = named(&bought) else { return Ok(Err(Unreadable)) };
        let Offered { offers, unmapped, missing } = self.offers(source, &bought, &order).await?;
        let is_renewal = bought.renews.is_some();
        Ok(Ok(Report::Charged(Charged { order, links, is_renewal, offers, unmapped, missing })))
    }

    /// The keys that an order may issue, and why some of it has none.
    async fn offers(&self, source: &Source, bought: &Bought<'_>, order: &OrderId) -> Result<Offered, Error> {
        if bought.lines.len() > MOST_LINES {
            let missing = Some(format!("it has more than {MOST_LINES} lines"));
            return Ok(Offered { offers: Vec::new(), unmapped: Vec::new(), missing });
        }
        let mut found = BTreeMap::<ProductId, Found>::new();
        let mut missing = bought.lines.is_empty().then(|| "it names no product".to_owned());
        let mut unmapped = Vec::new();
        for (index, (line, product)) in self.products_of(source, bought).await?.into_iter().enumerate() {
            match product {
                Ok(product) => {
                    let entry = found.entry(product.id()).or_insert(Found {
                        product,
                        names: Vec::new(),
                        lines: Vec::new(),
                        pieces: 0,
                    });
                    entry.lines.push(identity(index, line));
                    entry.names.extend(line.names.iter().cloned());
                    entry.pieces += u64::from(line.quantity);
                }
                Err(NotSold::Unknown(reason) | NotSold::Archived(reason)) => {
                    missing.get_or_insert(reason);
                    unmapped.push((identity(index, line), specific(line)));
                }
            }
        }
        let none = |reason: String| {
            let lines = bought.lines.iter().enumerate();
            let unmapped = lines.map(|(index, line)| (identity(index, line), specific(line))).collect();
            Ok(Offered { offers: Vec::new(), unmapped, missing: Some(reason) })
        };
        if found.len() > MOST_PRODUCTS {
            return none(format!("it has more than {MOST_PRODUCTS} products"));
        }
        let Some(email) = self.address(source, bought.buyer).await?.or_else(|| bought.added.email.clone()) else {
            return none("it has no e-mail address that a key can be sent to".to_owned());
        };
        let order = OrderRef { source: source.clone(), id: order.clone() };
        let offers = found.into_values().map(|found| self.offer(found, email.clone(), order.clone()));
        Ok(Offered { offers: offers.collect::<Result<_, _>>()?, unmapped, missing })
    }

    fn offer(&self, found: Found, email: Email, order: OrderRef) -> Result<Offer, Error> {
        let Found { product, names, lines, pieces } = found;
        let inner = &self.inner;
        let id = KeyId::random(inner.clock.as_ref(), inner.entropy.as_ref());
        let Terms { validity, limit } = product.terms().unwrap_or(inner.terms);
        let terms = Terms { validity, limit: limit.times(pieces) };
        let identity = (id, inner.keyring.newest());
        let key = crate::key::NewKey::on_terms(identity, product.id(), email, terms, inner.clock.now());
        let mut messages = vec![Notice::purchase(self.message_id(id)?)];
        messages.extend(self.webhooks(MessageKind::KeyIssued)?);
        let sale = Sale::new(crate::key::NewKey { order: Some(order), ..key }, messages);
        Ok(Offer { product: product.id(), names, lines, pieces, sale })
    }

    /// The products of the lines. What the seller added takes the place of products that are unknown; of those that are archived only
    /// where no other is missing, since a line whose product was archived later may have its key.
    async fn products_of<'b>(&self, source: &Source, bought: &Bought<'b>) -> Result<Vec<(&'b Line, MayBeSold)>, Error> {
        let mut products = Vec::with_capacity(bought.lines.len());
        for line in bought.lines {
            products.push((line, self.product_of(source, line).await?));
        }
        if bought.added.product.is_some() {
            let is_any_unknown = products.iter().any(|(_, product)| matches!(product, Err(NotSold::Unknown(_))));
            for (line, product) in &mut products {
                let is_missing = match product {
                    Ok(_) => false,
                    Err(NotSold::Unknown(_)) => true,
                    Err(NotSold::Archived(_)) => !is_any_unknown,
                };
                if is_missing {
                    let own = bought.added.product;
                    let own = Line { id: None, names: Vec::new(), own, quantity: line.quantity };
                    *product = self.product_of(source, &own).await?;
                }
            }
        }
        Ok(products)
    }

    /// The product of a line, or why there is none.
    async fn product_of(&self, source: &Source, line: &Line) -> Result<MayBeSold, Error> {
        let mut product = None;
        if let Some(names) = &self.inner.platforms.names {
            for name in line.names.iter().filter_map(|name| name.parse::<RefName>().ok()) {
                product = names.product_named(source, &name).await?;
                if product.is_some() {
                    break;
                }
            }
        }
        let Some(product) = product.or(line.own) else {
            let shown = |name: &String| redacted(name).chars().take(SHOWN).collect::<String>();
            let named = line.names.iter().map(shown).collect::<Vec<_>>().join(", ");
            let named = if named.is_empty() { "a line without a name".to_owned() } else { named };
            return Ok(Err(NotSold::Unknown(format!("no product has the reference {named}"))));
        };
        Ok(match self.inner.catalog.product(product).await? {
            Some(product) if product.is_archived() => {
                Err(NotSold::Archived(format!("product {} is archived", product.id())))
            }
            Some(product) => Ok(product),
            None => Err(NotSold::Unknown(format!("there is no product {product}"))),
        })
    }

    async fn address(&self, source: &Source, buyer: &Buyer) -> Result<Option<Email>, Error> {
        let customer = buyer.customer.as_ref().and_then(|customer| customer.parse::<OrderId>().ok());
        if let (Some(customer), Some(inbox)) = (customer, self.inner.ledger.inbox())
            && let Some(email) = inbox.customer(source, &customer).await?
        {
            return Ok(Some(email));
        }
        Ok(buyer.email.as_ref().and_then(|email| email.parse().ok()))
    }
}

/// The identity of a line within its order: the platform's, or its place.
fn identity(index: usize, line: &Line) -> String {
    line.id.clone().unwrap_or_else(|| format!("#{index}"))
}

/// The most specific name of a line.
fn specific(line: &Line) -> String {
    line.names.first().cloned().unwrap_or_default()
}

fn remembered(source: &Source, reference: &str, (email, added): (&str, &Added), told_at: DateTime<Utc>) -> Handling {
    match (reference.parse(), email.parse().ok().or_else(|| added.email.clone())) {
        (Ok(reference), Some(email)) => {
            Handling::Remember(Customer { source: source.clone(), reference, email, told_at })
        }
        (Err(_), _) => Handling::Wait(Unreadable.to_string()),
        (_, None) => Handling::Wait("it has no e-mail address that a key can be sent to".to_owned()),
    }
}

/// The identity of a charge.
fn named(bought: &Bought<'_>) -> Result<(OrderId, Links), Unreadable> {
    let mut links = links(bought.references)?;
    if let Some(subscription) = bought.renews {
        links.subscription = Some(parsed(subscription)?);
    }
    Ok((parsed(bought.order)?, links))
}

fn without_products(event: &Event) -> Result<Report, Unreadable> {
    Ok(match event {
        Event::Refunded(platform::Refund { of: concerned, extent, cause }) => {
            Report::Refunded { of: of(concerned)?, extent: extent_of(extent), cause: cause_of(*cause) }
        }
        Event::Disputed(dispute) => {
            Report::Disputed { of: of(&dispute.of)?, dispute: dispute.number.clone().unwrap_or_default() }
        }
        Event::Restored(dispute) => {
            let end = match &dispute.end {
                Some(end) => End::Any(end.clone()),
                None => End::Of(dispute.number.clone().unwrap_or_default()),
            };
            Report::Won { of: of(&dispute.of)?, end }
        }
        Event::Linked(references) => Report::Linked(links(references)?),
        Event::Paid(_) | Event::Renewed(_) | Event::Customer { .. } => return Err(Unreadable),
    })
}

fn extent_of(extent: &platform::Extent) -> Extent {
    match extent {
        platform::Extent::Full => Extent::Full,
        platform::Extent::Partial { refund } => Extent::Partial { refund: refund.clone() },
        platform::Extent::Lines { refund, lines } => {
            let returned = |line: &Line| {
                let (id, name, pieces) = (line.id.clone(), specific(line), line.quantity.into());
                (id.is_some() || !name.is_empty()).then_some(Returned { line: id, name, pieces })
            };
            Extent::Lines { refund: refund.clone(), lines: lines.iter().filter_map(returned).collect() }
        }
    }
}

fn cause_of(cause: platform::Cause) -> Cause {
    match cause {
        platform::Cause::Refund => Cause::Refund,
        platform::Cause::Cancellation => Cause::Cancellation,
    }
}

fn of(reference: &Reference) -> Result<Of, Unreadable> {
    Ok(match reference {
        Reference::Order(order) => Of::Order(parsed(order)?),
        Reference::Payment(payment) => Of::Payment(parsed(payment)?),
    })
}

fn links(references: &References) -> Result<Links, Unreadable> {
    let References { order, payment, invoice, subscription } = references;
    let read = |name: &Option<String>| name.as_deref().map(parsed).transpose();
    Ok(Links {
        order: read(order)?,
        payment: read(payment)?,
        invoice: read(invoice)?,
        subscription: read(subscription)?,
    })
}

fn parsed(name: &str) -> Result<OrderId, Unreadable> {
    name.parse().map_err(|_| Unreadable)
}

impl UseLimit {
    /// The limit of so many pieces, at most [`MAX_USES`](crate::terms::MAX_USES).
    fn times(self, pieces: u64) -> Self {
        let Self::Uses(uses) = self else { return self };
        let all = u64::from(uses.get()).saturating_mul(pieces.max(1)).min(crate::terms::MAX_USES.into());
        i64::try_from(all).ok().and_then(|all| Self::from_count(all).ok()).unwrap_or(self)
    }
}
