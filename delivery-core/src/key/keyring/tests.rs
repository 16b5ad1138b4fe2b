//! Tests which texts a keyring verifies, and which keyrings a store accepts.

use proptest::prelude::*;

use super::super::Acceptance;
use super::*;

fn parsed(secrets: &[&str]) -> Vec<SigningSecret> {
    secrets.iter().map(|secret| secret.parse().unwrap()).collect()
}

fn keyring(secrets: &[&str]) -> Keyring {
    Keyring::new(Prefix::default(), &parsed(secrets)).unwrap()
}

const OLD: &str = "the first signing secret";
const NEW: &str = "the second signing secret";

proptest! {
    #[test]
    fn a_minted_key_verifies_and_shows_its_id(id: [u8; 16]) {
        let keyring = keyring(&[NEW, OLD]);
        let text = keyring.text(KeyId::from_bytes(id), keyring.newest());
        prop_assert_eq!(keyring.verify(text.expose()), Some(KeyId::from_bytes(id)));
        prop_assert_eq!(text.expose().len(), "dlv_".len() + SYMBOLS);
    }

    #[test]
    fn no_other_text_is_accepted(text in "(dlv_)?[0-9a-zA-Z_-]{0,60}") {
        prop_assert_eq!(keyring(&[OLD]).verify(&text), None);
    }

    #[test]
    fn every_change_of_one_character_is_refused(
        id: [u8; 16],
        at in 0_usize..52,
        to: char,
    ) {
        let keyring = keyring(&[OLD]);
        let text = keyring.text(KeyId::from_bytes(id), keyring.newest());
        let mut changed: Vec<char> = text.expose().chars().collect();
        prop_assume!(changed[at] != to);
        changed[at] = to;
        prop_assert_eq!(keyring.verify(&changed.iter().collect::<String>()), None);
        changed.remove(at);
        prop_assert_eq!(keyring.verify(&changed.into_iter().collect::<String>()), None);
    }
}

#[test]
fn every_single_symbol_in_every_place_is_refused() {
    let keyring = keyring(&[OLD]);
    let text = keyring.text(KeyId::from_bytes([0x5a; 16]), keyring.newest());
    for at in 0..text.expose().len() {
        for to in 0..128_u8 {
            let mut changed = text.expose().as_bytes().to_vec();
            if std::mem::replace(&mut changed[at], to) != to {
                assert_eq!(keyring.verify(std::str::from_utf8(&changed).unwrap()), None, "{at} {to}");
            }
        }
    }
}

#[test]
fn secrets_rotate_without_renumbering() {
    let id = KeyId::from_bytes([1; 16]);
    let (first, both, second) = (keyring(&[OLD]), keyring(&[NEW, OLD]), keyring(&[NEW]));
    let old_text = first.text(id, first.newest());
    assert!(both.verify(old_text.expose()).is_some());
    assert_eq!(both.text(id, first.newest()), old_text, "a replayed order shows the text it was issued with");
    let new_text = both.text(id, both.newest());
    assert_ne!(new_text, old_text);
    assert!(second.verify(new_text.expose()).is_some());
    assert!(second.verify(old_text.expose()).is_none(), "a retired secret verifies nothing");
    assert_eq!(second.text(id, first.newest()), new_text);
}

#[test]
fn a_store_is_opened_by_a_ring_that_has_the_secret_which_signed_most_recently() {
    let (first, both, second) =
        (keyring(&[OLD]).fingerprints(), keyring(&[NEW, OLD]).fingerprints(), keyring(&[NEW]).fingerprints());
    let [old, new] = [keyring(&[OLD]).newest(), keyring(&[NEW]).newest()].map(Some);
    assert_eq!(first.iter().map(|it| Some(it.version())).collect::<Vec<_>>(), [old]);
    for (known, newest, keyring, accepted) in [
        (&vec![], None, &first, Acceptance::Accepted),
        (&first, old, &first, Acceptance::Accepted),
        (&first, old, &both, Acceptance::Accepted),
        // A secret that never signed a key may be missing from the keyring.
        (&both, old, &first, Acceptance::Accepted),
        (&both, None, &second, Acceptance::Accepted),
        (&both, old, &second, Acceptance::Retired),
        (&both, new, &second, Acceptance::Accepted),
        (&both, new, &first, Acceptance::Retired),
        (&first, old, &second, Acceptance::Foreign),
    ] {
        assert_eq!(Fingerprint::accepts(known, newest, keyring), accepted);
    }
}

#[test]
fn another_prefix_is_another_key() {
    let id = KeyId::from_bytes([1; 16]);
    let other = Keyring::new("shop".parse().unwrap(), &parsed(&[OLD])).unwrap();
    let text = other.text(id, other.newest());
    assert!(text.expose().starts_with("shop_"));
    assert!(keyring(&[OLD]).verify(&text.expose().replace("shop_", "dlv_")).is_none());
}

#[test]
fn rings_that_cannot_be_used() {
    let new = |secrets: &[&str]| Keyring::new(Prefix::default(), &parsed(secrets)).err();
    assert_eq!(new(&[]), Some(KeyringError::Empty));
    assert_eq!(new(&[OLD, OLD]), Some(KeyringError::Ambiguous));
    for prefix in ["", "has_underscore", "UPPER", "thirteenchars", "ünï"] {
        assert!(prefix.parse::<Prefix>().is_err());
    }
}

#[test]
fn nothing_secret_is_shown() {
    let keyring = keyring(&[OLD]);
    let text = keyring.text(KeyId::from_bytes([1; 16]), keyring.newest());
    assert_eq!(format!("{text:?} {:?}", keyring.fingerprints()), "KeyText(…) [Fingerprint(…)]");
    assert_eq!(format!("{keyring:?}"), r#"Keyring { prefix: "dlv", secrets: 1, .. }"#);
}

#[test]
fn a_text_from_elsewhere_is_not_in_our_form_and_has_an_alias_for_each_secret() {
    let (old, both) = (keyring(&[OLD]), keyring(&[NEW, OLD]));
    let ours = both.text(KeyId::from_bytes([7; 16]), both.newest());
    let forged = format!("dlv_{}", "0".repeat(SYMBOLS));
    for (text, is_ours, is_foreign) in [
        (ours.expose(), true, false),
        (forged.as_str(), true, false),
        (&forged[..forged.len() - 1], false, true),
        (&forged.to_uppercase(), false, true),
        ("LICENCE-0001", false, true),
        ("12345678", false, true),
        ("1234567", false, false),
        (&"x".repeat(512), false, true),
        (&"x".repeat(513), false, false),
        ("two\nlines of text", false, false),
    ] {
        assert_eq!((both.is_ours(text), both.is_foreign(text)), (is_ours, is_foreign), "{text}");
    }
    let aliases = both.aliases("LICENCE-0001");
    assert_eq!((aliases.len(), &aliases[1..]), (2, &old.aliases("LICENCE-0001")[..]));
    assert_ne!(aliases, both.aliases("LICENCE-0002"));
}
