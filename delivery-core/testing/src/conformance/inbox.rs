//! Events of commerce platforms: each is received once, applied in one commit with its keys, and kept while it waits.

use chrono::TimeDelta;
use tokio::task::JoinSet;

use super::deals::{
    a_deal_is_found_by_each_of_its_references_and_merged_deals_are_one,
    a_refund_revokes_the_key_that_took_the_place_of_the_one_sold, a_sale_and_its_refund_that_race_leave_no_valid_key,
    a_sale_is_found_by_each_of_its_references,
    charges_of_a_subscription_that_race_have_one_key_that_lives_as_long_as_it_is_paid,
};
use super::events::{all, charged, inbound, inbox, inbox_event, keys, messages, name, paid, receive, refunded, shop};
use super::fixtures::{Port, RACERS, edit, now};
use super::{Case, cases};
use delivery_core::key::Actor;
use delivery_core::ledger::{
    Action, Amount, ChargeRef, Charged, Customer, EventOutcome, Handling, InboundEvent, InboxEvent, Links, NO_ADDRESS,
    Report, UNKNOWN_PRODUCT,
};
use delivery_core::order::{OrderId, Source};
use delivery_core::product::RefName;
use delivery_core::store::{AuditQuery, InboxQuery, Ledger, Period};

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
    an_event_that_waits_for_the_seller_is_due_when_it_is_retried,
    an_event_that_is_dismissed_keeps_what_it_says_until_that_is_taken_back,
    a_product_is_dismissed_once_until_that_is_taken_back,
    a_product_that_is_not_sold_here_is_listed_once,
    events_that_are_done_are_pruned_and_what_they_came_to_stays,
    what_was_paid_is_in_the_figures_of_its_day,
    the_address_of_a_customer_is_the_last_that_was_told,
];

async fn an_event_is_received_once_however_many_calls_race(ledger: Port) {
    let mut racing = JoinSet::new();
    for _ in 0..RACERS {
        let ledger = ledger.clone();
        racing.spawn(async move { receive(&ledger, paid("evt_1", "A", Links::default())).await });
    }
    let received = racing.join_all().await;
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
    receive(&ledger, inbound("evt_3", Some(Handling::Wait("no product".to_owned())))).await;
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
    let day = TimeDelta::days(1);
    let since = |since| Period { since: Some(since), until: None };
    for (query, expected) in [
        (InboxQuery { source: Some(shop()), ..InboxQuery::default() }, 5),
        (InboxQuery { source: "polar".parse().ok(), ..InboxQuery::default() }, 0),
        (InboxQuery { period: since(received_at), ..InboxQuery::default() }, 5),
        (InboxQuery { period: since(received_at + day), ..InboxQuery::default() }, 0),
        (InboxQuery { period: Period { since: None, until: Some(received_at) }, ..InboxQuery::default() }, 0),
    ] {
        let found = inbox(&ledger).events(&InboxQuery { limit: 99, ..query.clone() }).await.expect("listed").items;
        assert_eq!(found.len(), expected, "{query:?}");
    }
    if let Some(records) = ledger.office() {
        assert_eq!(records.backlog().await.expect("counted").needs_attention, 1);
    }
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

async fn a_product_that_is_not_sold_here_is_listed_once(ledger: Port) {
    let waits = |reason: &str| Some(Handling::Wait(reason.to_owned()));
    let (tea, cup) = (format!("{UNKNOWN_PRODUCT}tea"), format!("{UNKNOWN_PRODUCT}cup"));
    let told = [("a", "no address"), ("b", &tea), ("c", &cup), ("d", &tea), ("e", "no address"), ("f", &tea)];
    for (event, reason) in told {
        receive(&ledger, inbound(event, waits(reason))).await;
    }
    let names = |listed: Vec<InboxEvent>| listed.iter().map(|event| event.id.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(all(&ledger, Some(EventOutcome::NeedsAttention)).await), ["f", "e", "c", "a"]);
    assert_eq!(names(all(&ledger, None).await), ["f", "e", "d", "c", "b", "a"]);
    // A later page does not list a product again either.
    let first = InboxQuery { outcome: Some(EventOutcome::NeedsAttention), limit: 3, ..InboxQuery::default() };
    let page = inbox(&ledger).events(&first).await.expect("listed");
    let next = inbox(&ledger).events(&InboxQuery { before: page.next, ..first }).await.expect("listed");
    assert_eq!((names(page.items), names(next.items)), (vec!["f".into(), "e".into(), "c".into()], vec!["a".into()]));
}

async fn an_event_that_waits_is_leased_to_one_and_applied_once(ledger: Port) {
    receive(&ledger, inbound("evt_1", None)).await;
    let claim = async |after: i64| {
        let at = now() + TimeDelta::seconds(after);
        inbox(&ledger).claim_events(at, at + TimeDelta::minutes(1), 10).await.expect("claimed")
    };
    assert_eq!(claim(14).await, []);
    let [claimed] = &claim(15).await[..] else { panic!("an event is due") };
    assert_eq!((claimed.id.name.as_str(), claimed.attempts), ("evt_1", 1));
    assert_eq!(claim(16).await, [], "it is leased");
    let [again] = &claim(76).await[..] else { panic!("the lease is over") };
    assert_eq!(again.attempts, 2);
    // Both lease holders apply the event.
    for claimed in [claimed, again] {
        let sale = paid("evt_1", "A", Links::default());
        let applied = receive(&ledger, InboundEvent { event: claimed.clone(), is_retry: true, ..sale }).await;
        assert!(!applied.is_new);
        assert_eq!(applied.event.outcome, Some(EventOutcome::Issued));
    }
    assert_eq!((keys(&ledger).await.len(), messages(&ledger).await), (1, 1));
    assert_eq!(claim(3600).await, [], "it is done");
}

async fn an_event_that_waits_for_the_seller_is_due_when_it_is_retried(ledger: Port) {
    receive(&ledger, inbound("evt_1", Some(Handling::Wait("no product".to_owned())))).await;
    receive(&ledger, inbound("evt_2", Some(Handling::Ignore("nothing".to_owned())))).await;
    let claim = async || inbox(&ledger).claim_events(now(), now() + TimeDelta::minutes(1), 10).await.expect("claimed");
    assert_eq!(claim().await, []);
    let other: Source = "paddle".parse().expect("a platform");
    assert_eq!(inbox(&ledger).retry_events(Some(&other), None, now()).await.expect("retried"), 0);
    assert_eq!(inbox(&ledger).retry_events(Some(&shop()), None, now()).await.expect("retried"), 1);
    assert_eq!(claim().await.len(), 1);
    // Of the events that wait for an address, only those of this customer are retried.
    let lacks = |name: &str, reason: &str, customer: &str| {
        let inbound = inbound(name, Some(Handling::Wait(reason.to_owned())));
        let body = Some(format!(r#"{{"buyer":{{"email":null,"customer":"{customer}"}}}}"#));
        InboundEvent { event: InboxEvent { body, ..inbound.event }, ..inbound }
    };
    for (name, reason, customer) in
        [("evt_3", NO_ADDRESS, r#"ctm\"1"#), ("evt_4", NO_ADDRESS, r#"ctm\"11"#), ("evt_5", "no product", r#"ctm\"1"#)]
    {
        receive(&ledger, lacks(name, reason, customer)).await;
    }
    let customer: OrderId = r#"ctm"1"#.parse().expect("a reference");
    assert_eq!(inbox(&ledger).retry_events(Some(&shop()), Some(&customer), now()).await.expect("retried"), 1);
    let due: Vec<_> = claim().await.into_iter().map(|event| event.id.name.to_string()).collect();
    assert_eq!(due, ["evt_3"]);
    for name in ["evt_3", "evt_4", "evt_5"] {
        let done = inbound(name, Some(Handling::Ignore("nothing".to_owned())));
        receive(&ledger, InboundEvent { is_retry: true, ..done }).await;
    }
    assert_eq!(
        inbox(&ledger).retry_events(None, None, now()).await.expect("retried"),
        1,
        "whoever leased it is too late"
    );
    let [claimed] = &claim().await[..] else { panic!("it is due") };
    assert_eq!(inbox(&ledger).retry_events(None, None, now()).await.expect("retried"), 1, "while it is looked at");
    let late = inbound("evt_1", Some(Handling::Wait("no product".to_owned())));
    receive(&ledger, InboundEvent { event: claimed.clone(), is_retry: true, ..late }).await;
    let [claimed] = &claim().await[..] else { panic!("it stays due") };
    // The seller adds something to the event, which then still waits, and is applied later.
    let by: Option<Actor> = "alice".parse().ok();
    let event = InboxEvent { body: Some("with more".to_owned()), ..claimed.clone() };
    let wait = inbound("evt_1", Some(Handling::Wait("no address".to_owned())));
    let adds = InboundEvent { event, is_retry: true, by: by.clone(), ..wait };
    let waits = receive(&ledger, adds.clone()).await.event;
    assert_eq!((waits.body.as_deref(), waits.due_at.is_some()), (Some("with more"), true));
    // A caller who read the event before that change must read it again.
    let other = InboxEvent { body: Some("with something else".to_owned()), ..adds.event.clone() };
    let late = receive(&ledger, InboundEvent { event: other, ..adds.clone() }).await;
    assert_eq!((late.is_outdated, late.event.body.as_deref()), (true, Some("with more")));
    let read =
        async || all(&ledger, None).await.into_iter().find(|it| it.id.name == waits.id.name).expect("it is there");
    // Adding nothing to an event that still waits is not a change.
    let nothing = receive(&ledger, InboundEvent { event: read().await, ..adds }).await;
    assert!(!nothing.is_outdated);
    let sale = paid("evt_1", "A", Links::default());
    let applied = InboundEvent { event: read().await, is_retry: true, by: by.clone(), ..sale };
    assert_eq!(receive(&ledger, applied).await.issued.len(), 1);
    if let Some(records) = ledger.office() {
        let audit = records.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.expect("read").items;
        let said: Vec<_> =
            audit.iter().map(|entry| (entry.action, Some(entry.actor.clone()), entry.detail.as_deref())).collect();
        let once = (Action::EventApplied, by, Some("stripe evt_1"));
        assert_eq!(said, [once.clone(), once]);
    }
    assert_eq!(inbox(&ledger).retry_events(None, None, now()).await.expect("retried"), 0);
}

/// Returns the actions in the audit log, newest first.
async fn actions(ledger: &Port) -> Option<Vec<Action>> {
    let audit = ledger.office()?.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.expect("read").items;
    Some(audit.into_iter().map(|entry| entry.action).collect())
}

async fn an_event_that_is_dismissed_keeps_what_it_says_until_that_is_taken_back(ledger: Port) {
    let wait = || Handling::Wait("no product".to_owned());
    receive(&ledger, inbound("evt_1", Some(wait()))).await;
    let read = async || all(&ledger, None).await.remove(0);
    let handle = async |by: Option<&str>, step: Handling| {
        let by = by.and_then(|by| by.parse().ok());
        let inbound = InboundEvent { event: read().await, is_retry: true, by, ..inbound("evt_1", Some(step)) };
        let InboxEvent { outcome, reason, body, due_at, .. } = receive(&ledger, inbound).await.event;
        (outcome, reason, body.is_some(), due_at.is_some())
    };
    let dismissed = (Some(EventOutcome::Ignored), Some("dismissed".to_owned()), true, false);
    for _ in 0..2 {
        assert_eq!(handle(Some("alice"), Handling::Dismiss).await, dismissed);
    }
    assert_eq!(inbox(&ledger).retry_events(None, None, now()).await.expect("retried"), 0);
    assert_eq!(handle(None, wait()).await, dismissed, "who had leased it is too late");
    let waits = (Some(EventOutcome::NeedsAttention), Some("no product".to_owned()), true, true);
    assert_eq!(handle(Some("alice"), wait()).await, waits);
    assert_eq!(handle(Some("alice"), Handling::Dismiss).await, dismissed);
    let said = actions(&ledger).await;
    assert!(said.is_none_or(|said| said == [Action::Dismissed, Action::EventApplied, Action::Dismissed]));
    assert_eq!(inbox(&ledger).prune_inbox(now() + TimeDelta::milliseconds(1)).await.expect("pruned"), 1);
}

async fn a_product_is_dismissed_once_until_that_is_taken_back(ledger: Port) {
    let mug: RefName = "plink_mug".parse().expect("a name");
    let is_dismissed =
        async |shop: &Source, name: &RefName| inbox(&ledger).is_dismissed(shop, name).await.expect("answered");
    for is_put_aside in [true, false] {
        let mut racing = JoinSet::new();
        for _ in 0..RACERS {
            let (ledger, mug) = (ledger.clone(), mug.clone());
            racing.spawn(async move { inbox(&ledger).dismiss(&shop(), &mug, is_put_aside, edit()).await });
        }
        assert!(racing.join_all().await.iter().all(Result::is_ok));
        assert_eq!(is_dismissed(&shop(), &mug).await, is_put_aside);
        assert!(!is_dismissed(&"paddle".parse().expect("a platform"), &mug).await);
        assert!(!is_dismissed(&shop(), &"plink_MUG".parse().expect("a name")).await);
    }
    let said = actions(&ledger).await;
    assert!(said.is_none_or(|said| said == [Action::DismissalLifted, Action::Dismissed]));
}

async fn events_that_are_done_are_pruned_and_what_they_came_to_stays(ledger: Port) {
    receive(&ledger, paid("evt_1", "A", Links::default())).await;
    receive(&ledger, refunded("evt_2", ChargeRef::Order(name("A")))).await;
    receive(&ledger, inbound("evt_3", Some(Handling::Wait("no product".to_owned())))).await;
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
    let yesterday = now() - TimeDelta::days(1);
    let sold = |event: &str, order: &str, at, total| {
        let charged = Charged { at, total: Some(total), ..charged(order, Links::default()) };
        inbound(event, Some(Handling::Apply(vec![Report::Charged(charged)])))
    };
    for (event, order, at, total) in [
        ("evt_1", "A", yesterday, amount(1250, "EUR")),
        ("evt_2", "B", yesterday, amount(50, "EUR")),
        ("evt_3", "C", yesterday, amount(7, "JPY")),
        ("evt_4", "D", now(), amount(1, "EUR")),
        ("evt_5", "E", now() - TimeDelta::days(9), amount(1, "EUR")),
        // The platform sends an event again, and reports a sale in a second event.
        ("evt_1", "A", yesterday, amount(1250, "EUR")),
        ("evt_6", "B", yesterday, amount(50, "EUR")),
    ] {
        receive(&ledger, sold(event, order, at, total)).await;
    }
    receive(&ledger, refunded("evt_7", ChargeRef::Order(name("A")))).await;
    let office = ledger.office().expect("an office");
    let figures = office.figures(now() - TimeDelta::days(7), now()).await.expect("counted");
    let [before, today] = [yesterday, now()].map(|at| at.date_naive());
    let expected = [(before, amount(1300, "EUR")), (before, amount(7, "JPY")), (today, amount(1, "EUR"))];
    assert_eq!(figures.revenue, expected);

    // A checkout session and its invoice are one payment, even if they are reported one after the other.
    let links =
        |is_first| Links { subscription: Some(name("S")), invoice: Some(name("inv")), is_first, ..Links::default() };
    for (event, order, is_first) in [("evt_8", "session", false), ("evt_9", "inv", true)] {
        let charged = Charged { total: Some(amount(900, "USD")), ..charged(order, links(is_first)) };
        receive(&ledger, inbound(event, Some(Handling::Apply(vec![Report::Charged(charged)])))).await;
        let figures = office.figures(now(), now()).await.expect("counted");
        assert_eq!(figures.revenue, [(today, amount(1, "EUR")), (today, amount(900, "USD"))], "{order}");
    }
    // Two sales turn out to belong to one subscription. Each of the two payments still counts once.
    for (event, order) in [("evt_10", "X"), ("evt_11", "Y")] {
        receive(&ledger, sold(event, order, now(), amount(5, "CHF"))).await;
    }
    for (event, order) in [("evt_12", "X"), ("evt_13", "Y")] {
        let links = Links { order: Some(name(order)), subscription: Some(name("T")), ..Links::default() };
        receive(&ledger, inbound(event, Some(Handling::Apply(vec![Report::Linked(links)])))).await;
    }
    let figures = office.figures(now(), now()).await.expect("counted");
    assert_eq!(figures.revenue.first(), Some(&(today, amount(10, "CHF"))));
}
