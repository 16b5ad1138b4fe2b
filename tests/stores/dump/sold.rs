//! What a store sells.

use delivery_core::key::{Alias, Fingerprint, KeyId, Keyring, NewKey};
use delivery_core::ledger::{Imported, NewSale, Notice};
use delivery_core::order::{OrderRef, Source};
use delivery_core::product::ProductId;
use delivery_core::terms::{Terms, UseLimit, Validity};

use crate::fixtures::{e_mail, now};

/// More than one chunk of keys and of uses, so that there are borders to fall at.
pub const KEYS: u128 = 10_050;
pub const USES: i64 = 21_000;
/// How many of the keys have an alias.
pub const ALIASES: u8 = 11;

pub fn keyring(secret: &str) -> Keyring {
    secret.parse().unwrap()
}

/// Fingerprints of the secret that signs what is sold.
pub fn secrets() -> Vec<Fingerprint> {
    keyring("a secret that signs keys").fingerprints()
}

pub fn id(index: u128) -> KeyId {
    // Not in the order of their numbers.
    KeyId::from_bytes((index.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).to_be_bytes())
}

pub fn product(id: i64) -> ProductId {
    ProductId::new(id).unwrap()
}

pub fn order(index: u128) -> NewKey {
    let uses = if index.is_multiple_of(3) { -1 } else { 1_000 };
    let terms = Terms { validity: Validity::from_days(30).unwrap(), limit: UseLimit::from_count(uses).unwrap() };
    let email = format!("buyer{}@exämple.com", index % 1_000).parse().unwrap();
    let key =
        NewKey::on_terms((id(index), keyring("a secret that signs keys").newest()), product(1), email, terms, now());
    match index % 7 {
        0 => key,
        _ => key.bought_with(OrderRef { source: Source::webhook(), id: format!("№ {index}").parse().unwrap() }),
    }
}

pub fn message(index: u128) -> Vec<Notice> {
    if index % 2 == 1 { e_mail(&format!("e-mail-{index}")) } else { Vec::new() }
}

pub fn alias(number: u8) -> Alias {
    Alias::from_bytes([number; 32])
}

/// The sale of a key. Every thousandth has an alias, and no message.
pub fn sold(index: u128) -> NewSale {
    let number = (index % 1_000 == 2).then(|| u8::try_from(index / 1_000).unwrap());
    let imported = number.map(|number| Imported { used: 0, alias: Some(alias(number)) });
    NewSale { imported, ..NewSale::new(order(index), message(index)) }
}
