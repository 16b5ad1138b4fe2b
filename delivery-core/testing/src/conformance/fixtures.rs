//! Keys, orders and calls that cases share.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use delivery_core::key::{Actor, Alias, Change, Key, KeyId, NewKey, SecretVersion};
use delivery_core::ledger::{Edit, Imported, Issue, MessageId, NewSale, Notice, Refused, Successor};
use delivery_core::order::{OrderRef, Source};
use delivery_core::product::ProductId;
use delivery_core::store::{CatalogEditor, KeyQuery, Ledger, Posts, Records};
use delivery_core::terms::{Terms, UseLimit, Validity};

pub(super) type Port = Arc<dyn Ledger>;

pub(super) type WholePort = Arc<dyn Whole>;

pub(super) const RACERS: usize = 100;
/// The number of calls in a race that is run many times.
pub(super) const FEW: u32 = 16;

pub(super) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_255_200, 0).unwrap_or_default()
}

/// Returns the time this number of minutes after [`now`].
pub(super) fn at(minutes: i64) -> DateTime<Utc> {
    now() + TimeDelta::minutes(minutes)
}

/// Returns the time this number of days after [`now`].
pub(super) fn day(days: i64) -> DateTime<Utc> {
    now() + TimeDelta::days(days)
}

/// A store with a ledger, an editable catalog and posts.
pub trait Whole: Ledger + CatalogEditor + Posts {}

impl<S: Ledger + CatalogEditor + Posts> Whole for S {}

pub(super) fn records(store: &WholePort) -> &dyn Records {
    store.office().expect("records")
}

/// Returns the `index`th key of a test. A later key has a greater id, as with time-ordered ids.
pub(super) fn key(index: u8, uses: i64) -> NewKey {
    let mut id = [0x11; 16];
    id[0] = index;
    let limit = UseLimit::from_count(uses).expect("in range");
    let terms = Terms { validity: Validity::from_days(1).expect("in range"), limit };
    let email = format!("buyer{}@example.com", index % 2).parse().expect("an address");
    let issued_at = now() + TimeDelta::seconds(i64::from(index));
    NewKey::on_terms((KeyId::from_bytes(id), SecretVersion::from_stored(513)), product(1), email, terms, issued_at)
}

/// Returns a key of a race. It has another id than those of [`key`].
pub(super) fn numbered(number: u32, uses: i64) -> NewKey {
    let mut id = [0x22; 16];
    id[1..5].copy_from_slice(&number.to_be_bytes());
    NewKey { id: KeyId::from_bytes(id), ..key(0, uses) }
}

pub(super) fn product(id: i64) -> ProductId {
    ProductId::new(id).expect("1 or more")
}

pub(super) fn order(id: &str) -> OrderRef {
    OrderRef { source: Source::webhook(), id: id.parse().expect("a number") }
}

/// Returns a notice that sends the key by e-mail, in a message of this name.
pub(super) fn e_mail(name: &str) -> Vec<Notice> {
    vec![Notice::purchase(MessageId::new(format!("{name}@example.com")).expect("an id"))]
}

pub(super) fn use_at(at: DateTime<Utc>) -> Change {
    Change::use_of(product(1), at)
}

/// Issues a new key, without an e-mail.
pub(super) async fn issue(ledger: &Arc<impl Ledger + ?Sized>, key: NewKey) -> Key {
    match ledger.issue(NewSale::new(key, Vec::new())).await.expect("issued") {
        Issue::New(key) => key,
        Issue::Existing(_) => panic!("a new key was expected"),
    }
}

/// Returns the alias of the `index`th text of a test.
pub(super) fn alias(index: u8) -> Alias {
    Alias::from_bytes([index; 32])
}

/// Returns the sale of a key that was used twice elsewhere, with the `index`th alias and without an e-mail.
pub(super) fn imported(key: NewKey, index: u8) -> NewSale {
    NewSale { imported: Some(Imported { used: 2, alias: Some(alias(index)) }), ..NewSale::new(key, Vec::new()) }
}

/// Issues a key with its e-mail, in a message of this name.
pub(super) async fn sell(ledger: &Arc<impl Ledger + ?Sized>, key: NewKey, name: &str) -> KeyId {
    ledger.issue(NewSale::new(key, e_mail(name))).await.expect("issued").into_key().id()
}

/// Changes a key that the ledger has, without messages.
pub(super) async fn apply(ledger: &Arc<impl Ledger + ?Sized>, id: KeyId, change: Change) -> Result<Key, Refused> {
    ledger.change(id, change, Vec::new()).await.expect("answered").expect("known")
}

/// Finds a key that the ledger has.
pub(super) async fn find(ledger: &Arc<impl Ledger + ?Sized>, id: KeyId) -> Key {
    ledger.find(id).await.expect("found").expect("known")
}

/// Replaces a key that may be replaced.
pub(super) async fn rotate(ledger: &Arc<impl Ledger + ?Sized>, id: KeyId, successor: Successor) -> Issue {
    ledger.rotate(id, successor).await.expect("rotated").expect("known").expect("not revoked")
}

/// Returns a successor with this id, without messages.
pub(super) fn successor(id: KeyId, at: DateTime<Utc>, by: Actor) -> Successor {
    Successor { id, secret: key(0, 1).secret, at, by, messages: Vec::new(), withdrawn: Vec::new() }
}

/// Searches page by page, and returns all keys that are found.
pub(super) async fn search(ledger: &Arc<impl Ledger + ?Sized>, query: &KeyQuery) -> Vec<Key> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = ledger.search(&KeyQuery { before, ..query.clone() }).await.expect("searched");
        assert!(page.items.len() <= query.limit);
        found.extend(page.items);
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

/// Returns the times of all uses of a key, read in pages of this size.
pub(super) async fn history(ledger: &Port, id: KeyId, limit: usize) -> Vec<DateTime<Utc>> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let page = ledger.history(id, before, limit).await.expect("read");
        found.extend(page.items.iter().map(|used| used.at));
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}

pub(super) fn revoke(at: DateTime<Utc>, reason: Option<&str>) -> Change {
    Change::Revoke { at, reason: reason.map(|reason| reason.parse().expect("a reason")), by: Actor::admin() }
}

pub(super) fn alice() -> Actor {
    "alice".parse().expect("a name")
}

/// Returns an edit by the seller, made now.
pub(super) fn edit() -> Edit {
    Edit::new(Actor::admin(), now())
}
