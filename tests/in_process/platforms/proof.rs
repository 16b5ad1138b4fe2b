//! What proves a body, as each platform signs it.

use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Every platform signs with it.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}

/// The header fields and the query by which the platform proves `body` at a time, in seconds since 1970. Those that sign as Standard
/// Webhooks do sign the event's `id`, too.
pub fn proof(platform: &str, body: &[u8], time: i64, id: &str) -> (Vec<(&'static str, String)>, String) {
    let (text, time) = (SECRET.as_bytes(), time.to_string());
    let hex = |parts: &[&[u8]]| HEXLOWER.encode(&mac(text, parts));
    let base64 = |parts: &[&[u8]]| BASE64.encode(&mac(text, parts));
    let standard = || {
        let key = BASE64.decode(SECRET.trim_start_matches("whsec_").as_bytes()).unwrap();
        let signature = BASE64.encode(&mac(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", body]));
        vec![
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", time.clone()),
            ("webhook-signature", format!("v1,{signature}")),
        ]
    };
    let headers = match platform {
        "stripe" => vec![("stripe-signature", format!("t={time},v1={}", hex(&[time.as_bytes(), b".", body])))],
        "paddle" => vec![("paddle-signature", format!("ts={time};h1={}", hex(&[time.as_bytes(), b":", body])))],
        "lemonsqueezy" => vec![("x-signature", hex(&[body]))],
        "shopify" => vec![("x-shopify-hmac-sha256", base64(&[body]))],
        "woocommerce" => vec![("x-wc-webhook-signature", base64(&[body]))],
        "gumroad" => return (Vec::new(), format!("token={SECRET}")),
        _ => standard(),
    };
    (headers, String::new())
}
