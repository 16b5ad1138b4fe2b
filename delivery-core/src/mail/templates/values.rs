//! The values that templates may use.

use chrono::{DateTime, Datelike, Utc};
use minijinja::{Value, context};

use crate::clock::timestamp;
use crate::key::{Key, KeyText, Status};
use crate::product::Product;
use crate::terms::NEVER;

/// A key that an e-mail shows, with what was sold.
#[derive(Clone, Copy)]
pub(in crate::mail) struct Shown<'a> {
    pub(in crate::mail) key: &'a Key,
    /// What it is at the time of the e-mail.
    pub(in crate::mail) status: Status,
    pub(in crate::mail) text: &'a KeyText,
    /// Whether a subscription renews it.
    pub(in crate::mail) is_subscribed: bool,
    pub(in crate::mail) product: &'a Product,
}

/// Where buyers find the shop.
#[derive(Clone, Copy)]
pub(in crate::mail) struct Place<'a> {
    pub(in crate::mail) base_url: &'a str,
    /// Whether there is a page for buyers.
    pub(in crate::mail) has_page: bool,
}

/// The values of an e-mail to `email`.
pub(super) fn values(keys: &[Shown<'_>], email: &str, place: Place<'_>, language: &str) -> Value {
    all(keys.iter().map(|shown| value(*shown)).collect(), (email, place, language))
}

/// Examples that every template must take: a key that ends and is used, one that does neither, one that has expired, one that a
/// subscription renews, and several; with a page for buyers and without.
pub(super) fn examples() -> [Value; 6] {
    let example = |ends: bool, status: Status, subscribed: bool| {
        let at = "2027-11-21T10:00:00Z".parse().unwrap_or(DateTime::UNIX_EPOCH);
        context! {
            key => "dlv_example",
            status => status.as_str(),
            subscribed,
            product => context! { id => 1, name => "Example", description => "" },
            ..terms(if ends { at } else { NEVER }, if ends { (3, 1) } else { (-1, 0) })
        }
    };
    let all =
        |(keys, has_page)| all(keys, ("buyer@example.com", Place { base_url: "https://shop.example", has_page }, "en"));
    let [used, endless, over, renewed] = [
        (true, Status::Valid, false),
        (false, Status::Valid, false),
        (true, Status::Expired, false),
        (true, Status::Valid, true),
    ]
    .map(|(ends, status, subscribed)| example(ends, status, subscribed));
    [
        (vec![used.clone()], true),
        (vec![used.clone()], false),
        (vec![endless.clone()], true),
        (vec![over.clone()], true),
        (vec![renewed.clone()], true),
        (vec![used, endless, over, renewed], true),
    ]
    .map(all)
}

fn all(keys: Vec<Value>, (email, place, language): (&str, Place<'_>, &str)) -> Value {
    let first = keys.first().cloned().unwrap_or_default();
    let Place { base_url, has_page } = place;
    let page = has_page.then(|| format!("{base_url}/key"));
    context! { keys, email, base_url, page, language, ..first }
}

fn value(Shown { key, status, text, is_subscribed, product }: Shown<'_>) -> Value {
    context! {
        status => status.as_str(),
        key => text.expose(),
        subscribed => is_subscribed,
        product => context! {
            id => product.id().get(), name => product.name(), description => product.description()
        },
        ..terms(key.expires_at(), (key.limit().as_count(), key.used()))
    }
}

fn terms(expires_at: DateTime<Utc>, (max_uses, used_count): (i64, u64)) -> Value {
    let ends = (expires_at < NEVER).then(|| {
        context! {
            year => expires_at.year(), month => expires_at.month(), day => expires_at.day(),
            time => expires_at.format("%H:%M").to_string()
        }
    });
    let used = i64::try_from(used_count).unwrap_or(i64::MAX);
    let remaining_uses = if max_uses == -1 { -1 } else { max_uses.saturating_sub(used).max(0) };
    context! { expires_at => timestamp(expires_at), ends, max_uses, used_count, remaining_uses }
}
