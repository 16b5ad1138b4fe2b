//! Gumroad: <https://gumroad.com/ping>.

use std::collections::HashMap;

use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::json::{object, pieces};
use super::{
    Buyer, Event, Line, Notification, Platform, Received, Reference, References, Refund, Renewal, Request, Sale,
    Secrets, Unauthentic, Unreadable, form,
};
use crate::order::Source;
use crate::secret::MIN_SECRET;
use crate::text::Invalid;

/// Gumroad's pings, which nobody signs: the address that it calls has a token.
#[derive(Debug, Clone)]
pub struct Gumroad {
    tokens: Vec<[u8; 32]>,
    seller: Option<String>,
}

impl Gumroad {
    /// Takes pings to addresses with `?token=` and one of `tokens`, which should be random.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if one has fewer than 16 characters.
    pub fn new(tokens: &Secrets) -> Result<Self, Invalid> {
        if tokens.iter().any(|token| token.chars().count() < MIN_SECRET) {
            return Err(Invalid::expected("must be at least 16 characters"));
        }
        Ok(Self { tokens: tokens.iter().map(|token| Sha256::digest(token).into()).collect(), seller: None })
    }

    /// Takes the pings of this seller alone: `seller_id`.
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
        // Digests take the same time to compare, whatever is presented.
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
                // A buyer may have filled it.
                Err(Unreadable) => fields = Err(Unreadable),
            }
        }
        Ok(Received::Notification(notification(request.body, fields)))
    }
}

/// Names and values. What a buyer was asked for, and has answered, stands beside Gumroad's own fields under the name of the
/// question, and takes the place of a field that is called the same: `custom_fields[NAME]` tells which.
struct Fields(HashMap<String, String>);

impl Fields {
    /// The value of one of Gumroad's own fields, which is not empty.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] if it may be the buyer's.
    fn text(&self, name: &str) -> Result<Option<&str>, Unreadable> {
        if self.0.contains_key(&format!("custom_fields[{name}]")) {
            return Err(Unreadable);
        }
        Ok(self.0.get(name).map(String::as_str).filter(|value| !value.is_empty()))
    }

    fn is_true(&self, name: &str) -> Result<bool, Unreadable> {
        Ok(self.text(name)? == Some("true"))
    }
}

fn fields(body: &[u8]) -> Result<Fields, Unreadable> {
    if body.trim_ascii_start().first() == Some(&b'{') {
        from_json(&object(body)?)
    } else {
        form::fields(body).map(Fields)
    }
}

/// The same names in JSON.
fn from_json(body: &Value) -> Result<Fields, Unreadable> {
    fn add(fields: &mut HashMap<String, String>, name: String, value: &Value) {
        match value {
            Value::Object(inner) => inner.iter().for_each(|(key, value)| add(fields, format!("{name}[{key}]"), value)),
            Value::String(text) => drop(fields.insert(name, text.clone())),
            Value::Bool(_) | Value::Number(_) => drop(fields.insert(name, value.to_string())),
            Value::Null | Value::Array(_) => {}
        }
    }
    let mut fields = HashMap::new();
    for (name, value) in body.as_object().ok_or(Unreadable)? {
        add(&mut fields, name.clone(), value);
    }
    Ok(Fields(fields))
}

fn notification(body: &[u8], fields: Result<Fields, Unreadable>) -> Notification {
    let identity = |fields: &Fields| {
        let names = ["resource_name", "sale_id", "refunded", "test"];
        let parts = names.map(|name| fields.text(name).ok().flatten().unwrap_or_default().to_owned());
        parts.join(" ")
    };
    match fields {
        Ok(fields) if fields.text("sale_id").is_ok_and(|sale| sale.is_some()) => Notification {
            id: identity(&fields),
            kind: fields.text("resource_name").ok().flatten().unwrap_or_default().to_owned(),
            is_test: fields.0.get("test").is_some_and(|test| test == "true"),
            events: events(&fields),
        },
        _ => Notification {
            id: super::signature::digest("", body),
            kind: String::new(),
            is_test: false,
            events: Err(Unreadable),
        },
    }
}

fn events(fields: &Fields) -> Result<Vec<Event>, Unreadable> {
    let sale = fields.text("sale_id")?.ok_or(Unreadable)?.to_owned();
    // A purchase that may be a test is none that is paid.
    fields.text("test")?;
    let is_refunded = fields.is_true("refunded")?;
    let of = Reference::Order(sale.clone());
    let event = match fields.text("resource_name")?.unwrap_or("sale") {
        "sale" if fields.is_true("is_preorder_authorization")? => None,
        "sale" if is_refunded => Some(Event::Refunded(Refund::full(of))),
        "sale" => Some(sold(sale, fields)?),
        "refund" => Some(Event::Refunded(Refund::of(of, is_refunded, None))),
        "dispute" => Some(Event::Disputed(of.into())),
        "dispute_won" => Some(Event::Restored(of.into())),
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn sold(sale: String, fields: &Fields) -> Result<Event, Unreadable> {
    // A name that may be the buyer's is left out.
    let own = |name| fields.text(name).ok().flatten().map(str::to_owned);
    let names = ["short_product_id", "permalink", "product_id"].map(own).into_iter().flatten().collect();
    let quantity = fields.text("quantity")?.map_or(Ok(1), pieces)?;
    let lines = vec![Line { id: None, names, own: None, quantity }];
    let buyer = Buyer { email: own("email"), customer: None };
    let subscription = fields.text("subscription_id")?.map(str::to_owned);
    let references = References { subscription: subscription.clone(), ..References::default() };
    if fields.is_true("is_recurring_charge")? {
        let subscription = subscription.ok_or(Unreadable)?;
        return Ok(Event::Renewed(Renewal { charge: sale, subscription, lines, buyer, references }));
    }
    Ok(Event::Paid(Sale { order: sale, lines, buyer, references }))
}
