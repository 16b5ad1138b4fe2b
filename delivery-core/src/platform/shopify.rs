//! Shopify: <https://shopify.dev/docs/apps/build/webhooks>.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::json::{decimal, is_true, list, object, own_by_sku, quantity, reference, text, time};
use super::signature::{Keys, base64, header};
use super::{
    Buyer, ChargeRef, Event, Extent, Line, Links, Notification, Platform, Received, Recurrence, Refund, Request,
    Returned, Sale, Secrets, Standing, SubscriptionEvent, Term, Unauthentic, Unreadable,
};
use crate::order::{OrderId, Source};
use crate::terms::NEVER;

/// The notifications of one Shopify store or app.
#[derive(Debug, Clone)]
pub struct Shopify {
    keys: Keys,
}

impl Shopify {
    /// Accepts notifications that are signed with one of `secrets`. The text of a secret is the HMAC key.
    #[must_use]
    pub fn new(secrets: &Secrets) -> Self {
        Self { keys: secrets.as_text() }
    }
}

impl Platform for Shopify {
    fn name(&self) -> Source {
        Source::of("shopify")
    }

    fn read(&self, request: &Request<'_>) -> Result<Received, Unauthentic> {
        let field = |name| header(request.headers, name);
        let signature = base64(field("x-shopify-hmac-sha256")?);
        let (topic, id) = (field("x-shopify-topic")?, field("x-shopify-webhook-id")?);
        field("x-shopify-shop-domain")?;
        field("x-shopify-api-version")?;
        if request.body.is_empty() {
            return Err(Unauthentic);
        }
        self.keys.verify(&[request.body], signature)?;
        let is_sample = field("x-shopify-test").is_ok_and(|value| value == "true");
        let body = object(request.body);
        let is_test = body.as_ref().is_ok_and(|body| is_true(body, "/test"));
        let events = if is_sample { body.map(|_| Vec::new()) } else { body.and_then(|body| events(topic, &body)) };
        Ok(Received::Notification(Notification {
            id: format!("{topic} {id}"),
            kind: topic.to_owned(),
            is_test,
            events,
        }))
    }
}

/// Reads the events of a notification. The topic is not signed, so the body must confirm it.
fn events(topic: &str, body: &Value) -> Result<Vec<Event>, Unreadable> {
    let event = match topic {
        "orders/paid" if text(body, "/financial_status") == Some("paid") => sale(body)?.map(Event::Paid),
        "orders/cancelled" if text(body, "/cancelled_at").is_some() => {
            Some(Event::Refunded(Refund::cancelled(needed(body, "/id")?)))
        }
        "refunds/create" if is_refund(body) => Some(Event::Refunded(refund(body)?)),
        "subscription_billing_attempts/success" => attempt(body).map(Event::Linked),
        _ if topic.starts_with("subscription_contracts/") => contract(body).map(Event::Subscription),
        _ => None,
    };
    Ok(event.into_iter().collect())
}

fn is_refund(body: &Value) -> bool {
    let is_refund =
        body.pointer("/order_id").is_some() && body.pointer("/refund_line_items").is_some_and(Value::is_array);
    is_refund && !has_failed(body)
}

/// Returns whether every transaction of a refund failed, so that no money was refunded.
fn has_failed(refund: &Value) -> bool {
    let transactions = list(refund, "/transactions");
    let is_lost = |transaction: &Value| matches!(text(transaction, "/status"), Some("failure" | "error"));
    !transactions.is_empty() && transactions.iter().all(is_lost)
}

/// Reads an order. Returns `None` if none of its lines sells a product, for example because all pieces of all lines
/// were removed from the order.
fn sale(order: &Value) -> Result<Option<Sale>, Unreadable> {
    let addresses = ["/email", "/contact_email", "/customer/email"];
    let sale = Sale {
        at: time(order, "/processed_at").or_else(|| time(order, "/created_at")),
        // The current total does not include items that were removed from the order.
        total: decimal(order, "/current_total_price", "/currency")
            .or_else(|| decimal(order, "/total_price", "/currency")),
        lines: list(order, "/line_items").iter().filter_map(sold).collect(),
        early: list(order, "/refunds").iter().filter_map(|refund| number(refund, "/id")).collect(),
        buyer: Buyer::by_email(addresses.into_iter().find_map(|pointer| text(order, pointer))),
        ..Sale::new(needed(order, "/id")?)
    };
    Ok((!sale.lines.is_empty()).then_some(sale))
}

/// Reads what a line of an order sells. Pieces that were removed from the order do not count. Returns `None` if no
/// pieces are left. Also returns `None` for a line that names no product, such as a tip.
fn sold(item: &Value) -> Option<Line> {
    let ordered = quantity(item, "/quantity")?;
    let is_edited = item.pointer("/current_quantity").is_some_and(|left| !left.is_null());
    let left = if is_edited { quantity(item, "/current_quantity")? } else { ordered };
    let line = Line { quantity: ordered.min(left), amount: Some(ordered.into()), ..line(item) };
    (!line.names.is_empty()).then_some(line)
}

/// Reads a refund. If pieces of a line are removed from an order, Shopify reports a refund too, but without a
/// transaction, because no money is returned. Pieces that were removed before the payment were never sold. Each line
/// therefore has two numbers:
///
/// - `pieces` counts only the pieces for which money was returned. It is compared with the number of sold pieces.
/// - `amount` counts all refunded pieces, including removed ones. It is compared with the number of ordered pieces.
fn refund(refund: &Value) -> Result<Refund, Unreadable> {
    let of = ChargeRef::Order(needed(refund, "/order_id")?);
    let is_removal = refund.pointer("/transactions").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let lines =
        list(refund, "/refund_line_items").iter().filter_map(|item| returned(item, is_removal)).collect::<Vec<_>>();
    let refund = number(refund, "/id").ok_or(Unreadable)?;
    let extent = if lines.is_empty() { Extent::Partial { refund } } else { Extent::Lines { refund, lines } };
    Ok(Refund { extent, ..Refund::full(of) })
}

fn returned(item: &Value, is_removal: bool) -> Option<Returned> {
    let pieces = quantity(item, "/quantity")?;
    let shown = item.pointer("/line_item").map_or_else(|| Line::named([]), line);
    let (id, name) = (number(item, "/line_item_id").or(shown.id), shown.names.into_iter().next().unwrap_or_default());
    let pieces = u64::from(pieces);
    (id.is_some() || !name.is_empty()).then_some(Returned {
        line: id,
        name,
        pieces: if is_removal { 0 } else { pieces },
        amount: Some(pieces),
    })
}

/// Reads a line item as a line whose names are its SKU, variant and product. Ignores properties and attributes, which
/// the buyer fills.
fn line(item: &Value) -> Line {
    let sku = text(item, "/sku").map(str::to_owned);
    let [variant, product] = [("variant", "/variant_id"), ("product", "/product_id")]
        .map(|(kind, pointer)| number(item, pointer).map(|id| format!("{kind}:{id}")));
    Line { id: number(item, "/id"), own: own_by_sku(item, "/sku"), ..Line::named([sku, variant, product]) }
}

/// Reads a billing attempt, a later charge of a subscription contract. Links the contract to the order that the charge
/// created.
fn attempt(attempt: &Value) -> Option<Links> {
    let order = either(attempt, ["/order_id", "/admin_graphql_api_order_id"])?;
    let subscription = either(attempt, ["/subscription_contract_id", "/admin_graphql_api_subscription_contract_id"])?;
    Some(Links { order: Some(order), ..Links::of_subscription(Some(subscription)) })
}

/// Reads a subscription contract, which says how often it is charged, but not what was paid.
fn contract(contract: &Value) -> Option<SubscriptionEvent> {
    contract.pointer("/billing_policy")?;
    let subscription = either(contract, ["/id", "/admin_graphql_api_id"])?;
    let order = either(contract, ["/origin_order_id", "/admin_graphql_api_origin_order_id"]);
    let links = Links { order, ..Links::of_subscription(Some(subscription)) };
    let term = recurrence(contract).map_or(Term::Unsaid, Term::Every);
    Some(SubscriptionEvent::new(revised_at(contract), links, (Standing::Unsaid, term)))
}

/// Returns when a contract was last changed. If the contract contains no time, its revision number is taken as
/// microseconds since 1970, so that a newer revision has a later time. Revision numbers have at most about 12 digits,
/// so that time is in 1970, before any charge.
fn revised_at(contract: &Value) -> DateTime<Utc> {
    let revision = || DateTime::from_timestamp_micros(reference(contract, "/revision_id")?.parse().ok()?);
    let told = ["/updated_at", "/created_at"].into_iter().find_map(|pointer| time(contract, pointer));
    told.or_else(revision).unwrap_or(DateTime::UNIX_EPOCH).clamp(DateTime::UNIX_EPOCH, NEVER)
}

fn recurrence(contract: &Value) -> Option<Recurrence> {
    let count = quantity(contract, "/billing_policy/interval_count").filter(|count| *count > 0)?;
    Some(match text(contract, "/billing_policy/interval")?.to_ascii_lowercase().as_str() {
        "day" => Recurrence::Days(count),
        "week" => Recurrence::Days(count.checked_mul(7)?),
        "month" => Recurrence::Months(count),
        "year" => Recurrence::Months(count.checked_mul(12)?),
        _ => return None,
    })
}

fn either(value: &Value, pointers: [&str; 2]) -> Option<OrderId> {
    pointers.into_iter().find_map(|pointer| needed(value, pointer).ok())
}

fn needed(value: &Value, pointer: &str) -> Result<OrderId, Unreadable> {
    number(value, pointer).and_then(|number| number.parse().ok()).ok_or(Unreadable)
}

/// Returns the number of an object. GraphQL writes the number inside an id such as `gid://shopify/Order/123`.
fn number(value: &Value, pointer: &str) -> Option<String> {
    let id = reference(value, pointer)?;
    Some(id.strip_prefix("gid://").and_then(|path| path.rsplit('/').next()).map_or(id.clone(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Value {
        object(body.as_bytes()).unwrap()
    }

    #[test]
    fn what_was_removed_is_not_sold() {
        for (item, expected) in [
            (r#"{"sku":"A"}"#, Some((1, 1))),
            (r#"{"sku":"A","quantity":3,"current_quantity":null}"#, Some((3, 3))),
            (r#"{"sku":"A","quantity":3,"current_quantity":2}"#, Some((2, 3))),
            (r#"{"sku":"A","quantity":3,"current_quantity":4}"#, Some((3, 3))),
            (r#"{"sku":"A","quantity":3,"current_quantity":0}"#, None),
            (r#"{"sku":"A","quantity":0}"#, None),
            (r#"{"sku":"A","quantity":1.5,"current_quantity":1}"#, Some((0, 0))),
            (r#"{"sku":null,"variant_id":null,"product_id":null,"quantity":1}"#, None),
        ] {
            let sold = sold(&read(item)).map(|line| (line.quantity, line.amount.unwrap()));
            assert_eq!(sold, expected, "{item}");
        }
    }

    #[test]
    fn a_refund_without_money_may_be_of_what_was_removed() {
        for (transactions, expected) in [
            ("", Some((2, 2))),
            (r#","transactions":null"#, Some((2, 2))),
            (r#","transactions":[{"status":"success"}]"#, Some((2, 2))),
            (r#","transactions":[{"status":"failure"},{"status":"success"}]"#, Some((2, 2))),
            (r#","transactions":[{"status":"pending"}]"#, Some((2, 2))),
            (r#","transactions":[]"#, Some((0, 2))),
            (r#","transactions":[{"status":"failure"},{"status":"error"}]"#, None),
        ] {
            let body = format!(
                r#"{{"id":9,"order_id":1,"refund_line_items":[{{"line_item_id":11,"quantity":2}}]{transactions}}}"#
            );
            let returned = match &events("refunds/create", &read(&body)).unwrap()[..] {
                [Event::Refunded(Refund { extent: Extent::Lines { lines, .. }, .. })] => {
                    lines.first().map(|line| (line.pieces, line.amount.unwrap()))
                }
                _ => None,
            };
            assert_eq!(returned, expected, "{transactions}");
        }
    }

    #[test]
    fn ids_are_numbers_however_they_are_written() {
        for (id, expected) in [
            ("7103180001", Some("7103180001")),
            ("\"7103180001\"", Some("7103180001")),
            ("\"gid://shopify/SubscriptionContract/7103180001\"", Some("7103180001")),
            ("null", None),
        ] {
            assert_eq!(number(&read(&format!(r#"{{"id":{id}}}"#)), "/id").as_deref(), expected, "{id}");
        }
    }

    #[test]
    fn a_contract_tells_its_interval() {
        for (policy, expected) in [
            (r#"{"interval":"month","interval_count":1}"#, Some(Recurrence::Months(1))),
            (r#"{"interval":"WEEK","interval_count":3}"#, Some(Recurrence::Days(21))),
            (r#"{"interval":"year"}"#, Some(Recurrence::Months(12))),
            (r#"{"interval":"day","interval_count":"10"}"#, Some(Recurrence::Days(10))),
            (r#"{"interval":"day","interval_count":0}"#, None),
            (r#"{"interval":"moon","interval_count":1}"#, None),
        ] {
            let word = contract(&read(&format!(r#"{{"id":1,"revision_id":"2","billing_policy":{policy}}}"#))).unwrap();
            assert_eq!(word.term, expected.map_or(Term::Unsaid, Term::Every), "{policy}");
        }
        // If a contract contains no time, its revision number serves as its time. A newer revision then has a later
        // time, and all of these times are before any real charge.
        let at = |revision: &str| revised_at(&read(&format!(r#"{{"revision_id":"{revision}"}}"#)));
        assert!(at("1") < at("2") && at("2") < at("4343744208") && at("4343744208") < at("376707318057"));
        assert!(at("376707318057") < DateTime::from_timestamp(1_600_000_000, 0).unwrap());
    }
}
