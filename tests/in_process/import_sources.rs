//! The sources that rows of an import name.

use delivery_core::delivery::Import;
use delivery_core::order::Source;
use delivery_core::platform::{Platform, Received, Request, Unauthentic};
use delivery_testing::Shop;

use crate::import::{import, outcomes};
use crate::platforms::Own;

#[tokio::test]
async fn a_known_source_is_found_in_any_letter_case() {
    let shop = Shop::with(|builder| builder.platform(Own)).await;
    shop.paid("A").await;
    for (known, written, outcome) in [
        ("webhook", "Webhook", "existing"),
        ("stripe", "STRIPE", "existing"),
        ("own", "Own", "existing"),
        ("", "Import", "existing"),
        ("My Shop", "my shop", "issued"),
    ] {
        let row = |source: &str| format!("A,ada@example.com,1,{source},,,,,,");
        import(&shop.delivery, Import::default(), &[&row(known)]).await;
        let report = import(&shop.delivery, Import::default(), &[&row(written)]).await;
        assert_eq!(outcomes(&report), [outcome], "{written}");
    }
}

/// A host's own platform, whose name differs from that of a built-in one in its letter case only.
#[derive(Debug)]
struct Capital;

impl Platform for Capital {
    fn name(&self) -> Source {
        "Stripe".parse().unwrap()
    }

    fn read(&self, _: &Request<'_>) -> Result<Received, Unauthentic> {
        Err(Unauthentic)
    }
}

#[tokio::test]
async fn an_exact_source_comes_before_one_in_another_letter_case() {
    let shop = Shop::with(|builder| builder.platform(Capital)).await;
    for source in ["stripe", "Stripe"] {
        let row = format!("A,ada@example.com,1,{source},,,,,,");
        assert_eq!(outcomes(&import(&shop.delivery, Import::default(), &[&row]).await), ["issued"], "{source}");
        assert_eq!(outcomes(&import(&shop.delivery, Import::default(), &[&row]).await), ["existing"], "{source}");
    }
}
