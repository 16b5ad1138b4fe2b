//! Proptest strategies for the values of `delivery-core`.
//!
//! ```
//! use delivery_testing::strategies;
//! use proptest::prelude::*;
//!
//! proptest!(|(key in strategies::key(), change in strategies::change())| {
//!     if let Ok(changed) = key.apply(&change) {
//!         prop_assert!(changed.used() <= key.used() + 1);
//!     }
//! });
//! ```

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use delivery_core::email::Email;
use delivery_core::error::ErrorCode;
use delivery_core::key::{Actor, Change, Key, KeyId, LimitChange, NewKey, Reason, SecretVersion, Status};
use delivery_core::ledger::{Addressee, MessageKind};
use delivery_core::observer::Event;
use delivery_core::order::{Order, OrderId, OrderRef, Source};
use delivery_core::post::NewPost;
use delivery_core::product::{File, FileName, MediaType, NewProduct, ObjectName, ProductId};
use delivery_core::store::{KeyQuery, Period};
use delivery_core::terms::{MAX_DAYS, MAX_USES, OwnTerms, Terms, UseLimit, Validity};
use delivery_core::{HostRef, Language};

/// Generates instants of the years 2020 to 2099, to the millisecond.
pub fn instant() -> impl Strategy<Value = DateTime<Utc>> {
    (1_577_836_800_000_i64..4_102_444_800_000)
        .prop_map(|milliseconds| DateTime::from_timestamp_millis(milliseconds).unwrap_or_default())
}

/// Generates the id of one of three products, so that a key and a change often have the same product.
pub fn product() -> impl Strategy<Value = ProductId> {
    (1_i64..4).prop_map(|id| ProductId::new(id).expect("1 or more"))
}

/// Generates one of eight file names. Some differ only in the case of letters.
pub fn file_name() -> impl Strategy<Value = FileName> {
    "[abAB]\\.(pdf|zip)".prop_map(|text| text.parse().expect("a name"))
}

/// Generates a file. Generated files have different objects, but often the same name.
pub fn file() -> impl Strategy<Value = File> {
    (any::<[u8; 16]>(), file_name(), 0..=u64::MAX >> 1, any::<[u8; 32]>(), instant()).prop_map(
        |(object, name, size, sha256, added_at)| File {
            object: ObjectName::from_bytes(object),
            name,
            size,
            sha256,
            media_type: MediaType::default(),
            added_at,
        },
    )
}

/// Generates one of six addresses.
pub fn email() -> impl Strategy<Value = Email> {
    "[a-c]@[a-b]\\.example".prop_map(|text| text.parse().expect("an address"))
}

/// Generates one of four orders.
pub fn order() -> impl Strategy<Value = OrderRef> {
    "[A-D]".prop_map(|id| OrderRef { source: Source::webhook(), id: id.parse::<OrderId>().expect("a number") })
}

/// Generates one of 20 names that a host application may give to a key or a product.
pub fn host_ref() -> impl Strategy<Value = HostRef> {
    "[a-d]{1,2}".prop_map(|text| text.parse().expect("a name"))
}

/// Generates a validity: mostly 1 to 3 days, sometimes up to [`MAX_DAYS`], sometimes without an end.
pub fn validity() -> impl Strategy<Value = Validity> {
    let days = prop_oneof![3 => 1..=3_i64, 1 => 1..=i64::from(MAX_DAYS), 1 => Just(-1)];
    days.prop_map(|days| Validity::from_days(days).expect("in range"))
}

/// Generates a use limit: mostly 1 to 4 uses, sometimes up to [`MAX_USES`], sometimes unlimited.
pub fn use_limit() -> impl Strategy<Value = UseLimit> {
    let uses = prop_oneof![3 => 1..=4_i64, 1 => 1..=i64::from(MAX_USES), 1 => Just(-1)];
    uses.prop_map(|uses| UseLimit::from_count(uses).expect("in range"))
}

/// Generates terms from [`validity`] and [`use_limit`].
pub fn terms() -> impl Strategy<Value = Terms> {
    (validity(), use_limit()).prop_map(|(validity, limit)| Terms { validity, limit })
}

/// Generates the terms of a product. The validity, the limit or both may be missing.
pub fn own_terms() -> impl Strategy<Value = OwnTerms> {
    (prop::option::of(validity()), prop::option::of(use_limit()))
        .prop_map(|(validity, limit)| OwnTerms { validity, limit })
}

/// Generates one of three actors.
pub fn actor() -> impl Strategy<Value = Actor> {
    let stripe = Actor::platform(&"stripe".parse().expect("a platform"));
    prop::sample::select(vec![Actor::admin(), "alice".parse().expect("a name"), stripe])
}

/// Generates one of two reasons.
pub fn reason() -> impl Strategy<Value = Reason> {
    prop::sample::select(vec!["refunded", "Rückbuchung'; --"]).prop_map(|text| text.parse().expect("a reason"))
}

/// Generates a change of a use limit: a new limit, or a number of uses to add.
pub fn limit_change() -> impl Strategy<Value = LimitChange> {
    (use_limit(), any::<bool>()).prop_map(|(limit, added)| match limit {
        UseLimit::Uses(uses) if added => LimitChange::Add(uses),
        limit => LimitChange::Set(limit),
    })
}

/// Generates a newly issued key.
pub fn new_key() -> impl Strategy<Value = NewKey> {
    (any::<[u8; 16]>(), product(), email(), prop::option::of(order()), prop::option::of(host_ref()), terms(), instant())
        .prop_map(|(id, product, email, order, host_ref, terms, issued_at)| {
            let identity = (KeyId::from_bytes(id), SecretVersion::from_stored(1));
            NewKey { order, host_ref, ..NewKey::on_terms(identity, product, email, terms, issued_at) }
        })
}

/// Generates a paid order for one of three products.
pub fn paid_order() -> impl Strategy<Value = Order> {
    (order(), product(), email()).prop_map(|(reference, product, email)| Order { reference, product, email })
}

/// Generates one of four languages of e-mails. Not all of them have built-in templates.
pub fn language() -> impl Strategy<Value = Language> {
    prop::sample::select(vec!["en", "de", "de-AT", "pt-BR"]).prop_map(|tag| tag.parse().expect("a language"))
}

/// Generates a product with short and long values in every field.
pub fn new_product() -> impl Strategy<Value = NewProduct> {
    let price = (0..1_000_000_000_i64, 0..=4_u32).prop_map(|(amount, scale)| {
        let digits = format!("{amount:05}");
        let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
        format!("{whole}.{fraction}0").parse().expect("a price")
    });
    let texts = ("\\PC{1,200}", "\\PC{0,300}", "\\PC{1,64}", hostile_text());
    let language = prop::option::of(language());
    (texts, price, own_terms(), prop::option::of(host_ref()), language).prop_map(
        |((name, about, kind, content), price, terms, name_of, language)| {
            let product =
                NewProduct::new(name).and_then(|product| product.description(about)?.kind(kind)?.content(content));
            let product = product.expect("within the rules").price(price).terms(terms);
            let product = match language {
                Some(language) => product.language(language),
                None => product,
            };
            match name_of {
                Some(host_ref) => product.host_ref(host_ref),
                None => product,
            }
        },
    )
}

/// Generates a post of one of two categories.
pub fn new_post() -> impl Strategy<Value = NewPost> {
    ("\\PC{1,200}", "news|tips", hostile_text(), instant()).prop_map(|(title, category, content, at)| {
        let post = NewPost::new(title, category.parse().expect("a category"), at);
        post.and_then(|post| post.content(content)).expect("within the rules")
    })
}

/// Generates a search for keys by any combination of fields, always for the first page.
pub fn key_query() -> impl Strategy<Value = KeyQuery> {
    let status = prop::sample::select(vec![Status::Valid, Status::Expired, Status::Exhausted, Status::Revoked]);
    let fields = (
        prop::option::of(email()),
        (prop::option::of(order()), any::<bool>()),
        prop::option::of(product()),
        prop::option::of((status, instant())),
        prop::option::of(host_ref()),
        prop::option::of((email(), 0..9_usize)),
        (prop::option::of(instant()), prop::option::of(instant())),
    );
    (fields, 0..20_usize).prop_map(|((email, (order, by_source), product, status, host_ref, begin, period), limit)| {
        let source = order.as_ref().filter(|_| by_source).map(|order| order.source.clone());
        let email_prefix = begin.map(|(email, length)| email.as_str().chars().take(length).collect());
        let (period, order) = (Period { since: period.0, until: period.1 }, order.map(|order| order.id));
        KeyQuery { email, order, source, product, status, host_ref, email_prefix, period, before: None, limit }
    })
}

/// Generates text that has broken software before: quotes, markup, template braces, other scripts, emoji, marks that
/// reverse the writing direction, and long runs of one character. The text has no control characters except line breaks
/// and tabs.
pub fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "'; DROP TABLE delivery_key; --",
        "\"><script>alert(1)</script>",
        "{{ key }}{% raw %}${x}",
        "../../etc/passwd",
        "%s%n%x",
        "\u{202e}gnp.exe",
        "Ünïcödé ß ﬁ",
        "日本語",
        "👩‍👩‍👧",
        "a\u{301}",
        "=cmd|' /C calc'!A0",
        ".\r\n.\r\nRCPT TO:<x@example.com>",
        "\t\n",
        "NULL",
    ]);
    let run = ("\\PC", 1..300_usize).prop_map(|(one, times)| one.repeat(times));
    prop::collection::vec(prop_oneof![3 => piece.prop_map(str::to_owned), 1 => run], 1..6).prop_map(|all| all.concat())
}

/// Generates a key that is valid for 1 to 3 days, and 1 to 19 uses. Some of the uses are after the key's expiry.
pub fn history_to_expiry() -> impl Strategy<Value = (NewKey, Vec<Change>)> {
    let soon = (1..=3_i64).prop_map(|days| Validity::from_days(days).expect("in range"));
    (new_key(), soon, use_limit()).prop_flat_map(|(key, validity, limit)| {
        let expires_at = validity.expiry(key.issued_at);
        let (issue, expiry) = (key.issued_at.timestamp_millis(), expires_at.timestamp_millis());
        let key = NewKey { expires_at, limit, ..key };
        // On average, half of the uses come before the expiry.
        let times = prop_oneof![issue..expiry, expiry..2 * expiry - issue, Just(expiry), Just(expiry - 1)];
        let times = times.prop_map(|at| DateTime::from_timestamp_millis(at).unwrap_or_default());
        let product = key.product;
        let uses = prop::collection::vec(times.prop_map(move |at| Change::use_of(product, at)), 1..20);
        (Just(key), uses)
    })
}

/// Generates a change at an [`instant`].
pub fn change() -> impl Strategy<Value = Change> {
    change_around(instant().boxed())
}

/// Generates a key after up to 19 changes. A change that the key refuses has no effect.
pub fn key() -> impl Strategy<Value = Key> {
    history()
        .prop_map(|(key, changes)| changes.iter().fold(Key::from(key), |key, change| key.apply(change).unwrap_or(key)))
}

/// Generates a key and a time at which the key may be used. The key is neither revoked nor used up, and has not expired
/// at that time.
pub fn valid_key() -> impl Strategy<Value = (Key, DateTime<Utc>)> {
    let fresh = new_key().prop_map(|key| {
        let at = key.issued_at.max(key.expires_at - TimeDelta::seconds(1));
        (Key::from(key), at)
    });
    let at = (key(), 0..3 * 86_400_i64).prop_map(|(key, after)| {
        let at = key.granted().issued_at + TimeDelta::seconds(after);
        (key, at)
    });
    prop_oneof![1 => fresh, 3 => at].prop_filter("a key that may be used", |(key, at)| key.check(*at).is_ok())
}

/// Generates a key, and up to 19 changes that need not be in the order of their times. Each change is between a second
/// before the key's issue and four days after it, or within a day before or after the key's expiry.
pub fn history() -> impl Strategy<Value = (NewKey, Vec<Change>)> {
    new_key().prop_flat_map(|key| {
        const DAY: i64 = 24 * 3_600_000;
        let (issue, expiry) = (key.issued_at.timestamp_millis(), key.expires_at.timestamp_millis());
        let times = prop_oneof![2 => issue - 1000..issue + 4 * DAY, 1 => expiry - DAY..expiry + DAY];
        let times = times.prop_map(|at| DateTime::from_timestamp_millis(at).unwrap_or_default()).boxed();
        (Just(key), prop::collection::vec(change_around(times), 0..20))
    })
}

fn change_around(times: BoxedStrategy<DateTime<Utc>>) -> impl Strategy<Value = Change> {
    let terms = (times.clone(), prop::option::of(times.clone()), prop::option::of(limit_change()));
    prop_oneof![
        12 => (product(), times.clone()).prop_map(|(product, at)| Change::use_of(product, at)),
        1 => (times.clone(), prop::option::of(reason()), actor()).prop_map(|(at, reason, by)| Change::Revoke { at, reason, by }),
        1 => (times.clone(), actor()).prop_map(|(at, by)| Change::Restore { at, by }),
        1 => (times, actor(), email()).prop_map(|(at, by, email)| Change::SetEmail { at, by, email }),
        1 => (terms, actor()).prop_map(|((at, expires_at, limit), by)| Change::SetTerms { at, by, expires_at, limit }),
    ]
}

fn addressee() -> impl Strategy<Value = Addressee> {
    let webhook = Addressee::Webhook("crm".parse().expect("a name"));
    prop::sample::select(vec![Addressee::Buyer, webhook])
}

/// Generates events of every kind, for tests of a host application's own observer.
pub fn event() -> impl Strategy<Value = Event> {
    let codes = prop::sample::select(&ErrorCode::ALL[..]);
    let kinds = prop::sample::select(vec![MessageKind::Purchase, MessageKind::KeyIssued, MessageKind::KeyRevoked]);
    prop_oneof![
        key().prop_map(|key| Event::Issued { key }),
        key().prop_map(|key| Event::Used { key }),
        (prop::option::of(key()), codes).prop_map(|(key, code)| Event::Refused { key: key.map(|key| key.id()), code }),
        key().prop_map(|key| Event::Revoked { key }),
        key().prop_map(|key| Event::Restored { key }),
        key().prop_map(|key| Event::TermsChanged { key }),
        key().prop_map(|key| Event::EmailChanged { key }),
        (key(), kinds.clone(), addressee(), 1_u32..20).prop_map(|(key, kind, to, attempt)| Event::MessageSent {
            key: key.id(),
            kind,
            to,
            attempt
        }),
        (key(), kinds, addressee(), hostile_text()).prop_map(|(key, kind, to, reason)| Event::MessageFailed {
            key: key.id(),
            kind,
            to,
            reason
        }),
    ]
}
