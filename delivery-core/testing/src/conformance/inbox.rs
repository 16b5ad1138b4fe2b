//! Events of commerce platforms: each is received once, applied in one commit with its keys, and kept while it waits.

use chrono::TimeDelta;

use super::deals::{
    a_deal_is_found_by_each_of_its_references_and_merged_deals_are_one,
    a_refund_revokes_the_key_that_took_the_place_of_the_one_sold, a_sale_and_its_refund_that_race_leave_no_valid_key,
    a_sale_is_found_by_each_of_its_references,
    charges_of_a_subscription_that_race_have_one_key_that_lives_as_long_as_it_is_paid,
};
use super::events::{
    all, charged, inbound, inbox, inbox_event, keys, messages, name, paid, receive, receive_at_once, refunded,
    reported, shop, waits,
};
use super::fixtures::{Port, RACERS, day, now};
use super::waiting::{
    a_product_is_dismissed_once_until_that_is_taken_back, a_product_that_is_not_sold_here_is_listed_once,
    a_time_that_no_clock_should_have_written_delays_no_event,
    an_event_that_is_dismissed_keeps_what_it_says_until_that_is_taken_back,
    an_event_that_waits_for_the_seller_is_due_when_it_is_retried,
    an_event_that_waits_is_leased_to_one_and_applied_once,
};
use super::{Case, cases};
use delivery_core::ledger::{Amount, ChargeRef, Charged, Customer, EventOutcome, Handling, InboxEvent, Links, Report};
use delivery_core::store::{InboxQuery, Ledger, Period};

cases![
    /// The promises of a [`Ledger`] with an [`Inbox`](delivery_core::store::Inbox).
    INBOX: dyn Ledger, each_inbox_case,
    an_event_is_received_once_however_many_calls_race,
    an_event_is_listed_with_what_it_came_to,
    a_sale_is_found_by_each_of_its_references,
    a_deal_is_found_by_each_of_its_references_and_merged_deals_are_one,
    a_sale_and_its_refund_that_race_leave_no_valid_key,
    a_refund_revokes_the_key_that_took_the_place_of_the_one_sold,
    charges_of_a_subscription_that_race_have_one_key_that_lives_as_long_as_it_is_paid,
    an_event_that_waits_is_leased_to_one_and_applied_once,
    a_time_that_no_clock_should_have_written_delays_no_event,
    an_event_that_waits_for_the_seller_is_due_when_it_is_retried,
    an_event_that_is_dismissed_keeps_what_it_says_until_that_is_taken_back,
    a_product_is_dismissed_once_until_that_is_taken_back,
    a_product_that_is_not_sold_here_is_listed_once,
    events_that_are_done_are_pruned_and_what_they_came_to_stays,
    what_was_paid_is_in_the_figures_of_its_day,
    the_address_of_a_customer_is_the_last_that_was_told,
];

async fn an_event_is_received_once_however_many_calls_race(ledger: Port) {
    let events = (0..RACERS).map(|_| paid("evt_1", "A", Links::default()));
    let received = receive_at_once(&ledger, events).await;
    assert_eq!(received.iter().filter(|received| received.is_new).count(), 1);
    assert_eq!(received.iter().map(|received| received.issued.len()).sum::<usize>(), 1);
    // Another event reports the same order.
    let again = receive(&ledger, paid("evt_2", "A", Links::default())).await;
    assert_eq!((again.is_new, again.event.outcome), (true, Some(EventOutcome::Ignored)));
    assert_eq!((keys(&ledger).await.len(), messages(&ledger).await, all(&ledger, None).await.len()), (1, 1, 2));
}

async fn an_event_is_listed_with_what_it_came_to(ledger: Port) {
    let sold = receive(&ledger, paid("evt_1", "A", Links::default())).await;
    let id = sold.issued.first().expect("a key").id();
    let refund = receive(&ledger, refunded("evt_2", ChargeRef::Order(name("A")))).await;
    receive(&ledger, waits("evt_3", "no product")).await;
    receive(&ledger, inbound("evt_4", Some(Handling::Ignore("nothing".to_owned())))).await;
    receive(&ledger, inbound("evt_5", None)).await;
    let listed = all(&ledger, None).await;
    let told = |event: &InboxEvent| {
        (event.id.name.as_str().to_owned(), event.outcome, event.reason.clone(), event.keys.clone())
    };
    let expected = [
        ("evt_5", None, None, vec![]),
        ("evt_4", Some(EventOutcome::Ignored), Some("nothing"), vec![]),
        ("evt_3", Some(EventOutcome::NeedsAttention), Some("no product"), vec![]),
        ("evt_2", Some(EventOutcome::Revoked), None, vec![id]),
        ("evt_1", Some(EventOutcome::Issued), None, vec![id]),
    ]
    .map(|(event, outcome, reason, keys)| (event.to_owned(), outcome, reason.map(str::to_owned), keys));
    assert_eq!(listed.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(refund.changed.len(), 1);
    let InboxEvent { kind, order, body, received_at, .. } = inbox_event("evt");
    for found in &listed {
        assert_eq!((&found.kind, &found.order, found.received_at), (&kind, &order, received_at));
        let waits = matches!(found.outcome, None | Some(EventOutcome::NeedsAttention));
        assert_eq!((found.due_at.is_some(), &found.body), (waits, if waits { &body } else { &None }));
    }
    assert_eq!(all(&ledger, Some(EventOutcome::Revoked)).await, [listed[3].clone()]);
    let since = |since| Period { since: Some(since), until: None };
    for (query, expected) in [
        (InboxQuery { source: Some(shop()), ..InboxQuery::default() }, 5),
        (InboxQuery { source: "polar".parse().ok(), ..InboxQuery::default() }, 0),
        (InboxQuery { period: since(received_at), ..InboxQuery::default() }, 5),
        (InboxQuery { period: since(received_at + TimeDelta::days(1)), ..InboxQuery::default() }, 0),
        (InboxQuery { period: Period { since: None, until: Some(received_at) }, ..InboxQuery::default() }, 0),
    ] {
        let found = inbox(&ledger).events(&InboxQuery { limit: 99, ..query.clone() }).await.expect("listed").items;
        assert_eq!(found.len(), expected, "{query:?}");
    }
    let office = ledger.office().expect("an office");
    assert_eq!(office.backlog().await.expect("counted").needs_attention, 1);
    let mut pages = Vec::new();
    let mut query = InboxQuery { limit: 2, ..InboxQuery::default() };
    loop {
        let page = inbox(&ledger).events(&query).await.expect("listed");
        pages.extend(page.items);
        query.before = page.next;
        if query.before.is_none() {
            break;
        }
    }
    assert_eq!(pages, listed);
}

async fn events_that_are_done_are_pruned_and_what_they_came_to_stays(ledger: Port) {
    receive(&ledger, paid("evt_1", "A", Links::default())).await;
    receive(&ledger, refunded("evt_2", ChargeRef::Order(name("A")))).await;
    receive(&ledger, waits("evt_3", "no product")).await;
    assert_eq!(inbox(&ledger).prune_inbox(now()).await.expect("pruned"), 0);
    let later = now() + TimeDelta::milliseconds(1);
    assert_eq!(inbox(&ledger).prune_inbox(later).await.expect("pruned"), 2);
    assert_eq!(all(&ledger, None).await.len(), 1, "it waits for the seller");
    let before = keys(&ledger).await;
    for copy in [paid("evt_1", "A", Links::default()), refunded("evt_2", ChargeRef::Order(name("A")))] {
        let received = receive(&ledger, copy).await;
        assert_eq!((received.is_new, received.issued.len(), received.changed.len()), (true, 0, 0));
    }
    assert_eq!(keys(&ledger).await, before);
    assert_eq!(messages(&ledger).await, 1);
}

async fn the_address_of_a_customer_is_the_last_that_was_told(ledger: Port) {
    let known = async || inbox(&ledger).customer(&shop(), &name("ctm_1")).await.expect("answered");
    assert_eq!(known().await, None);
    // An older address that is reported late does not replace a newer one.
    for (event, email, second, expected) in [
        ("evt_1", "old@example.com", 1, "old@example.com"),
        ("evt_2", "new@example.com", 2, "new@example.com"),
        ("evt_3", "old@example.com", 1, "new@example.com"),
        ("evt_4", "same@example.com", 2, "same@example.com"),
    ] {
        let email = email.parse().expect("an address");
        let told_at = now() + TimeDelta::seconds(second);
        let customer = Customer { source: shop(), reference: name("ctm_1"), email, told_at };
        let received = receive(&ledger, inbound(event, Some(Handling::Remember(customer)))).await;
        assert_eq!(received.event.outcome, Some(EventOutcome::Remembered));
        assert_eq!(known().await, expected.parse().ok());
    }
    let of = async |email: &str| inbox(&ledger).customers(&email.parse().expect("an address")).await.expect("answered");
    let found: Vec<_> = of("SAME@example.com").await.into_iter().map(|it| (it.source, it.reference)).collect();
    assert_eq!(found, [(shop(), name("ctm_1"))]);
    assert_eq!(of("new@example.com").await, [], "an address that was replaced");
    assert_eq!(inbox(&ledger).customer(&shop(), &name("ctm_2")).await.expect("answered"), None);
    let other = "paddle".parse().expect("a platform");
    assert_eq!(inbox(&ledger).customer(&other, &name("ctm_1")).await.expect("answered"), None);
}

async fn what_was_paid_is_in_the_figures_of_its_day(ledger: Port) {
    let amount = |units, currency: &str| Amount { units, currency: currency.parse().expect("a currency") };
    let yesterday = day(-1);
    let sold = |event: &str, order: &str, at, total| {
        let charged = Charged { at, total: Some(total), ..charged(order, Links::default()) };
        reported(event, Report::Charged(charged))
    };
    for (event, order, at, total) in [
        ("evt_1", "A", yesterday, amount(1250, "EUR")),
        ("evt_2", "B", yesterday, amount(50, "EUR")),
        ("evt_3", "C", yesterday, amount(7, "JPY")),
        ("evt_4", "D", now(), amount(1, "EUR")),
        ("evt_5", "E", day(-9), amount(1, "EUR")),
        // The platform sends an event again, and reports a sale in a second event.
        ("evt_1", "A", yesterday, amount(1250, "EUR")),
        ("evt_6", "B", yesterday, amount(50, "EUR")),
    ] {
        receive(&ledger, sold(event, order, at, total)).await;
    }
    receive(&ledger, refunded("evt_7", ChargeRef::Order(name("A")))).await;
    let office = ledger.office().expect("an office");
    let figures = office.figures(day(-7), now()).await.expect("counted");
    let [before, today] = [yesterday, now()].map(|at| at.date_naive());
    let expected = [(before, amount(1300, "EUR")), (before, amount(7, "JPY")), (today, amount(1, "EUR"))];
    assert_eq!(figures.revenue, expected);

    // A checkout session and its invoice are one payment, even if they are reported one after the other.
    let links =
        |is_first| Links { subscription: Some(name("S")), invoice: Some(name("inv")), is_first, ..Links::default() };
    for (event, order, is_first) in [("evt_8", "session", false), ("evt_9", "inv", true)] {
        let charged = Charged { total: Some(amount(900, "USD")), ..charged(order, links(is_first)) };
        receive(&ledger, reported(event, Report::Charged(charged))).await;
        let figures = office.figures(now(), now()).await.expect("counted");
        assert_eq!(figures.revenue, [(today, amount(1, "EUR")), (today, amount(900, "USD"))], "{order}");
    }
    // Two sales turn out to belong to one subscription. Each of the two payments still counts once.
    for (event, order) in [("evt_10", "X"), ("evt_11", "Y")] {
        receive(&ledger, sold(event, order, now(), amount(5, "CHF"))).await;
    }
    for (event, order) in [("evt_12", "X"), ("evt_13", "Y")] {
        let links = Links { order: Some(name(order)), subscription: Some(name("T")), ..Links::default() };
        receive(&ledger, reported(event, Report::Linked(links))).await;
    }
    let figures = office.figures(now(), now()).await.expect("counted");
    assert_eq!(figures.revenue.first(), Some(&(today, amount(10, "CHF"))));
}
