//! The text of a key has one spelling, and nothing else verifies.

#![no_main]

use std::sync::LazyLock;

use delivery_core::key::{KeyId, Keyring, Prefix};
use libfuzzer_sys::fuzz_target;

static OLD: LazyLock<Keyring> = LazyLock::new(|| ring(&["an old secret for fuzzing"]));
static RING: LazyLock<Keyring> = LazyLock::new(|| ring(&["a secret for fuzzing", "an old secret for fuzzing"]));

fn ring(secrets: &[&str]) -> Keyring {
    let secrets: Vec<_> = secrets.iter().map(|secret| secret.parse().unwrap()).collect();
    Keyring::new(Prefix::default(), &secrets).unwrap()
}

/// The texts of a key of each secret.
fn texts(id: KeyId) -> [String; 2] {
    [&*OLD, &*RING].map(|ring| ring.text(id, ring.newest()).expose().to_owned())
}

fuzz_target!(|input: ([u8; 16], String, u8, u8)| {
    let (id, text, place, byte) = input;
    // Whatever it is: if it verifies, it is what we would have written.
    if let Some(id) = RING.verify(&text) {
        assert!(texts(id).contains(&text), "another spelling");
    }
    // Ours, and ours with a byte changed.
    let id = KeyId::from_bytes(id);
    for ours in texts(id) {
        assert_eq!(RING.verify(&ours), Some(id));
        let mut bytes = ours.clone().into_bytes();
        let place = usize::from(place) % bytes.len();
        bytes[place] = byte;
        if let Some(changed) = String::from_utf8(bytes).ok().filter(|changed| *changed != ours) {
            assert!(RING.verify(&changed).is_none(), "a changed key verifies");
        }
    }
});
