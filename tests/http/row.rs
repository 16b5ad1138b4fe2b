//! A row of the table.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;

use crate::shop::Shop;

/// A request, how often it is sent, and from where. Its name is the behaviour; its snapshot the last answer.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: &'static str,
    pub line: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
    times: usize,
    before: Option<(&'static str, String)>,
    peer: &'static str,
    wait: Duration,
    broken: bool,
}

/// A request by its first line, without body.
pub fn row(name: &'static str, line: &'static str) -> Row {
    Row {
        name,
        line,
        headers: Vec::new(),
        body: String::new(),
        times: 1,
        before: None,
        peer: "192.0.2.1",
        wait: Duration::ZERO,
        broken: false,
    }
}

impl Row {
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// With a JSON body.
    pub fn json(self, body: impl Into<String>) -> Self {
        self.body(body).header("content-type", "application/json")
    }

    pub fn body(self, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// By the seller, with a JSON body.
    pub fn by_seller(self, body: impl Into<String>) -> Self {
        self.json(body).header("authorization", "Bearer {ADMIN}")
    }

    /// Sent so many times; the last answer counts.
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// After a webhook call with this body.
    pub fn after_order(self, body: impl Into<String>) -> Self {
        Self { before: Some(("POST /api/webhook/order", body.into())), ..self }
    }

    pub fn from(self, peer: &'static str) -> Self {
        Self { peer, ..self }
    }

    /// The last time after so long.
    pub fn last_after(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// While the store is away.
    pub fn store_away(self) -> Self {
        Self { broken: true, ..self }
    }

    /// Plays the row in a shop of its own.
    pub async fn play(&self) -> String {
        let shop = Shop::open(self.broken).await;
        let before = shop.effects().await;
        if let Some((line, body)) = &self.before {
            let json = [("content-type", "application/json")];
            shop.send(request(&shop, line, &json, body), self.peer).await;
        }
        let mut answer = String::new();
        for time in 1..=self.times {
            if time == self.times {
                shop.clock.advance(self.wait);
            }
            answer = shop.send(request(&shop, self.line, &self.headers, &self.body), self.peer).await;
        }
        let after = shop.effects().await;
        let effects = if before == after { format!("{before}, as before") } else { format!("{before} -> {after}") };
        format!("{answer}\n\n({effects})")
    }
}

fn request(shop: &Shop, line: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let (method, target) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(shop.fill(target));
    for (name, value) in headers {
        request = request.header(*name, shop.fill(value));
    }
    request.body(Body::from(shop.fill(body))).unwrap()
}
