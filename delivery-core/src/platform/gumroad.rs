//! Gumroad: <https://gumroad.com/ping>.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::json::{instant, object, pieces};
use super::signature::digest;
use super::{
    Amount, Buyer, ChargeRef, Event, Line, Links, Notification, Platform, Received, Recurrence, Refund, Request, Sale,
    Secrets, Standing, SubscriptionEvent, Term, Unauthentic, Unreadable, form,
};
use crate::order::{OrderId, Source};
use crate::secret::MIN_SECRET;
use crate::text::Invalid;

/// The fields whose values together identify a notification about a sale.
const SALE: [&str; 4] = ["resource_name", "sale_id", "refunded", "test"];
/// The fields whose values together identify a notification about a subscription. Such a notification names no sale.
const SUBSCRIPTION: [&str; 4] = ["resource_name", "subscription_id", "ended_at", "restarted_at"];
/// The fields that decide whether a notification reports a sale, and whether the sale is a charge of a subscription.
const DECISIVE: [&str; 4] = ["test", "refunded", "is_preorder_authorization", "subscription_id"];

/// Gumroad's notifications, called pings. Gumroad does not sign them, so the address to which it sends them contains a
/// token.
#[derive(Debug, Clone)]
pub struct Gumroad {
    tokens: Vec<[u8; 32]>,
    seller: Option<String>,
}

impl Gumroad {
    /// Accepts pings whose address has one of `tokens` as the query parameter `token`. Tokens should be random. White
    /// space at the ends of a token is ignored.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a token has fewer than 16 characters.
    pub fn new(tokens: &Secrets) -> Result<Self, Invalid> {
        if tokens.iter().any(|token| token.trim().chars().count() < MIN_SECRET) {
            return Err(Invalid::expected("must be at least 16 characters"));
        }
        Ok(Self { tokens: tokens.iter().map(|token| Sha256::digest(token.trim()).into()).collect(), seller: None })
    }

    /// Rejects pings whose `seller_id` is not `seller`. A ping without a `seller_id` is still accepted.
    #[must_use]
    pub fn seller(self, seller: impl Into<String>) -> Self {
        Self { seller: Some(seller.into()), ..self }
    }
}

impl Platform for Gumroad {
    fn name(&self) -> Source {
        Source::of("gumroad")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let mut tokens = form::values(request.query, "token");
        let token = tokens.next().filter(|_| tokens.next().is_none()).ok_or(Unauthentic)?.map_err(|_| Unauthentic)?;
        // All digests have the same length, so comparing them takes the same time for every token.
        let presented: [u8; 32] = Sha256::digest(token).into();
        let known = self.tokens.iter().fold(Choice::from(0), |known, token| known | token.ct_eq(&presented));
        if !bool::from(known) {
            return Err(Unauthentic);
        }
        let mut fields = fields(request.body);
        if let (Some(seller), Ok(read)) = (&self.seller, &fields) {
            match read.text("seller_id") {
                Ok(Some(named)) if named != seller => return Err(Unauthentic),
                Ok(_) => {}
                // The value may be a buyer's answer to a custom field named `seller_id`, so it does not show whose sale
                // this is. The ping is accepted, but its events are not read.
                Err(Unreadable) => fields = Err(Unreadable),
            }
        }
        Ok(Received::Notification(notification(request.body, fields)))
    }
}

/// The fields of a ping. A buyer's answer to a custom field arrives as a field that has the question as its name. If
/// one of Gumroad's own fields has the same name, the answer replaces Gumroad's value. The answer also arrives as a
/// field `custom_fields[NAME]`. If the ping has such a field, the field `NAME` may therefore contain a buyer's answer.
struct Fields(HashMap<String, Vec<String>>);

impl Fields {
    /// Returns the value of one of Gumroad's own fields; `None` if the field is missing or empty.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if the value may be a buyer's answer to a custom field, or if the field has several values.
    fn text(&self, name: &str) -> Result<Option<&str>, Unreadable> {
        if self.0.contains_key(&format!("custom_fields[{name}]")) {
            return Err(Unreadable);
        }
        match self.0.get(name).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([value]) => Ok(Some(value.as_str()).filter(|value| !value.is_empty())),
            Some(_) => Err(Unreadable),
        }
    }

    /// Returns the same as [`text`](Self::text), but `None` for a field that cannot be read.
    fn own(&self, name: &str) -> Option<&str> {
        self.text(name).ok().flatten()
    }

    fn is_true(&self, name: &str) -> bool {
        self.own(name) == Some("true")
    }

    /// Returns the reference in a field that must be present.
    fn needed(&self, name: &str) -> Result<OrderId, Unreadable> {
        self.text(name)?.and_then(|text| text.parse().ok()).ok_or(Unreadable)
    }
}

fn fields(body: &[u8]) -> Result<Fields, Unreadable> {
    if body.trim_ascii_start().first() == Some(&b'{') {
        from_json(&object(body)?)
    } else {
        form::fields(body).map(Fields)
    }
}

/// Reads the fields of a ping from JSON. They get the names that they have in a form.
fn from_json(body: &Value) -> Result<Fields, Unreadable> {
    fn add(fields: &mut HashMap<String, Vec<String>>, name: String, value: &Value) {
        let text = match value {
            Value::Object(inner) => {
                return inner.iter().for_each(|(key, value)| add(fields, format!("{name}[{key}]"), value));
            }
            Value::Array(items) => return items.iter().for_each(|item| add(fields, format!("{name}[]"), item)),
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        };
        fields.entry(name).or_default().extend(text);
    }
    let mut fields = HashMap::new();
    for (name, value) in body.as_object().ok_or(Unreadable)? {
        add(&mut fields, name.clone(), value);
    }
    Ok(Fields(fields))
}

fn notification(body: &[u8], fields: Result<Fields, Unreadable>) -> Notification {
    let Ok(fields) = fields else {
        return Notification { id: digest("", body), kind: String::new(), is_test: false, events: Err(Unreadable) };
    };
    Notification {
        id: identity(&fields).unwrap_or_else(|| digest("", body)),
        kind: fields.own("resource_name").unwrap_or_default().to_owned(),
        is_test: fields.is_true("test"),
        events: events(&fields),
    }
}

fn identity(fields: &Fields) -> Option<String> {
    let names = match fields.text("sale_id") {
        Ok(Some(_)) => SALE,
        Ok(None) if fields.own("subscription_id").is_some() => SUBSCRIPTION,
        _ => return None,
    };
    Some(names.map(|name| fields.own(name).unwrap_or_default()).join(" "))
}

fn events(fields: &Fields) -> Result<Vec<Event>, Unreadable> {
    let sale = || fields.needed("sale_id").map(ChargeRef::Order);
    let event = match fields.text("resource_name")?.unwrap_or("sale") {
        "sale" if fields.is_true("is_preorder_authorization") => None,
        "sale" if fields.is_true("refunded") => Some(Event::Refunded(Refund::full(sale()?))),
        "sale" => sold(fields.needed("sale_id")?, fields)?,
        "refund" => Some(Event::Refunded(Refund::of(sale()?, fields.text("refunded")? == Some("true"), None))),
        "dispute" => Some(Event::Disputed(sale()?.into())),
        "dispute_won" => Some(Event::Won(sale()?.into())),
        "subscription_ended" => Some(subscription_event(fields, "ended_at", |at| (Standing::Ended, Term::Until(at)))?),
        "subscription_restarted" => {
            Some(subscription_event(fields, "restarted_at", |_| (Standing::Active, Term::Unsaid))?)
        }
        // This includes a cancellation, which only announces the end of a subscription.
        _ => None,
    };
    Ok(event.into_iter().collect())
}

/// Reads a sale or a charge of a subscription. Returns `None` if the field `quantity` is 0.
///
/// If a buyer may have filled a decisive field, the line gets the quantity 0, which means that the seller must decide
/// about the sale. These fields are `quantity`, those in [`DECISIVE`] and, for a subscription, `recurrence`.
fn sold(order: OrderId, fields: &Fields) -> Result<Option<Event>, Unreadable> {
    let subscription = fields.own("subscription_id").map(str::parse).transpose().map_err(|_| Unreadable)?;
    let every = subscription.as_ref().map_or(Ok(None), |_| fields.text("recurrence"));
    let is_clear = every.is_ok() && DECISIVE.iter().all(|name| fields.text(name).is_ok());
    let quantity = match fields.text("quantity") {
        Ok(quantity) if is_clear => quantity.map_or(Some(1), pieces),
        _ => Some(0),
    };
    let Some(quantity) = quantity else { return Ok(None) };
    let term = every.ok().flatten().and_then(recurrence).map_or(Term::Unsaid, Term::Every);
    let names = ["short_product_id", "permalink", "product_id"].map(|name| fields.own(name).map(str::to_owned));
    let line = Line { quantity, term, ..Line::named(names) };
    Ok(Some(Event::Paid(Sale {
        at: fields.own("sale_timestamp").and_then(instant),
        total: total(fields),
        lines: vec![line],
        buyer: Buyer::by_email(fields.own("email")),
        links: Links::of_subscription(subscription),
        ..Sale::new(order)
    })))
}

/// Reads the amount that was paid. `price` is always in US cents. `currency` is ignored, because it is only the
/// currency in which the product is priced (<https://gumroad.com/ping>).
fn total(fields: &Fields) -> Option<Amount> {
    Amount::new(fields.own("price")?.parse().ok()?, "USD".parse().ok()?)
}

fn recurrence(name: &str) -> Option<Recurrence> {
    let months = match name {
        "monthly" => 1,
        "quarterly" => 3,
        "biannually" => 6,
        "yearly" => 12,
        "every_two_years" => 24,
        _ => return None,
    };
    Some(Recurrence::Months(months))
}

/// Reads a ping about a subscription itself, rather than about a charge. `time` is the name of the field that contains
/// the time of the event.
fn subscription_event(
    fields: &Fields,
    time: &str,
    standing: impl FnOnce(DateTime<Utc>) -> (Standing, Term),
) -> Result<Event, Unreadable> {
    let subscription = Some(fields.needed("subscription_id")?);
    let at = fields.text(time)?.and_then(instant).ok_or(Unreadable)?;
    Ok(Event::Subscription(SubscriptionEvent::new(at, Links::of_subscription(subscription), standing(at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_token_is_ignored() {
        let gumroad = Gumroad::new(&Secrets::new(["  a token of sixteen  "]).unwrap()).unwrap();
        let (headers, body, now) = (http::HeaderMap::new(), b"resource_name=sale", chrono::DateTime::UNIX_EPOCH);
        let is_read = |query| gumroad.read(&Request { headers: &headers, query, body, now }).is_ok();
        assert!(is_read("token=a+token%20of%20sixteen"));
        assert!(!is_read("token=%20%20a%20token%20of%20sixteen%20%20"));
    }
}
