//! Whatever stands in a query: an answer that is documented, and a product for nobody without a key.

#![no_main]

use std::sync::LazyLock;

use delivery_core::http::{Call, Endpoint};
use delivery_fuzz::Shop;
use libfuzzer_sys::fuzz_target;

static SHOP: LazyLock<Shop> = LazyLock::new(Shop::new);

fuzz_target!(|query: String| {
    // As if the fuzzer knew the keys.
    let query = query.replace("GOOD", &SHOP.good).replace("SPENT", &SHOP.spent);
    let endpoints = [Endpoint::Validate, Endpoint::Product, Endpoint::Posts, Endpoint::Products];
    for endpoint in endpoints {
        let (reply, answer) = SHOP.ask(endpoint, Call::new(http::Method::GET).query(&*query));
        let needs_a_key = matches!(endpoint, Endpoint::Validate | Endpoint::Product);
        if needs_a_key && reply.status() == 200 {
            // However it is written.
            let written = percent_decoded(&query);
            assert!(written.windows(SHOP.good.len()).any(|part| part == SHOP.good.as_bytes()), "{query}");
        }
        let said = answer.to_string();
        assert!(!said.contains(&SHOP.good) && !said.contains(&SHOP.spent), "an answer repeats a key");
    }
});

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match hex.filter(|_| *byte == b'%') {
            Some(decoded) => (bytes.push(decoded), rest = &tail[2..]).1,
            None => (bytes.push(*byte), rest = tail).1,
        }
    }
    bytes
}
