//! Prepares the keys that may be issued for an order: finds the product of each line of the order, and the buyer's
//! address.

use std::collections::BTreeMap;
#[cfg(feature = "pages")]
use std::collections::BTreeSet;
use std::sync::Arc;

use super::content::Added;
#[cfg(feature = "pages")]
use super::content::EventContent;
use crate::delivery::{Delivery, Error};
use crate::email::Email;
use crate::key::NewKey;
#[cfg(feature = "pages")]
use crate::ledger::InboxEvent;
use crate::ledger::{Bought, Deal, MOST_PRODUCTS, NO_ADDRESS, Offer, Own, ReferenceKind, UNKNOWN_PRODUCT};
use crate::order::{OrderId, OrderRef, Source};
use crate::platform::{Buyer, Line};
use crate::product::{Product, ProductId, RefName};
use crate::redact::redacted;
use crate::terms::{Terms, Validity};

/// The maximum number of lines of an order. More would be too expensive, because each line may cost a query.
const MOST_LINES: usize = 500;
/// The page of an event shows which products of the event are unknown or archived. It looks up at most this many lines
/// of the event.
#[cfg(feature = "pages")]
const UNLINKED: usize = 20;
/// The maximum number of characters that the seller sees of a platform's name for a product.
const SHOWN: usize = 80;

/// What was bought, according to an event of a platform. The event is a charge, or a statement about a subscription,
/// for example that it has ended. Statements are needed because the charges of some subscriptions name no product.
pub(super) struct Buying<'e> {
    pub(super) lines: &'e [Line],
    pub(super) buyer: &'e Buyer,
    pub(super) order: Option<&'e OrderId>,
    pub(super) subscription: Option<&'e OrderId>,
    pub(super) is_statement: bool,
    pub(super) added: &'e Added,
}

/// The lines that were bought, the keys that may be issued for them, and what is missing to issue them.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) lines: Vec<Bought>,
    pub(super) offers: Vec<Offer>,
    pub(super) missing: Option<String>,
}

/// The product of a line, or the reason why no product can be sold for the line.
type MayBeSold = Result<Arc<Product>, NotSold>;

enum NotSold {
    Unknown(String),
    Archived(ProductId),
    /// The seller has dismissed one of the names that the platform has for the product.
    Dismissed,
    /// A required field of the line cannot be read, for example because the number of pieces is a fraction.
    Illegible,
}

/// The products of an event for which no key can be issued. The set contains the platform's names for unknown products.
/// The map contains the archived products, each with the platform's names for it.
#[cfg(feature = "pages")]
pub(crate) type Unsold = (BTreeSet<RefName>, BTreeMap<ProductId, BTreeSet<RefName>>);

impl Delivery {
    /// Prepares the keys that may be issued for what was bought. If something is missing, such as the product of a
    /// line, `missing` contains the reason. Returns `None` if the seller has dismissed the products of all lines,
    /// except for a subscription that [goes on](Self::goes_on) nevertheless.
    pub(super) async fn offers(&self, source: &Source, buying: &Buying<'_>) -> Result<Option<Offered>, Error> {
        let mut offered = Offered::default();
        if buying.lines.len() > MOST_LINES {
            offered.missing = Some(format!("it has more than {MOST_LINES} lines"));
            return Ok(Some(offered));
        }
        offered.missing = buying.lines.is_empty().then(|| "it names no product".to_owned());
        let products = self.products_of(source, buying).await?;
        let is_dismissed = |product: &MayBeSold| matches!(product, Err(NotSold::Dismissed));
        let all_dismissed = !products.is_empty() && products.iter().all(|(_, product)| is_dismissed(product));
        let goes_on = all_dismissed && self.goes_on(source, buying).await?;
        if all_dismissed && !goes_on {
            return Ok(None);
        }
        let mut found = BTreeMap::<ProductId, (Arc<Product>, u64)>::new();
        for (index, (line, product)) in products.into_iter().enumerate() {
            if is_dismissed(&product) && !goes_on {
                continue;
            }
            let pieces = line.quantity.max(1).into();
            let mut bought = bought(index, line, pieces);
            match product {
                Ok(product) => {
                    (bought.product, bought.own) = (Some(product.id()), Some(self.own(&product)));
                    found.entry(product.id()).or_insert((product, 0)).1 += pieces;
                }
                Err(reason) => drop(offered.missing.get_or_insert(reason.into())),
            }
            offered.lines.push(bought);
        }
        if found.len() > MOST_PRODUCTS {
            offered.lines.iter_mut().for_each(|line| line.product = None);
            offered.missing = Some(format!("it has more than {MOST_PRODUCTS} products"));
            return Ok(Some(offered));
        }
        if found.is_empty() {
            found = self.subscribed(source, buying).await?;
        }
        let Some(order) = buying.order else { return Ok(Some(offered)) };
        let Some(email) = self.address(source, buying.buyer).await?.or_else(|| buying.added.email.clone()) else {
            offered.missing = Some(NO_ADDRESS.to_owned());
            return Ok(Some(offered));
        };
        let order = OrderRef { source: source.clone(), id: order.clone() };
        let offers = found.into_values().map(|(product, pieces)| self.offer(&product, pieces, &email, &order));
        offered.offers = offers.collect::<Result<_, _>>()?;
        Ok(Some(offered))
    }

    /// Returns the products of the subscription to which a charge belongs. This is needed if the charge itself names no
    /// product that is sold here.
    async fn subscribed(
        &self,
        source: &Source,
        buying: &Buying<'_>,
    ) -> Result<BTreeMap<ProductId, (Arc<Product>, u64)>, Error> {
        match self.deal_of_subscription(source, buying).await? {
            Some(deal) => Ok(self.sold(&deal).await?.0),
            None => Ok(BTreeMap::new()),
        }
    }

    /// Returns whether an event must be applied although all its lines are dismissed, because it continues a
    /// subscription that was sold before. This is so if one of its lines was sold before under this subscription. It is
    /// also so for a statement about a subscription that has a key, because the statement may say that the subscription
    /// ended.
    async fn goes_on(&self, source: &Source, buying: &Buying<'_>) -> Result<bool, Error> {
        let mut names = buying.lines.iter().filter_map(|line| line.names.first());
        let deal = self.deal_of_subscription(source, buying).await?;
        Ok(deal.is_some_and(|deal| {
            let has_sold = names.any(|name| deal.sold_as(name).is_some());
            has_sold || buying.is_statement && deal.keys().next().is_some()
        }))
    }

    async fn deal_of_subscription(&self, source: &Source, buying: &Buying<'_>) -> Result<Option<Deal>, Error> {
        let (Some(subscription), Some(inbox)) = (buying.subscription, self.inner.ledger.office()) else {
            return Ok(None);
        };
        Ok(inbox.deal(source, ReferenceKind::Subscription, subscription).await?)
    }

    /// Returns the products of one sale or subscription, with one piece of each. Leaves out the products that are no
    /// longer sold. If one of these is archived, also returns a sentence that says so.
    pub(super) async fn sold(
        &self,
        deal: &Deal,
    ) -> Result<(BTreeMap<ProductId, (Arc<Product>, u64)>, Option<String>), Error> {
        let (mut found, mut archived) = (BTreeMap::new(), None);
        for id in deal.products().into_iter().take(MOST_PRODUCTS) {
            match self.inner.catalog.product(id).await? {
                Some(product) if product.is_archived() => archived = Some(NotSold::Archived(id).into()),
                Some(product) => drop(found.insert(id, (product, 1))),
                None => {}
            }
        }
        Ok((found, archived))
    }

    /// Returns how long a product's keys are valid if no event reports a paid period.
    fn own(&self, product: &Product) -> Own {
        match (product.terms().validity, self.inner.terms.validity) {
            (Some(Validity::Never), _) => Own::Never,
            (Some(Validity::Days(days)), _) | (None, Validity::Days(days)) => Own::Days(days.get()),
            (None, Validity::Never) => Own::Unlimited,
        }
    }

    pub(super) fn offer(
        &self,
        product: &Product,
        pieces: u64,
        email: &Email,
        order: &OrderRef,
    ) -> Result<Offer, Error> {
        let inner = &self.inner;
        let Terms { validity, limit } = product.terms().unwrap_or(inner.terms);
        let terms = Terms { validity, limit: limit.times(pieces) };
        let identity = (self.new_key_id(), inner.keyring.newest());
        let key = NewKey::on_terms(identity, product.id(), email.clone(), terms, inner.clock.now());
        let sale = self.new_sale(key.bought_with(order.clone()), true)?;
        Ok(Offer { product: product.id(), pieces, sale })
    }

    /// Returns each line with its product. If the seller has added a product to the event, the added product is used
    /// for every line whose product is unknown or cannot be read. Only if there is no such line, it is used for every
    /// line whose product is archived. Such a line comes second, because its key may have been issued before the
    /// product was archived.
    async fn products_of<'b>(&self, source: &Source, bought: &Buying<'b>) -> Result<Vec<(&'b Line, MayBeSold)>, Error> {
        let mut products = Vec::with_capacity(bought.lines.len());
        for line in bought.lines {
            products.push((line, self.product_of(source, line).await?));
        }
        if bought.added.product.is_some() {
            let is_any_unknown =
                products.iter().any(|(_, product)| matches!(product, Err(NotSold::Unknown(_) | NotSold::Illegible)));
            for (_, product) in &mut products {
                let is_missing = match product {
                    Ok(_) | Err(NotSold::Dismissed) => false,
                    Err(NotSold::Unknown(_) | NotSold::Illegible) => true,
                    Err(NotSold::Archived(_)) => !is_any_unknown,
                };
                if is_missing {
                    let own = bought.added.product;
                    let own = Line { own, ..Line::named([]) };
                    *product = self.product_of(source, &own).await?;
                }
            }
        }
        Ok(products)
    }

    /// Returns the product of a line, or the reason why it has none. If the seller has dismissed one of the line's
    /// names, the result is [`NotSold::Dismissed`] instead of an unknown or archived product.
    async fn product_of(&self, source: &Source, line: &Line) -> Result<MayBeSold, Error> {
        let found = self.product_named(source, line).await?;
        let is_foreign = matches!(found, Err(NotSold::Unknown(_) | NotSold::Archived(_)));
        if let Some(inbox) = self.inner.ledger.office().filter(|_| is_foreign) {
            for name in line.names.iter().filter_map(|name| name.parse::<RefName>().ok()) {
                if inbox.is_dismissed(source, &name).await? {
                    return Ok(Err(NotSold::Dismissed));
                }
            }
        }
        Ok(found)
    }

    /// Returns the product that a line names, or why there is none. Does not check whether the seller has dismissed the
    /// name.
    async fn product_named(&self, source: &Source, line: &Line) -> Result<MayBeSold, Error> {
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
            return Ok(Err(NotSold::Unknown(format!("{UNKNOWN_PRODUCT}{named}"))));
        };
        Ok(match self.inner.catalog.product(product).await? {
            Some(product) if product.is_archived() => Err(NotSold::Archived(product.id())),
            Some(_) if line.quantity == 0 => Err(NotSold::Illegible),
            Some(product) => Ok(product),
            None => Err(NotSold::Unknown(format!("there is no product {product}"))),
        })
    }

    /// Looks up the first lines of an event. Returns the platform's names for unknown products, and the archived
    /// products, each with the platform's names for it.
    #[cfg(feature = "pages")]
    pub(crate) async fn unsold(&self, event: &InboxEvent) -> Result<Unsold, Error> {
        let content = event.body.as_deref().and_then(|body| serde_json::from_str::<EventContent>(body).ok());
        let (mut unlinked, mut archived) = Unsold::default();
        for line in content.iter().flat_map(EventContent::lines).take(UNLINKED) {
            let names = line.names.iter().filter_map(|name| name.parse::<RefName>().ok());
            match self.product_named(&event.id.source, line).await? {
                Err(NotSold::Unknown(_)) => unlinked.extend(names),
                Err(NotSold::Archived(product)) => archived.entry(product).or_default().extend(names),
                _ => {}
            }
        }
        Ok((unlinked, archived))
    }

    pub(super) async fn address(&self, source: &Source, buyer: &Buyer) -> Result<Option<Email>, Error> {
        if let (Some(customer), Some(inbox)) = (&buyer.customer, self.inner.ledger.office())
            && let Some(email) = inbox.customer(source, customer).await?
        {
            return Ok(Some(email));
        }
        Ok(buyer.email.as_ref().and_then(|email| email.parse().ok()))
    }
}

impl From<NotSold> for String {
    fn from(why: NotSold) -> Self {
        match why {
            NotSold::Unknown(reason) => reason,
            NotSold::Archived(product) => format!("product {product} is archived"),
            NotSold::Dismissed => "it was dismissed".to_owned(),
            NotSold::Illegible => {
                "the number of pieces, or a field that decides what was bought, cannot be read".to_owned()
            }
        }
    }
}

/// Converts a line to the form in which the ledger keeps it. The line is identified by the platform's id of it. If it
/// has no id, it is identified by its position in the order.
fn bought(index: usize, line: &Line, pieces: u64) -> Bought {
    let number = line.id.clone().unwrap_or_else(|| format!("#{index}"));
    Bought { names: line.names.clone(), amount: line.amount, term: line.term, ..Bought::new(number, pieces) }
}
