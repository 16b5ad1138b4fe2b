//! A row of the table.

use std::time::Duration;

use delivery_core::store::StoreError;
use delivery_testing::Fault;
use http::Request;

use crate::host::Framework;
use crate::shop::Shop;
use crate::shortened::without_platforms;

/// The type of a form.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// A request, how often it is sent, and from where; and the last answer. Its name is the behaviour.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub name: String,
    pub line: String,
    pub kind: Kind,
    /// How the answer differs from the usual one of its kind.
    pub limit: Option<&'static str>,
    pub left: Option<u32>,
    pub leaves: Option<[u32; 3]>,
    /// What is different from the answer of the row that it is like.
    pub differences: Vec<(String, String)>,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: String,
    pub times: usize,
    pub before: Vec<Before>,
    pub peer: &'static str,
    pub wait: Duration,
    pub last_header: Option<(&'static str, &'static str)>,
    pub fault: Fault,
    pub signs_in: bool,
    pub then: Option<&'static str>,
    pub follows: Option<&'static str>,
    pub has_all_platforms: bool,
}

#[derive(Debug, Clone, Default)]
pub enum Kind {
    /// The snapshot named after the row.
    #[default]
    Snapshot,
    Like(&'static str),
    Gives(String),
    Refused(&'static str, String),
    LeadsTo(&'static str),
}

/// What is sent first: a line, a content type and a body.
#[derive(Debug, Clone)]
pub struct Before {
    line: String,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

/// A request by its first line, without body.
pub fn row(name: impl Into<String>, line: impl Into<String>) -> Row {
    Row { name: name.into(), line: line.into(), times: 1, peer: "192.0.2.1", ..Row::default() }
}

/// Rows of an endpoint that takes GET: a name, and a query.
pub fn query(group: &str, path: &str) -> impl Fn(&str, &str) -> Row {
    move |name, query| row(format!("{group}::{name}"), format!("GET {path}{query}"))
}

/// Rows of a command of the seller: a name, and a JSON body.
pub fn command(group: &str, path: &str) -> impl Fn(&str, &str) -> Row {
    move |name, body| row(format!("{group}::{name}"), format!("POST /api/admin/{path}")).by_seller(body)
}

impl Row {
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// With a JSON body.
    pub fn json(self, body: impl Into<String>) -> Self {
        self.typed("application/json", body)
    }

    /// With a body of this type.
    pub fn typed(self, content_type: &'static str, body: impl Into<String>) -> Self {
        self.body(body).header("content-type", content_type)
    }

    /// With a name for the request, so that it counts once.
    pub fn named(self, name: &'static str) -> Self {
        self.header("idempotency-key", name)
    }

    pub fn body(self, body: impl Into<String>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// By the seller, with a JSON body.
    pub fn by_seller(self, body: impl Into<String>) -> Self {
        self.json(body).with_token()
    }

    /// Sent so many times; the last answer counts.
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// At the desk, by a seller who is signed in: `{SESSION}`, `{CSRF}`, and `{FORM}` with `{FORM_CSRF}` for the sign-in form.
    pub fn at_desk(self) -> Self {
        Self { signs_in: true, ..self }.header("cookie", "desk={SESSION}")
    }

    /// At the desk, with another cookie.
    pub fn at_desk_with(self, cookie: &'static str) -> Self {
        Self { signs_in: true, ..self }.header("cookie", cookie)
    }

    /// With a form, sent by a page of ours.
    pub fn form(self, body: impl Into<String>) -> Self {
        self.form_from("http://localhost", body)
    }

    /// With a form, sent by a page of this origin.
    pub fn form_from(self, origin: &'static str, body: impl Into<String>) -> Self {
        self.typed(FORM, body).header("origin", origin)
    }

    /// With a form of the desk.
    pub fn sends(self, body: impl Into<String>) -> Self {
        let body: String = body.into();
        self.at_desk().form(format!("{body}&csrf={{CSRF}}"))
    }

    /// By the seller, without a body.
    pub fn with_token(self) -> Self {
        self.header("authorization", "Bearer {ADMIN}")
    }

    /// After a webhook call with this body.
    pub fn after_order(self, body: impl Into<String>) -> Self {
        self.after("POST /api/webhook/order", "application/json", body)
    }

    /// After an event of a platform.
    pub fn after_event(self, form: impl Into<String>) -> Self {
        let line = "POST /api/webhook/gumroad?token=the-platforms-token";
        self.after(line, FORM, form)
    }

    /// After a command of the seller.
    pub fn after_command(self, path: &str, body: impl Into<String>) -> Self {
        self.after(&format!("POST /api/admin/{path}"), "application/json", body)
    }

    /// With terms of the valid key under which the host's own rule allows one use.
    pub fn usable_once(self) -> Self {
        self.after_command("key/change", r#"{"id":"{VALID_ID}","max_uses":777}"#)
    }

    /// After the one use that the host's own rule allows.
    pub fn after_the_only_use(self) -> Self {
        self.after_request("GET /api/product?key={VALID}&product_id=1", "accept", "*/*").usable_once()
    }

    /// After an upload of a file to the first product.
    pub fn after_file(self, name: &str, content_type: &'static str, content: &str) -> Self {
        self.after(&format!("PUT /api/admin/product/file?product_id=1&name={name}"), content_type, content)
    }

    /// After this request, with this header.
    pub fn after_request(mut self, line: &str, name: &'static str, value: &'static str) -> Self {
        self.before.push(Before { line: line.to_owned(), headers: vec![(name, value)], body: String::new() });
        self
    }

    fn after(mut self, line: &str, content_type: &'static str, body: impl Into<String>) -> Self {
        let headers = vec![("content-type", content_type), ("authorization", "Bearer {ADMIN}")];
        self.before.push(Before { line: line.to_owned(), headers, body: body.into() });
        self
    }

    pub fn from(self, peer: &'static str) -> Self {
        Self { peer, ..self }
    }

    /// The last time after so long.
    pub fn last_after(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// The last time with one more header.
    pub fn last_header(self, name: &'static str, value: &'static str) -> Self {
        Self { last_header: Some((name, value)), ..self }
    }

    /// With the answer to a look at another page afterwards in place of its own.
    pub fn then(self, line: &'static str) -> Self {
        Self { then: Some(line), ..self }
    }

    /// With the answer to a look at the page that the answer leads to, with the row's cookie and the one that the answer sets, and in its language. `more` is added to the
    /// page's address. The row waits before it looks.
    pub fn followed(self, more: &'static str) -> Self {
        Self { follows: Some(more), ..self }
    }

    /// Compared with its lists of platforms, which other rows leave out.
    pub fn with_all_platforms(self) -> Self {
        Self { has_all_platforms: true, ..self }
    }

    /// While the store is away.
    pub fn store_away(self) -> Self {
        Self { fault: Fault::Before(StoreError::unavailable("switched off")), ..self }
    }

    /// While the store answers nonsense.
    pub fn store_corrupt(self) -> Self {
        Self { fault: Fault::Before(StoreError::corrupt("cursed")), ..self }
    }

    /// While the store, the host's own, panics.
    pub fn store_panicking(self) -> Self {
        Self { fault: Fault::Panic, ..self }
    }

    /// In a host that manages products and posts elsewhere.
    pub fn catalog_elsewhere(self) -> Self {
        Self { fault: Fault::Before(StoreError::Unsupported), ..self }
    }

    /// Plays the row in a shop of its own: the answer and its effects, and what is expected there.
    pub async fn play(&self, framework: Framework) -> (String, String) {
        let mut shop = Shop::open(framework, self.fault.clone()).await;
        let before = shop.effects().await;
        if self.signs_in {
            shop.sign_in().await;
        }
        for Before { line, headers, body } in &self.before {
            shop.store.heal();
            shop.send(request(&shop, line, headers, body), self.peer).await;
            shop.look().await;
        }
        shop.store.otherwise(self.fault.clone());
        let mut answer = String::new();
        let mut headers = self.headers.clone();
        for time in 1..=self.times {
            if time == self.times {
                shop.clock.advance(if self.follows.is_none() { self.wait } else { Duration::ZERO });
                headers.extend(self.last_header);
            }
            answer = shop.send(request(&shop, &self.line, &headers, &self.body), self.peer).await;
        }
        if let Some(line) = self.then {
            answer = shop.send(request(&shop, line, &headers, ""), self.peer).await;
        }
        if let Some(more) = self.follows {
            let field = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            let page = field("location: ").unwrap();
            shop.clock.advance(self.wait);
            let mut look = Request::builder().uri(format!("{page}{more}"));
            for (name, value) in headers.iter().filter(|(name, _)| ["accept-language", "cookie"].contains(name)) {
                look = look.header(*name, bytes(&shop.fill(value)));
            }
            if let Some(cookie) = field("set-cookie: ") {
                look = look.header("cookie", cookie.split(';').next().unwrap());
            }
            answer = shop.send(look.body(String::new()).unwrap(), self.peer).await;
        }
        let after = shop.effects().await;
        let effects = if before == after { format!("{before}, as before") } else { format!("{before} -> {after}") };
        let answers = [format!("{answer}\n\n({effects})"), self.expected(|text| shop.fill(text))];
        answers.map(|answer| if self.has_all_platforms { answer } else { without_platforms(&answer) }).into()
    }
}

fn request(shop: &Shop, line: &str, headers: &[(&str, &str)], body: &str) -> Request<String> {
    let (method, target) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(shop.fill(target));
    for (name, value) in headers {
        request = request.header(*name, bytes(&shop.fill(value)));
    }
    request.body(shop.fill(body)).unwrap()
}

/// A header's value, in which `\u{ff}` stands for the byte, which is no UTF-8.
fn bytes(value: &str) -> Vec<u8> {
    value.split('\u{ff}').map(str::as_bytes).collect::<Vec<_>>().join(&0xff_u8)
}
