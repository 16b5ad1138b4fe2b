//! What the vectors do not show: renewals, disputes, cancellations, as the platforms document them.

use delivery_core::platform::{Cause, Dispute, Event, Extent, Reference, References, Refund};
use serde_json::{Value, json};

use super::hostile::read;
use super::shop::order;

fn events(name: &str, topic: &str, body: &Value) -> Vec<Event> {
    read(name, topic, body.to_string().as_bytes()).events.unwrap()
}

fn stripe(kind: &str, object: &Value) -> Vec<Event> {
    let event =
        json!({ "id": "evt_1", "object": "event", "livemode": true, "type": kind, "data": { "object": object } });
    events("stripe", "", &event)
}

fn payment(number: &str) -> Reference {
    Reference::Payment(number.to_owned())
}

#[test]
fn stripe_renews_by_invoices_and_takes_back_by_payments() {
    let cycle = |mut invoice: Value| {
        invoice["object"] = "invoice".into();
        invoice["id"] = "in_2".into();
        invoice["customer_email"] = "a@example.com".into();
        stripe("invoice.paid", &invoice)
    };
    for invoice in [
        json!({ "billing_reason": "subscription_cycle", "subscription": "sub_1" }),
        json!({ "billing_reason": "subscription_cycle", "parent": { "subscription_details": { "subscription": "sub_1", "metadata": { "product_id": "7" } } }, "lines": { "data": [{}] } }),
    ] {
        let [Event::Renewed(renewal)] = &cycle(invoice)[..] else { panic!("a renewal") };
        assert_eq!((renewal.charge.as_str(), renewal.subscription.as_str()), ("in_2", "sub_1"));
        assert_eq!(renewal.buyer.email.as_deref(), Some("a@example.com"));
        assert_eq!(renewal.references.invoice.as_deref(), Some("in_2"));
        assert!(renewal.lines.iter().all(|line| line.own.is_some()));
    }
    // The first invoice is the sale, which its session tells of.
    assert_eq!(cycle(json!({ "billing_reason": "subscription_create", "subscription": "sub_1" })), []);
    let linked = json!({ "object": "invoice_payment", "invoice": "in_1", "payment": { "type": "payment_intent", "payment_intent": "pi_1" } });
    let references = References { payment: Some("pi_1".into()), invoice: Some("in_1".into()), ..References::default() };
    assert_eq!(stripe("invoice_payment.paid", &linked), [Event::Linked(references)]);
    let dispute = |status: &str| json!({ "object": "dispute", "status": status, "payment_intent": "pi_1" });
    for (kind, status, expected) in [
        ("charge.dispute.created", "needs_response", vec![Event::Disputed(payment("pi_1").into())]),
        ("charge.dispute.closed", "won", vec![Event::Restored(payment("pi_1").into())]),
        ("charge.dispute.closed", "lost", vec![]),
        ("charge.dispute.updated", "won", vec![]),
    ] {
        assert_eq!(stripe(kind, &dispute(status)), expected, "{kind} {status}");
    }
    // The type only selects: the object must be what it says.
    assert_eq!(stripe("charge.dispute.created", &json!({ "object": "charge", "payment_intent": "pi_1" })), []);
    let thin =
        json!({ "id": "evt_1", "object": "v2.core.event", "type": "checkout.session.completed", "livemode": true });
    assert_eq!(events("stripe", "", &thin), []);
    let session =
        json!({ "object": "checkout.session", "id": "cs_1", "mode": "setup", "payment_status": "no_payment_required" });
    assert_eq!(stripe("checkout.session.completed", &session), []);
}

#[test]
fn shopify_cancels_what_was_cancelled_and_counts_pieces() {
    let cancelled = json!({ "id": 1, "cancelled_at": "2026-01-03T03:00:00-05:00" });
    let refund = Refund { of: order("1"), extent: Extent::Full, cause: Cause::Cancellation };
    assert_eq!(events("shopify", "orders/cancelled", &cancelled), [Event::Refunded(refund)]);
    // The topic is not signed: it switches an event off, and never on.
    assert_eq!(events("shopify", "orders/cancelled", &json!({ "id": 1, "cancelled_at": null })), []);
    assert_eq!(events("shopify", "orders/paid", &json!({ "id": 1, "financial_status": "pending" })), []);
    let transaction = json!({ "id": 9, "order_id": 3, "kind": "sale", "status": "success" });
    assert_eq!(events("shopify", "refunds/create", &transaction), []);
    let refunded =
        json!({ "id": 9, "order_id": 1, "refund_line_items": [{ "quantity": 2, "line_item": { "sku": "PROD-7" } }] });
    let [Event::Refunded(Refund { extent: Extent::Lines { refund, lines }, .. })] =
        &events("shopify", "refunds/create", &refunded)[..]
    else {
        panic!("a refund of lines")
    };
    assert_eq!((refund.as_str(), lines[0].quantity, lines[0].names.as_slice()), ("9", 2, &["PROD-7".to_owned()][..]));
}

#[test]
fn lemon_squeezy_renews_by_subscription_invoices() {
    let body = |kind: &str, data: Value| {
        events("lemonsqueezy", "", &json!({ "meta": { "event_name": kind, "test_mode": false }, "data": data }))
    };
    let created =
        json!({ "type": "subscriptions", "id": "5", "attributes": { "order_id": 1001, "variant_id": 90210 } });
    let linked = References { order: Some("1001".into()), subscription: Some("5".into()), ..References::default() };
    assert_eq!(body("subscription_created", created), [Event::Linked(linked)]);
    let invoice = |reason: &str, refunded: bool| {
        let attributes = json!({ "subscription_id": 5, "billing_reason": reason, "refunded": refunded, "user_email": "a@example.com" });
        json!({ "type": "subscription-invoices", "id": "77", "attributes": attributes })
    };
    let [Event::Renewed(renewal)] = &body("subscription_payment_success", invoice("renewal", false))[..] else {
        panic!("a renewal")
    };
    assert_eq!((renewal.charge.as_str(), renewal.subscription.as_str()), ("invoice:77", "5"));
    assert_eq!(body("subscription_payment_success", invoice("initial", false)), []);
    for (refunded, extent) in [(true, Extent::Full), (false, Extent::Partial { refund: String::new() })] {
        let expected = Refund { of: order("invoice:77"), extent, cause: Cause::Refund };
        assert_eq!(body("subscription_payment_refunded", invoice("renewal", refunded)), [Event::Refunded(expected)]);
    }
}

#[test]
fn paddle_takes_back_what_was_charged_back_and_gives_it_back_when_that_is_reversed() {
    let adjusted = |action: &str, kind: &str, status: &str| {
        let data =
            json!({ "id": "adj_1", "action": action, "type": kind, "status": status, "transaction_id": "txn_1" });
        events("paddle", "", &json!({ "event_id": "evt_1", "event_type": "adjustment.updated", "data": data }))
    };
    for (action, kind, status, expected) in [
        (
            "chargeback",
            "full",
            "approved",
            vec![Event::Disputed(Dispute { of: order("txn_1"), number: Some("adj_1".into()), end: None })],
        ),
        (
            "chargeback_reverse",
            "full",
            "approved",
            vec![Event::Restored(Dispute { of: order("txn_1"), number: None, end: Some("adj_1".into()) })],
        ),
        // A part that was charged back changed nothing.
        ("chargeback_reverse", "partial", "approved", vec![]),
        ("chargeback_warning", "full", "approved", vec![]),
        ("credit_reverse", "full", "approved", vec![]),
        (
            "chargeback",
            "partial",
            "approved",
            vec![Event::Refunded(Refund::of(order("txn_1"), false, Some("adj_1".to_owned())))],
        ),
        ("refund", "full", "reversed", vec![]),
    ] {
        assert_eq!(adjusted(action, kind, status), expected, "{action} {kind} {status}");
    }
}

#[test]
fn woocommerce_revokes_what_was_paid_and_waits_for_what_was_not() {
    let order_in = |status: &str, paid: Value| {
        let body = json!({ "id": 727, "status": status, "date_paid_gmt": paid, "line_items": [{ "sku": "A", "quantity": 2 }], "billing": { "email": "a@example.com" } });
        events("woocommerce", "order.updated", &body)
    };
    let paid = || json!("2026-01-01T10:04:00");
    assert!(matches!(order_in("processing", paid())[..], [Event::Paid(_)]));
    assert_eq!(order_in("cancelled", paid()), [Event::Refunded(Refund::cancelled("727".into()))]);
    assert_eq!(order_in("cancelled", Value::Null), []);
    assert_eq!(order_in("processing", Value::Null), [], "cash on delivery is not paid yet");
    assert_eq!(order_in("on-hold", paid()), []);
}

#[test]
fn polar_charges_for_a_change_and_sells_nothing_by_it() {
    let paid = |reason: &str| {
        let data = json!({ "id": "o1", "billing_reason": reason, "subscription_id": "s1", "product_id": "p1", "seats": 3, "customer": { "email": "a@example.com" } });
        events("polar", "", &json!({ "type": "order.paid", "data": data }))
    };
    let [Event::Paid(sale)] = &paid("subscription_create")[..] else { panic!("a sale") };
    assert_eq!((sale.lines[0].quantity, sale.references.subscription.as_deref()), (3, Some("s1")));
    assert!(matches!(&paid("subscription_cycle")[..], [Event::Renewed(renewal)] if renewal.subscription == "s1"));
    assert_eq!(paid("subscription_update"), []);
}
