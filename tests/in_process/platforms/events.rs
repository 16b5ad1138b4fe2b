//! What the vectors do not show: further charges, disputes, cancellations, as the platforms document them.

use chrono::{DateTime, Utc};
use delivery_core::platform::{
    Amount, Buyer, Cause, ChargeRef, Dispute, Event, Extent, Line, Links, Refund, Sale, Standing, SubscriptionEvent,
    Term, Unreadable,
};
use serde_json::{Value, json};

use super::hostile::read;
use super::shop::{id, order};

fn events(name: &str, topic: &str, body: &Value) -> Vec<Event> {
    read(name, topic, body.to_string().as_bytes()).events.unwrap()
}

/// When what Stripe tells of was created.
const CREATED: i64 = 1_767_261_842;

fn stripe(kind: &str, object: &Value) -> Vec<Event> {
    let event = json!({
        "id": "evt_1", "object": "event", "livemode": true, "type": kind, "created": CREATED,
        "data": { "object": object },
    });
    events("stripe", "", &event)
}

fn created() -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(CREATED, 0)
}

fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn payment(number: &str) -> ChargeRef {
    ChargeRef::Payment(id(number))
}

/// The only sale among events.
fn sold(events: &[Event]) -> &Sale {
    match events {
        [Event::Paid(sale)] => sale,
        other => panic!("{other:?}"),
    }
}

#[test]
fn stripe_charges_by_invoices_and_takes_back_by_payments() {
    let paid = |mut invoice: Value| {
        invoice["object"] = "invoice".into();
        invoice["id"] = "in_2".into();
        invoice["customer_email"] = "a@example.com".into();
        stripe("invoice.paid", &invoice)
    };
    // Whatever its reason. That of the first is the charge that its session tells of.
    for (invoice, is_first) in [
        (json!({ "billing_reason": "subscription_cycle", "subscription": "sub_1" }), false),
        (json!({ "billing_reason": "manual", "subscription": "sub_1" }), false),
        (json!({ "billing_reason": "subscription_create", "subscription": "sub_1" }), true),
        (
            json!({ "billing_reason": "subscription_cycle", "parent": { "subscription_details": { "subscription": "sub_1", "metadata": { "product_id": "7" } } }, "lines": { "data": [{}] } }),
            false,
        ),
    ] {
        let charges = paid(invoice);
        let Sale { order, at, lines, buyer, links, .. } = sold(&charges);
        let (invoice, subscription) = (Some(id("in_2")), Some(id("sub_1")));
        assert_eq!(*links, Links { invoice, subscription, is_first, ..Links::default() });
        assert_eq!((order.as_str(), *at, buyer.email.as_deref()), ("in_2", created(), Some("a@example.com")));
        // Lines that say no kind are of no period.
        assert!(lines.iter().all(|line| line.own.is_some() && line.term == Term::Unsaid));
    }
    assert_eq!(paid(json!({ "billing_reason": "manual" })), [], "it is of no subscription");
    let linked = json!({ "object": "invoice_payment", "invoice": "in_1", "payment": { "type": "payment_intent", "payment_intent": "pi_1" } });
    let links = Links { payment: Some(id("pi_1")), invoice: Some(id("in_1")), ..Links::default() };
    assert_eq!(stripe("invoice_payment.paid", &linked), [Event::Linked(links)]);
    let dispute = |status: &str| json!({ "object": "dispute", "status": status, "payment_intent": "pi_1" });
    for (kind, status, expected) in [
        ("charge.dispute.created", "needs_response", vec![Event::Disputed(payment("pi_1").into())]),
        ("charge.dispute.closed", "won", vec![Event::Won(payment("pi_1").into())]),
        ("charge.dispute.closed", "lost", vec![Event::Disputed(Dispute { is_lost: true, ..payment("pi_1").into() })]),
        ("charge.dispute.updated", "won", vec![]),
        // An inquiry is no dispute until it becomes one.
        ("charge.dispute.created", "warning_needs_response", vec![]),
        ("charge.dispute.closed", "warning_closed", vec![]),
        ("charge.dispute.updated", "needs_response", vec![Event::Disputed(payment("pi_1").into())]),
    ] {
        assert_eq!(stripe(kind, &dispute(status)), expected, "{kind} {status}");
    }
    // The type only selects: the object must be what it says.
    assert_eq!(stripe("charge.dispute.created", &json!({ "object": "charge", "payment_intent": "pi_1" })), []);
    let session =
        json!({ "object": "checkout.session", "id": "cs_1", "mode": "setup", "payment_status": "no_payment_required" });
    assert_eq!(stripe("checkout.session.completed", &session), []);
}

#[test]
fn stripes_refund_may_fail_and_names_its_invoice() {
    let charge = |refunded: bool| {
        let charge = json!({ "object": "charge", "payment_intent": "pi_1", "invoice": "in_1", "refunded": refunded, "amount_refunded": 500 });
        stripe("charge.refunded", &charge)
    };
    for (refunded, extent) in [(true, Extent::Full), (false, Extent::Partial { refund: "500".to_owned() })] {
        let links = Links { invoice: Some(id("in_1")), ..Links::default() };
        let expected = Refund { links, extent, at: created(), ..Refund::full(payment("pi_1")) };
        assert_eq!(charge(refunded), [Event::Refunded(expected)]);
    }
    let failed = |kind: &str, status: &str| {
        stripe(kind, &json!({ "object": "refund", "payment_intent": "pi_1", "status": status }))
    };
    let kept = Event::Kept { of: payment("pi_1"), at: created().unwrap() };
    assert_eq!(failed("refund.failed", "failed"), std::slice::from_ref(&kept));
    assert_eq!(failed("charge.refund.updated", "failed"), [kept]);
    assert_eq!(failed("charge.refund.updated", "succeeded"), []);
}

#[test]
fn stripe_sells_what_was_authorised_when_it_is_captured() {
    let mut session = json!({
        "object": "checkout.session", "id": "cs_1", "mode": "payment", "payment_status": "unpaid",
        "payment_intent": "pi_1", "payment_link": "plink_1", "customer_details": { "email": "a@example.com" },
    });
    let authorised = stripe("checkout.session.completed", &session);
    let sale = sold(&authorised);
    assert!(sale.is_open);
    assert_eq!(sale.links.payment, Some(id("pi_1")));
    let charge = |captured: bool| json!({ "object": "charge", "payment_intent": "pi_1", "captured": captured, "billing_details": { "email": "a@example.com" } });
    let captured = |total| Event::Captured {
        payment: id("pi_1"),
        at: created().unwrap(),
        total,
        buyer: Buyer::by_email(Some("a@example.com")),
    };
    assert_eq!(stripe("charge.captured", &charge(true)), [captured(None)]);
    let mut part = charge(true);
    (part["amount_captured"], part["currency"]) = (2000.into(), "usd".into());
    assert_eq!(stripe("charge.captured", &part), [captured(Amount::from_decimal("20", "USD".parse().unwrap()))]);
    assert_eq!(stripe("charge.captured", &charge(false)), []);
    // A subscription is charged by its invoices, and what has no payment is paid by none.
    session["subscription"] = "sub_1".into();
    assert_eq!(stripe("checkout.session.completed", &session), []);
    session["subscription"] = Value::Null;
    session["payment_intent"] = Value::Null;
    assert_eq!(stripe("checkout.session.completed", &session), []);
}

#[test]
fn stripes_thin_event_of_a_sale_waits_for_the_seller() {
    let thin = |kind: &str| json!({ "id": "evt_1", "object": "v2.core.event", "type": kind, "created": "2026-01-01T10:04:02Z" });
    for (kind, is_sale) in [
        ("v1.checkout.session.completed", true),
        ("v1.invoice.paid", true),
        ("v1.charge.captured", true),
        ("v1.customer.created", false),
        ("checkout.session.completed", false),
    ] {
        let told = events("stripe", "", &thin(kind));
        assert_eq!(matches!(&told[..], [Event::Unshown { .. }]), is_sale, "{kind}: {told:?}");
        assert_eq!(told.is_empty(), !is_sale, "{kind}: {told:?}");
    }
}

#[test]
fn shopify_cancels_what_was_cancelled_and_counts_pieces() {
    let cancelled = json!({ "id": 1, "cancelled_at": "2026-01-03T03:00:00-05:00" });
    let refund = Refund { cause: Cause::Cancellation, ..Refund::full(order("1")) };
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
    assert_eq!((refund.as_str(), lines[0].pieces, lines[0].name.as_str()), ("9", 2, "PROD-7"));
}

fn lemon_squeezy(kind: &str, data: &Value) -> Vec<Event> {
    events("lemonsqueezy", "", &json!({ "meta": { "event_name": kind, "test_mode": false }, "data": data }))
}

#[test]
fn lemon_squeezy_charges_by_subscription_invoices() {
    let created =
        json!({ "type": "subscriptions", "id": "5", "attributes": { "order_id": 1001, "variant_id": 90210 } });
    let linked = Links { order: Some(id("1001")), ..Links::of_subscription(Some(id("5"))) };
    assert_eq!(lemon_squeezy("subscription_created", &created), [Event::Linked(linked)], "a word without a time");
    let invoice = |reason: &str, refunded: bool| {
        let attributes = json!({ "subscription_id": 5, "billing_reason": reason, "refunded": refunded, "user_email": "a@example.com", "created_at": "2026-02-01T09:00:02.000000Z" });
        json!({ "type": "subscription-invoices", "id": "77", "attributes": attributes })
    };
    let of = |order: Option<&str>, invoice: Option<&str>| Links {
        order: order.map(id),
        invoice: invoice.map(id),
        is_first: order.is_some(),
        ..Links::of_subscription(Some(id("5")))
    };
    for reason in ["renewal", "updated"] {
        let charges = lemon_squeezy("subscription_payment_success", &invoice(reason, false));
        let sale = sold(&charges);
        assert_eq!((sale.order.as_str(), &sale.links), ("invoice:77", &of(None, Some("invoice:77"))));
        assert_eq!((sale.at, sale.lines.len()), (Some(time("2026-02-01T09:00:02Z")), 0));
    }
    // The first is the order, which says what was sold.
    let first = lemon_squeezy("subscription_payment_success", &invoice("initial", false));
    assert_eq!(first, [Event::Linked(of(Some("invoice:77"), None))]);
    assert_eq!(lemon_squeezy("subscription_payment_success", &invoice("something new", false)), []);
    for (refunded, extent) in [(true, Extent::Full), (false, Extent::Partial { refund: String::new() })] {
        let links = of(None, Some("invoice:77"));
        let expected = Refund { links, extent, ..Refund::full(order("invoice:77")) };
        let told = lemon_squeezy("subscription_payment_refunded", &invoice("renewal", refunded));
        assert_eq!(told, [Event::Refunded(expected)]);
    }
}

#[test]
fn lemon_squeezy_says_how_a_subscription_stands() {
    let (trial, renewal, end) = ("2026-01-15T09:00:00Z", "2026-02-01T09:00:00Z", "2026-03-01T09:00:00Z");
    let until = |text: &str| Term::Until(time(text));
    for (status, standing, term) in [
        ("on_trial", Standing::Trialing, until(trial)),
        ("active", Standing::Active, until(renewal)),
        ("cancelled", Standing::Leaving, until(end)),
        ("expired", Standing::Ended, until(end)),
        ("past_due", Standing::Unsaid, Term::Unsaid),
        ("paused", Standing::Unsaid, Term::Unsaid),
    ] {
        let attributes = json!({ "order_id": 1001, "variant_id": 90210, "status": status, "user_email": "a@example.com", "trial_ends_at": trial, "renews_at": renewal, "ends_at": end, "updated_at": "2026-01-01T09:00:05Z" });
        let data = json!({ "type": "subscriptions", "id": "5", "attributes": attributes });
        let expected = SubscriptionEvent {
            at: time("2026-01-01T09:00:05Z"),
            links: Links { order: Some(id("1001")), ..Links::of_subscription(Some(id("5"))) },
            lines: vec![Line::named([Some("variant:90210".to_owned())])],
            buyer: Buyer::by_email(Some("a@example.com")),
            status: standing,
            term,
        };
        assert_eq!(lemon_squeezy("subscription_updated", &data), [Event::Subscription(expected)], "{status}");
    }
}

#[test]
fn paddle_takes_back_what_was_charged_back_and_gives_it_back_when_that_is_reversed() {
    let adjusted = |action: &str, kind: &str, status: &str| {
        let data =
            json!({ "id": "adj_1", "action": action, "type": kind, "status": status, "transaction_id": "txn_1" });
        events("paddle", "", &json!({ "event_id": "evt_1", "event_type": "adjustment.updated", "data": data }))
    };
    let (of, part) = (|| Dispute::from(order("txn_1")), || Extent::Partial { refund: "adj_1".to_owned() });
    let (chargeback, end) = (
        || Dispute { number: Some("adj_1".into()), ..of() },
        // It does not name the chargeback.
        || Dispute { end: Some("adj_1".into()), ..of() },
    );
    for (action, kind, status, expected) in [
        ("chargeback", "full", "approved", vec![Event::Disputed(chargeback())]),
        ("chargeback_reverse", "full", "approved", vec![Event::Won(end())]),
        // A part that was charged back changes nothing, nor does its end.
        ("chargeback", "partial", "approved", vec![Event::Disputed(Dispute { extent: part(), ..chargeback() })]),
        ("chargeback_reverse", "partial", "approved", vec![Event::Won(Dispute { extent: part(), ..end() })]),
        ("chargeback_warning", "full", "approved", vec![]),
        ("credit_reverse", "full", "approved", vec![]),
        ("refund", "full", "reversed", vec![]),
    ] {
        assert_eq!(adjusted(action, kind, status), expected, "{action} {kind} {status}");
    }
}

#[test]
fn woocommerce_revokes_what_was_paid_and_waits_for_what_was_not() {
    let order_in = |status: &str, paid: Value, changed: Value| {
        let body = json!({ "id": 727, "status": status, "date_paid_gmt": paid, "date_modified_gmt": changed, "line_items": [{ "sku": "A", "quantity": 2 }], "billing": { "email": "a@example.com" } });
        events("woocommerce", "order.updated", &body)
    };
    let (paid, changed) = (|| json!("2026-01-01T10:04:00"), || json!("2026-01-02T10:04:00"));
    let at = |text: &str| Some(time(text));
    let (paid_at, changed_at) = (at("2026-01-01T10:04:00Z"), at("2026-01-02T10:04:00Z"));
    // A cancellation counts until the order is completed again: the newest says which.
    for (changed, stands_at) in [(Value::Null, paid_at), (changed(), changed_at)] {
        let completed = order_in("processing", paid(), changed.clone());
        let sale = sold(&completed);
        assert_eq!((sale.at, sale.stands_at), (paid_at, stands_at));
        let expected = Refund { at: stands_at, ..Refund::cancelled(id("727")) };
        assert_eq!(order_in("cancelled", paid(), changed), [Event::Refunded(expected)]);
    }
    // A refund is final.
    assert_eq!(order_in("refunded", paid(), changed()), [Event::Refunded(Refund::full(order("727")))]);
    assert_eq!(order_in("cancelled", Value::Null, changed()), []);
    assert_eq!(order_in("processing", Value::Null, changed()), [], "cash on delivery is not paid yet");
    assert_eq!(order_in("on-hold", paid(), changed()), []);
}

#[test]
fn polar_charges_for_periods_and_changes_and_sells_no_usage() {
    let paid = |reason: &str| {
        let data = json!({ "id": "o1", "billing_reason": reason, "subscription_id": "s1", "product_id": "p1", "seats": 3, "customer": { "email": "a@example.com" } });
        events("polar", "", &json!({ "type": "order.paid", "data": data }))
    };
    for reason in ["subscription_create", "subscription_cycle", "subscription_cycle_after_trial", "subscription_update"]
    {
        let charges = paid(reason);
        let sale = sold(&charges);
        assert_eq!((sale.lines[0].quantity, &sale.links.subscription), (3, &Some(id("s1"))), "{reason}");
    }
    assert_eq!(paid("subscription_meter_cycle"), []);
    assert_eq!(paid("a_reason_that_is_added_later").len(), 1, "whatever else is paid is a sale");
}

#[test]
fn a_paid_transaction_of_an_unknown_origin_is_a_sale() {
    for origin in ["web", "api", "an_origin_that_is_added_later"] {
        let data = json!({ "id": "txn_1", "origin": origin, "status": "completed", "items": [{ "price": { "id": "pri_1" }, "quantity": 1 }] });
        let events =
            events("paddle", "", &json!({ "event_id": "evt_1", "event_type": "transaction.completed", "data": data }));
        assert_eq!(sold(&events).order, id("txn_1"), "{origin}");
    }
}

#[test]
fn a_standard_event_is_a_test_where_either_field_says_so() {
    for (top, inner, is_test) in [(false, false, false), (true, false, true), (false, true, true)] {
        let data = json!({ "order_id": "1", "product_id": 1, "customer_email": "a@example.com", "test": inner });
        let body = json!({ "type": "order.paid", "test": top, "data": data }).to_string();
        assert_eq!(read("standard", "", body.as_bytes()).is_test, is_test, "{top} {inner}");
    }
}

#[test]
fn an_order_or_a_subscription_of_an_impossible_number_cannot_be_read() {
    let paid = |order: &str, subscription: &str| {
        let data = json!({ "id": order, "subscription_id": subscription, "product_id": "p1" });
        read("polar", "", json!({ "type": "order.paid", "data": data }).to_string().as_bytes()).events
    };
    for impossible in ["x".repeat(256), "o\u{1}".to_owned()] {
        assert_eq!(paid(&impossible, "s1"), Err(Unreadable), "{impossible}");
        // Without it, the charge would be taken for a sale of its own.
        assert_eq!(paid("o1", &impossible), Err(Unreadable), "{impossible}");
    }
}
