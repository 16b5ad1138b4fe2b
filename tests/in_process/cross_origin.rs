//! Pages of other origins: what browsers are told.

use delivery_core::CrossOrigin;
use delivery_core::http::{Call, Endpoint};
use delivery_core::limit::{Quota, Quotas};
use delivery_testing::Shop;
use http::{Method, header};

use super::calls::header_of;

const SHOP: &str = "https://shop.example";

async fn shop(origins: &str) -> Shop {
    let quotas = Quotas { validate: Quota::per_minute(1).unwrap(), ..Quotas::default() };
    Shop::with(|builder| match origins {
        "" => builder.quotas(quotas),
        origins => builder.quotas(quotas).cross_origin(origins.parse().unwrap()),
    })
    .await
}

fn from(method: Method, origin: &str) -> Call {
    Call::new(method).header(header::ORIGIN, origin.parse().unwrap())
}

fn preflight(origin: &str) -> Call {
    from(Method::OPTIONS, origin).header(header::ACCESS_CONTROL_REQUEST_METHOD, "GET".parse().unwrap())
}

#[tokio::test]
async fn the_origins_that_are_set_may_call_the_endpoints_for_buyers_and_nothing_else() {
    let both = "https://shop.example, http://localhost:8080";
    for (origins, origin, endpoint, allowed) in [
        (both, SHOP, Endpoint::Products, Some(SHOP)),
        (both, "http://localhost:8080", Endpoint::Posts, Some("http://localhost:8080")),
        (both, SHOP, Endpoint::Validate, Some(SHOP)),
        (both, SHOP, Endpoint::Product, Some(SHOP)),
        (both, "https://other.example", Endpoint::Products, None),
        (both, "https://shop.example.evil.example", Endpoint::Products, None),
        (both, "null", Endpoint::Products, None),
        ("*", "https://other.example", Endpoint::Validate, Some("*")),
        ("*", SHOP, Endpoint::Keys, None),
        ("*", SHOP, Endpoint::IssueKey, None),
        ("*", SHOP, Endpoint::Order, None),
        ("*", SHOP, Endpoint::Resend, None),
        ("", SHOP, Endpoint::Products, None),
    ] {
        let shop = shop(origins).await;
        let asked = endpoint.call(&shop.delivery, preflight(origin)).await;
        let what = format!("{origins}: {origin} {}", endpoint.path());
        assert_eq!(header_of(&asked, "access-control-allow-origin"), allowed, "{what}");
        assert_eq!(asked.status().as_u16(), if allowed.is_some() { 204 } else { 405 }, "{what}");
        if allowed.is_some() {
            assert_eq!(header_of(&asked, "access-control-allow-methods"), Some("GET, HEAD"));
            assert_eq!(
                header_of(&asked, "access-control-allow-headers"),
                Some("authorization, x-api-key, idempotency-key")
            );
        }
        let reply = endpoint.call(&shop.delivery, from(Method::GET, origin)).await;
        assert_eq!(header_of(&reply, "access-control-allow-origin"), allowed, "{what}");
        let exposed = header_of(&reply, "access-control-expose-headers");
        let expected = allowed.map(|_| "retry-after, ratelimit, ratelimit-policy, x-request-id");
        assert_eq!(exposed, expected, "{what}");
        assert_eq!(header_of(&reply, "access-control-allow-credentials"), None, "{what}");
    }
}

/// A refusal is read by the page too, and a preflight counts against no limit.
#[tokio::test]
async fn a_page_reads_refusals_and_asks_as_often_as_it_likes() {
    let shop = shop(SHOP).await;
    let statuses = async |call: fn() -> Call| {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            let reply = Endpoint::Validate.call(&shop.delivery, call()).await;
            assert_eq!(header_of(&reply, "access-control-allow-origin"), Some(SHOP));
            assert_eq!(header_of(&reply, "vary"), Some("origin"));
            statuses.push(reply.status().as_u16());
        }
        statuses
    };
    assert_eq!(statuses(|| preflight(SHOP)).await, [204, 204, 204]);
    assert_eq!(statuses(|| from(Method::GET, SHOP)).await, [400, 429, 429]);
    let without = Endpoint::Products.call(&shop.delivery, Call::new(Method::GET)).await;
    let fields = ["vary", "access-control-allow-origin"].map(|name| header_of(&without, name));
    assert_eq!(fields, [Some("origin"), None]);
}

#[test]
fn origins_are_addresses_without_a_path() {
    for (list, are_origins) in [
        ("https://shop.example", true),
        ("https://shop.example/", true),
        ("HTTPS://Shop.example:443", true),
        ("http://127.0.0.1:3000 , https://bücher.example", true),
        ("*", true),
        ("", false),
        ("shop.example", false),
        ("https://shop.example/shop", false),
        ("https://user@shop.example", false),
        ("https://shop.example?x", false),
        ("https://*.shop.example", false),
        ("null", false),
        ("file:///x", false),
        ("https://shop.example,*", false),
        ("https://shop.example,", false),
    ] {
        assert_eq!(list.parse::<CrossOrigin>().is_ok(), are_origins, "{list}");
    }
}
