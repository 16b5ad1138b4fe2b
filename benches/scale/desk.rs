//! Measures pages of the desk in a filled store. Ten thousand messages wait, and a platform was refused.

use async_trait::async_trait;
use delivery_core::Delivery;
use delivery_core::http::{Call, Endpoint, Page, PlatformPath, Reply};
use delivery_core::key::Actor;
use delivery_core::seller::{Head, Seller};
use http::{HeaderValue, Method, header};

use crate::fill::{id, timed};
use crate::{Figure, figure};

/// Calls of a page; the median counts.
const CALLS: usize = 9;

/// A host that signs in everybody.
#[derive(Debug)]
pub struct Everybody;

#[async_trait]
impl Seller for Everybody {
    async fn authenticate(&self, _: &Head<'_>) -> Option<Actor> {
        Some(Actor::admin())
    }
}

pub async fn pages(delivery: &Delivery, any: i64) -> Vec<Figure> {
    let stripe = Endpoint::Platform(PlatformPath::new("/api/webhook/stripe").unwrap());
    let forged = stripe.call(delivery, Call { body: "{}".into(), ..Call::new(Method::POST) }).await;
    assert_eq!(forged.status(), 401);
    let look = |page: Page, query: String| async move {
        Endpoint::Page(page).call(delivery, Call::new(Method::GET).query(query)).await
    };
    let (first, took) = timed(look(Page::Overview, String::new())).await;
    assert_eq!(first.status(), 200);
    let mut figures = vec![figure("page: the first overview after a start", took.as_secs_f64() * 1e3, "ms")];
    for (what, page, query) in [
        ("the overview", Page::Overview, String::new()),
        ("setup", Page::Setup, String::new()),
        ("keys", Page::Keys, String::new()),
        ("a key", Page::Key, format!("id={}", id(any))),
        ("events of platforms", Page::Events, String::new()),
        ("events of a platform with few", Page::Events, "platform=gumroad".to_owned()),
        ("messages", Page::Messages, String::new()),
        ("messages that wait", Page::Messages, "state=queued".to_owned()),
        ("audit log", Page::Audit, String::new()),
    ] {
        figures.push(median(what, async || look(page, query.clone()).await).await);
    }
    let keys = look(Page::Keys, String::new()).await;
    let keys = String::from_utf8(keys.body().into_owned()).unwrap();
    let csrf = keys.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    for (what, typed) in [
        ("a search by order", format!("order-{any}")),
        ("a search that finds nothing", "nobody@example.com".to_owned()),
        ("a search by the beginning that a tenth of all addresses have", "buyer1".to_owned()),
    ] {
        let body = format!("csrf={csrf}&q={}", typed.replace('@', "%40"));
        figures.push(median(what, async || Endpoint::Page(Page::Keys).call(delivery, form(&body)).await).await);
    }
    figures
}

fn form(body: &str) -> Call {
    let call = Call { body: body.to_owned().into(), ..Call::new(Method::POST) };
    call.header(header::ORIGIN, HeaderValue::from_static("http://localhost"))
        .header(header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"))
}

async fn median(what: &str, call: impl AsyncFn() -> Reply) -> Figure {
    let mut all = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let (reply, took) = timed(call()).await;
        assert!(matches!(reply.status().as_u16(), 200 | 303), "{what}: {}", reply.status());
        all.push(took);
    }
    all.sort_unstable();
    figure(&format!("page: {what}"), all[CALLS / 2].as_secs_f64() * 1e3, "ms")
}
