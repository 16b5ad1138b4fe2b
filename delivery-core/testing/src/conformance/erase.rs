//! How persons are erased.

use delivery_core::email::Email;
use delivery_core::key::{Change, Key, KeyId, NewKey, Refusal};
use delivery_core::ledger::{
    Action, ChargeRef, Charged, Customer, Edit, EventOutcome, Handling, InboundEvent, InboxEvent, Links, MessageId,
    MessageKind, NewSale, Notice, Outcome, Refund, Report, Resend, Route, Successor,
};
use delivery_core::order::OrderId;
use delivery_core::store::{AuditQuery, InboxQuery, KeyQuery, MessageQuery};

use super::events::{charged, inbound, name, shop};
use super::fixtures::{
    WholePort, alias, alice, apply, at, e_mail, edit, find, imported, key, now, order, records, revoke, rotate, sell,
    successor, use_at,
};

pub(super) async fn an_erased_person_is_nowhere_and_counts_stay(store: WholePort) {
    let [ada, shouted]: [Email; 2] =
        ["ada@example.com", "ADA@example.com"].map(|email| email.parse().expect("an address"));
    let pseudonym: Email = "erased-1@erased.invalid".parse().expect("an address");
    let of = |index, email: &Email| NewKey { email: email.clone(), ..key(index, 3) };
    let sold = sell(&store, of(1, &ada).bought_with(order("A")), "1").await;
    let other = sell(&store, key(2, 3), "2").await;
    let shouting = sell(&store, of(3, &shouted), "3").await;
    let corrected = sell(&store, of(4, &ada), "4").await;
    // Of Ada's e-mails, one is sent, one fails with a reply that contains her address, and two wait.
    let claimed = store.claim_messages(at(1), at(6), 2).await.expect("claimed");
    store.complete_message(claimed[0].lease, Outcome::Sent { at: at(1) }).await.expect("completed");
    let reason = "550 5.1.1 <ADA@example.com>: no such user".to_owned();
    store.resend(sold, resend_now("5")).await.expect("queued").expect("known").expect("not revoked");
    store.complete_message(claimed[1].lease, Outcome::Sent { at: at(1) }).await.expect("completed");
    let mut claimed = store.claim_messages(at(2), at(7), 1).await.expect("claimed");
    let fail = Outcome::Fail { at: at(2), reason, route: Route::from_bytes([1; 16]) };
    store.complete_message(claimed.remove(0).lease, fail).await.expect("completed");
    store.resend(other, resend_now("6")).await.expect("queued").expect("known").expect("not revoked");
    apply(&store, sold, use_at(at(1))).await.expect("allowed");
    let email: Email = "lovelace@example.com".parse().expect("an address");
    apply(&store, corrected, Change::SetEmail { at: at(1), by: alice(), email }).await.expect("allowed");
    for id in [shouting, corrected] {
        let told = format!("asked for by {ada}").parse().ok();
        apply(&store, id, Change::Revoke { at: at(1), reason: told, by: alice() }).await.expect("allowed");
    }
    // Ada is a customer of a platform. Some of the waiting sales name her address or her reference; the others are of
    // other persons.
    let reference: OrderId = r#"cus\_"1"#.parse().expect("a reference");
    let customer = Customer { source: shop(), reference: reference.clone(), email: ada.clone(), told_at: now() };
    event(&store, "evt_1", "{}", Handling::Remember(customer)).await;
    for (name, body) in [
        ("evt_2", r#"{"buyer":{"email":"Ada@example.com","customer":null}}"#),
        ("evt_3", r#"{"buyer":{"email":null,"customer":"cus\\_\"1"}}"#),
        ("evt_4", r#"{"buyer":{"email":"hada@example.com","customer":"cus\\_\"12"},"note":"of ada@example.com"}"#),
        ("evt_5", r#"{"buyer":{"email":"Ada <ADA@example.com>"}}"#),
        ("evt_6", r#"[{"paid":{"buyer":{"email":" ada@example.com"}}}]"#),
        ("evt_7", r#"{"buyer":{"email":"ada@example.com.au"}}"#),
    ] {
        event(&store, name, body, Handling::Wait("no product is called so".to_owned())).await;
    }
    event(&store, "evt_8", r#"{"buyer":{"email":"ada@example.com"}}"#, Handling::Dismiss).await;
    event(&store, "evt_9", r#"{"buyer":{"email":"ada@example.com"}}"#, Handling::Test).await;

    let mut erased = records(&store).erase(&shouted, &pseudonym, Edit::new(alice(), at(9))).await.expect("erased");
    erased.sort_unstable();
    assert_eq!(erased, [sold, shouting]);
    let all = KeyQuery { limit: 99, ..KeyQuery::default() };
    let keys = store.search(&all).await.expect("found").items;
    let messages = records(&store).messages(&MessageQuery { limit: 99, ..MessageQuery::default() }).await;
    let audit = records(&store).audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.expect("read").items;
    let inbox = store.office().expect("an inbox");
    let events = inbox.events(&InboxQuery { limit: 99, ..InboxQuery::default() }).await.expect("listed").items;
    let messages = messages.expect("listed").items;
    let shown = format!("{keys:?} {messages:?} {audit:?}").to_lowercase();
    // `Debug` shows only the domain of an address.
    assert!(!shown.contains("ada@"), "{shown}");
    for key in &keys {
        assert!(!key.email().is_same(&ada), "{}", key.id());
    }
    for message in &messages {
        assert!(!message.recipient.to_string().to_lowercase().contains("ada@"), "{message:?}");
    }
    let sold = find(&store, sold).await;
    assert_eq!((sold.email(), sold.used()), (&pseudonym, 1));
    assert_eq!(find(&store, other).await.email(), &key(2, 3).email);
    // The order still has its key, and the e-mails that waited for Ada are not sent.
    let replay = NewSale::new(of(9, &ada).bought_with(order("A")), e_mail("9"));
    assert_eq!(store.issue(replay).await.expect("answered").into_key(), sold);
    let waiting = store.claim_messages(at(99), at(104), 9).await.expect("claimed");
    let waiting: Vec<KeyId> = waiting.iter().map(|message| message.key.id()).collect();
    assert_eq!(waiting, [corrected, other], "what goes to others is sent");
    assert_eq!(
        audit.first().map(|it| (it.action, it.actor.clone(), it.detail.clone())),
        Some((Action::CustomerErased, alice(), Some(pseudonym.to_string())))
    );
    assert_eq!(inbox.customer(&shop(), &reference).await.expect("read"), None);
    let waiting: Vec<_> = events.iter().filter(|it| it.body.is_some()).map(|it| it.id.name.as_str()).collect();
    assert_eq!(waiting, ["evt_7", "evt_4"], "an address that contains hers is another person's");
    let waiting: Vec<_> = events.iter().filter(|it| it.due_at.is_some()).map(|it| it.id.name.as_str()).collect();
    assert_eq!(waiting, ["evt_7", "evt_4"]);
    // Erasing again finds nobody.
    assert_eq!(records(&store).erase(&ada, &pseudonym, edit()).await.expect("erased"), []);
}

fn resend_now(name: &str) -> Resend {
    Resend { at: at(1), by: alice(), email: None, messages: e_mail(name), corrected: Vec::new() }
}

/// Receives a platform event with this body. Returns the event as it is in the inbox now.
async fn event(store: &WholePort, name: &str, body: &str, step: impl Into<Option<Handling>>) -> InboxEvent {
    let inbound = inbound(name, step.into());
    let event = InboxEvent { body: Some(body.to_owned()), ..inbound.event };
    store.receive(InboundEvent { event, ..inbound }).await.expect("kept").event
}

/// No key shows that the buyer of these sales was erased. Their deals show it, even after their events were pruned.
pub(super) async fn a_sale_without_a_key_of_an_erased_person_is_never_kept_again(store: WholePort) {
    let [ada, pseudonym]: [Email; 2] =
        ["ada@example.com", "erased-1@erased.invalid"].map(|email| email.parse().expect("an address"));
    let applies = |report: Report| Handling::Apply(vec![report]);
    let waits = |order: &str| {
        let missing = Some("no product is called so".to_owned());
        let charged = Charged { offers: Vec::new(), missing, ..charged(order, Links::default()) };
        Some(applies(Report::Charged(charged)))
    };
    let of = |email: &str, order: &str| format!(r#"{{"paid":{{"order":"{order}","buyer":{{"email":"{email}"}}}}}}"#);
    // The payments of B and E have a deal before the orders have one. The two deals of B turn out to be one after the
    // erasure, those of E before it.
    let payment = |order: &str| name(&format!("pi {order}"));
    for order in ["B", "E"] {
        let refund = Refund::of(ChargeRef::Payment(payment(order)), false, None);
        event(&store, &format!("{order} part"), "{}", applies(Report::Refunded(refund))).await;
    }
    let link = async |order: &str| {
        let links = Links { order: Some(name(order)), payment: Some(payment(order)), ..Links::default() };
        event(&store, &format!("{order} link"), "{}", applies(Report::Linked(links))).await;
    };
    for (order, step) in
        [("A", waits("A")), ("B", None), ("C", Some(Handling::Dismiss)), ("D", Some(Handling::Test)), ("E", waits("E"))]
    {
        let kept = event(&store, order, &of("Ada@example.com", order), step).await;
        assert!(kept.body.is_some(), "{order}");
    }
    link("E").await;
    event(&store, "F", &of("bob@example.com", "F"), waits("F")).await;
    assert_eq!(records(&store).erase(&ada, &pseudonym, edit()).await.expect("erased"), []);
    store.office().expect("an inbox").prune_inbox(at(1)).await.expect("pruned");
    link("B").await;
    for order in ["A", "B", "C", "D", "E"] {
        for (round, step) in [waits(order), Some(Handling::Dismiss), Some(Handling::Test)].into_iter().enumerate() {
            let again = event(&store, &format!("{order} {round}"), &of("ada@example.com", order), step).await;
            let came_to = (again.outcome, again.body, again.due_at);
            assert_eq!(came_to, (Some(EventOutcome::Ignored), None, None), "{order} {round}");
        }
    }
    let other = event(&store, "F again", &of("bob@example.com", "F"), waits("F")).await;
    assert!(other.body.is_some(), "the sale of another person");
}

/// Addresses are compared without regard to the case of ASCII letters. Other letters match only themselves, whatever
/// the language of the database.
pub(super) async fn addresses_in_any_script_are_found_and_erased(store: WholePort) {
    let addresses = ["Ömer@example.com", "ÖMER@example.com", "ömer@example.com", "IŞIL@example.com"];
    let mut ids = Vec::new();
    for (index, address) in (1..).zip(addresses) {
        let granted = NewKey { email: address.parse().expect("an address"), ..key(index, 3) };
        ids.push(sell(&store, granted, &index.to_string()).await);
    }
    let pseudonym: Email = "erased-1@erased.invalid".parse().expect("an address");
    let found = async |address: &str| -> Vec<KeyId> {
        let query = KeyQuery { email: address.parse().ok(), limit: 9, ..KeyQuery::default() };
        store.search(&query).await.expect("searched").items.iter().map(Key::id).collect()
    };
    for (address, same) in
        [("Ömer@example.com", vec![ids[1], ids[0]]), ("ömer@EXAMPLE.com", vec![ids[2]]), ("işil@example.com", vec![])]
    {
        assert_eq!(found(address).await, same, "{address}");
    }
    for (address, mut same) in [("ÖMEr@example.com", vec![ids[0], ids[1]]), ("IŞIL@example.com", vec![ids[3]])] {
        let email = address.parse().expect("an address");
        let mut erased = records(&store).erase(&email, &pseudonym, edit()).await.expect("erased");
        erased.sort_unstable();
        same.sort_unstable();
        assert_eq!(erased, same, "{address}");
        assert_eq!(found(address).await, []);
    }
    assert_eq!(found("ömer@example.com").await, [ids[2]]);
}

/// An audit entry about another person's longer address, which contains this one, is erased only with that person.
pub(super) async fn who_has_a_longer_address_is_erased_alone(store: WholePort) {
    let [ann, joann]: [Email; 2] = ["ann@example.com", "joann@example.com"].map(|it| it.parse().expect("an address"));
    let id = sell(&store, NewKey { email: joann.clone(), ..key(1, 3) }, "1").await;
    apply(&store, id, Change::SetEmail { at: at(1), by: alice(), email: ann.clone() }).await.expect("allowed");
    let details = async || {
        let query = AuditQuery { key: Some(id), limit: 9, ..AuditQuery::default() };
        let audit = records(&store).audit(&query).await.expect("read").items;
        audit.into_iter().map(|entry| entry.detail.unwrap_or_default()).collect::<Vec<_>>()
    };
    let recipient = async || {
        let query = MessageQuery { limit: 9, ..MessageQuery::default() };
        records(&store).messages(&query).await.expect("read").items[0].recipient.to_string()
    };
    let [first, second]: [Email; 2] =
        ["erased-1@erased.invalid", "erased-2@erased.invalid"].map(|it| it.parse().expect("an address"));
    assert_eq!(records(&store).erase(&ann, &first, edit()).await.expect("erased"), [id]);
    assert_eq!((details().await, recipient().await), (vec!["was joann@example.com".to_owned()], joann.to_string()));
    assert_eq!(records(&store).erase(&joann, &second, edit()).await.expect("erased"), []);
    assert_eq!((details().await, recipient().await), (vec![format!("was {second}")], second.to_string()));
}

/// The buyer of an imported key may have no other text of it. A key that is revoked needs no text.
pub(super) async fn an_erased_person_keeps_the_aliases_of_keys_that_work(store: WholePort) {
    let email: Email = "ada@example.com".parse().expect("an address");
    let of = |index| NewKey { email: email.clone(), ..key(index, 3) };
    for (index, granted) in [(1, of(1)), (2, of(2)), (3, key(3, 3))] {
        store.issue(imported(granted, index)).await.expect("issued");
    }
    let (valid, revoked, other) = (of(1).id, of(2).id, key(3, 3).id);
    for id in [revoked, other] {
        apply(&store, id, revoke(at(1), None)).await.expect("allowed");
    }
    let aliases = store.office().expect("aliases");
    assert_eq!(aliases.alias(&[alias(2)]).await.expect("read"), Some(revoked));
    let pseudonym: Email = "erased-1@erased.invalid".parse().expect("an address");
    records(&store).erase(&email, &pseudonym, edit()).await.expect("erased");
    for (index, id) in [(1, Some(valid)), (2, None), (3, Some(other))] {
        assert_eq!(aliases.alias(&[alias(index)]).await.expect("read"), id, "{index}");
    }
}

pub(super) async fn nothing_is_sent_to_a_person_who_was_erased(store: WholePort) {
    let id = sell(&store, key(1, 3), "1").await;
    let email = key(1, 3).email;
    let pseudonym: Email = "erased-1@erased.invalid".parse().expect("an address");
    records(&store).erase(&email, &pseudonym, edit()).await.expect("erased");
    let refused = store.resend(id, resend_now("2")).await.expect("answered").expect("known").expect_err("refused");
    assert_eq!(refused.refusal, Refusal::NoAddress);
    let heir = key(2, 1).id;
    let messages = vec![Notice::email(MessageId::new("3@example.com").expect("an id"), MessageKind::Successor)];
    rotate(&store, id, Successor { messages, ..successor(heir, at(2), alice()) }).await;
    assert_eq!(store.claim_messages(at(3), at(8), 9).await.expect("claimed").len(), 0);
    // A buyer who has a new address gets e-mails again.
    let resend = Resend { email: "new@example.com".parse().ok(), ..resend_now("4") };
    store.resend(heir, resend).await.expect("answered").expect("known").expect("allowed");
    let due = store.claim_messages(at(4), at(9), 9).await.expect("claimed");
    assert_eq!(due.iter().map(|it| it.recipient.to_string()).collect::<Vec<_>>(), ["new@example.com"]);
}
