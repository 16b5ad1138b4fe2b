//! The values that templates may use.

use chrono::{DateTime, Datelike, Utc};
use minijinja::{Value, context};

use crate::clock::timestamp;
use crate::key::{Key, KeyText};
use crate::product::Product;
use crate::terms::NEVER;

/// A key that an e-mail shows, with what was sold.
#[derive(Clone, Copy)]
pub(in crate::mail) struct Shown<'a> {
    pub(in crate::mail) key: &'a Key,
    pub(in crate::mail) text: &'a KeyText,
    pub(in crate::mail) product: &'a Product,
}

/// The values of an e-mail to `email`.
pub(super) fn values(keys: &[Shown<'_>], email: &str, base_url: &str, language: &str) -> Value {
    all(keys.iter().map(|shown| value(*shown)).collect(), (email, base_url, language))
}

/// Examples that every template must take: a key that ends and is used, one that does neither, and several.
pub(super) fn examples() -> [Value; 3] {
    let example = |ends: bool| {
        let at = "2027-11-21T10:00:00Z".parse().unwrap_or(DateTime::UNIX_EPOCH);
        context! {
            key => "dlv_example",
            product => context! { id => 1, name => "Example", description => "" },
            ..terms(if ends { at } else { NEVER }, if ends { (3, 1) } else { (-1, 0) })
        }
    };
    let all = |keys| all(keys, ("buyer@example.com", "https://shop.example", "en"));
    [all(vec![example(true)]), all(vec![example(false)]), all(vec![example(true), example(false)])]
}

fn all(keys: Vec<Value>, (email, base_url, language): (&str, &str, &str)) -> Value {
    let first = keys.first().cloned().unwrap_or_default();
    context! { keys, email, base_url, language, ..first }
}

fn value(Shown { key, text, product }: Shown<'_>) -> Value {
    context! {
        key => text.expose(),
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
