//! An address that is accepted is one that a mail client of others accepts, and has one spelling.

#![no_main]

use delivery_core::email::Email;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: String| {
    let Ok(email) = text.parse::<Email>() else { return };
    let address = email.as_str();
    assert!(address.len() <= 254);
    assert!(!address.contains(|c: char| c.is_control() || c.is_whitespace() || "<>()[],;:\\\"".contains(c)));
    let (local, domain) = address.split_once('@').unwrap();
    assert!((1..=64).contains(&local.len()) && domain.is_ascii() && !domain.contains('@') && domain.contains('.'));
    assert_eq!(domain, domain.to_ascii_lowercase());
    assert_eq!(domain, email.domain());
    assert_eq!(address.parse::<Email>().as_ref(), Ok(&email), "one spelling");
    assert_eq!((email.local(), email.domain()), (local, domain));
    // lettre does not know marks, which follow letters in many scripts, and counts the quotes.
    let quoted = email.quoted_local();
    if local.is_ascii() && quoted.len() <= 64 {
        let understood: lettre::Address = format!("{quoted}@{domain}").parse().expect("lettre accepts it");
        assert_eq!((understood.user(), understood.domain()), (&*quoted, domain));
    }
});
