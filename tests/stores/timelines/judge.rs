//! What must be true of keys, of the inbox and of e-mails.

use std::fmt::Debug;

use super::file::{End, Expected, Standing};
use super::shop::{Key, Shop};

/// Whether the keys of a product are as expected. Where the events did not come in their order, orders may each have issued a key
/// before it was known that they are of one subscription, and what was revoked may never have been issued.
pub async fn keys(shop: &Shop, product: i64, expected: &Expected, is_shuffled: bool) -> Result<(), String> {
    let keys: Vec<Key> = shop.keys().await.into_iter().filter(|key| key.product_id == product).collect();
    let standing: Vec<&Key> = keys.iter().filter(|key| key.status != "revoked").collect();
    let told: Vec<_> = keys.iter().map(|key| format!("{} until {}", key.status, key.expires_at)).collect();
    let wrong = |expected: &str| Err(format!("product {product}: its keys are {told:?}, and should be {expected}"));
    let (status, answer) = match expected.status {
        Standing::Valid => ("valid", 200),
        Standing::Expired => ("expired", 403),
        Standing::Absent if !is_shuffled => return if keys.is_empty() { Ok(()) } else { wrong("none at all") },
        Standing::Revoked if !is_shuffled && keys.is_empty() => return wrong("revoked"),
        Standing::Absent | Standing::Revoked => return if standing.is_empty() { Ok(()) } else { wrong("revoked") },
    };
    let are_enough = standing.len() == expected.keys || is_shuffled && standing.len() > expected.keys;
    let last = standing.iter().max_by(|one, other| one.expires_at.cmp(&other.expires_at));
    let Some(key) = last.filter(|_| are_enough) else {
        return wrong(&format!("{} that are not revoked", expected.keys));
    };
    let expires_at = expected.expires_at.as_ref().unwrap_or(&key.expires_at);
    if (key.status.as_str(), &key.expires_at) != (status, expires_at) {
        return wrong(&format!("{status} until {expires_at}"));
    }
    let uses = (expected.used.unwrap_or(key.used_count), expected.remaining.unwrap_or(key.remaining_uses));
    if (key.used_count, key.remaining_uses) != uses {
        return Err(format!("product {product}: {key:?} should have (used, remaining) {uses:?}"));
    }
    if expected.keys == 1 {
        let (answered, told) = shop.validate(&shop.text_of(key)?).await;
        let is_same = told["valid"] == (answer == 200) && told["expires_at"] == key.expires_at.as_str();
        if answered != answer || !is_same {
            return Err(format!("product {product}: validate answers {answered} {told} of {key:?}"));
        }
    }
    Ok(())
}

/// What is wrong at the end.
pub async fn end(shop: &Shop, end: &End) -> Vec<String> {
    let (kinds, mut to) = (shop.kinds().await, shop.recipients());
    let of_kind = |name: &str| kinds.iter().filter(|kind| *kind == name).count();
    let mut wrong = vec![
        differ("events that need attention", &shop.waiting().await.len(), end.attention.as_ref()),
        differ("e-mails about keys that expire", &of_kind("expiring"), end.notices.as_ref()),
        differ("e-mails about purchases", &of_kind("purchase"), end.mails.as_ref()),
        differ("e-mails", &to.len(), end.letters.as_ref()),
    ];
    to.sort();
    to.dedup();
    wrong.push(differ("addresses of e-mails", &to, end.to.as_ref()));
    let keys = shop.keys().await;
    for (product, expected) in &end.keys {
        for (status, count) in expected {
            let is_so = |key: &&Key| key.product_id == *product && (status == "revoked") == (key.status == "revoked");
            let found = keys.iter().filter(is_so).count();
            wrong.push(differ(&format!("keys of product {product} that are {status}"), &found, Some(count)));
        }
    }
    for (product, limit) in &end.uses {
        let limits = keys.iter().filter(|key| key.product_id == *product).map(|key| key.max_uses);
        let (found, expected) = (limits.collect::<Vec<_>>(), vec![*limit]);
        wrong.push(differ(&format!("uses of the keys of product {product}"), &found, Some(&expected)));
    }
    wrong.into_iter().flatten().collect()
}

fn differ<T: Debug + PartialEq>(what: &str, found: &T, expected: Option<&T>) -> Option<String> {
    let expected = expected.filter(|expected| *expected != found)?;
    Some(format!("{what}: {found:?}, and should be {expected:?}"))
}
