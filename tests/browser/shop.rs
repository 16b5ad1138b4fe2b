//! A server, and what a seller has in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use delivery_core::clock::{Clock, SystemClock};
use hmac::{Hmac, KeyInit, Mac};
use mail_parser::MessageParser;
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;

use crate::browser::Browser;
use support::process::{JSON, PLENTY, Server, Site, TOKEN};
use support::wait_for;

const STRIPE: &str = "whsec_of-this-shop";
/// A name that is long, and one that is read from right to left.
const LONG: &str =
    "The complete illustrated field guide to embedded databases, their logs, locks and latches, second edition";
const ARABIC: &str = "دليل الميدان الشامل للمبرمجين";

/// All that a content may have that is hard to show.
const CONTENT: &str = "### Three\n\n| a | b | c | d |\n|---|---|---|---|\n| x | y | a-long-word-without-any-break-in-it | z |\n\n\
    `code` and [a link](https://example.com), ![](https://example.com/without-a-text.png), \
    [![alt](https://example.com/inside.png)](https://example.com)\n\n\
    ```\na line of code that is longer than any phone is wide, and longer than that, and longer than that, and longer still\n```\n\n\
    > quoted\n\n1. one\n2. two\n\n# One\n\n<b onclick=alert(1)>raw</b>";

/// Said in place of "the e-mail is on its way": these shops have no mail server.
pub const WRITTEN: &str = "It is done, but its e-mail only becomes a file here";

/// A running server of a seller's.
pub struct Shop {
    folder: Site,
    server: Server,
    /// The files of the seller's own computer, and what the buyer saves.
    files: TempDir,
    downloads: TempDir,
}

/// A page, and how one comes there.
#[derive(Debug, Clone)]
pub struct Page {
    pub name: String,
    path: String,
    /// The key that is typed there, and the buttons that are pressed then.
    typed: Option<(String, &'static [&'static str])>,
}

impl Page {
    pub async fn open(&self, browser: &Browser) {
        browser.go(&self.path).await;
        if let Some((key, buttons)) = &self.typed {
            browser.fill("Your key", key).await;
            for button in *buttons {
                browser.click(button).await;
            }
        }
    }
}

impl Shop {
    pub fn open(program: &'static str) -> Self {
        Self::open_with(program, &[])
    }

    /// With these settings too.
    pub fn open_with(program: &'static str, settings: &[(&str, &str)]) -> Self {
        let folder = Site::new(program);
        // One browser stands for all people here.
        let more = [
            ("STRIPE_SECRET", STRIPE),
            ("SHOP_NAME", "Ada's books"),
            // Too light to be read as it is.
            ("SHOP_COLOR", "#0099ff"),
            ("SUPPORT_EMAIL", "help@ada.example"),
            ("LIMIT_DESK", "100000"),
            ("LIMIT_EVENTS", "100000"),
        ];
        let server = folder.start_with(&[&more[..], &PLENTY, settings].concat());
        Self { folder, server, files: TempDir::new().unwrap(), downloads: TempDir::new().unwrap() }
    }

    pub fn site(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Writes a file that the seller has.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.files.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Where the buyer's browser saves files.
    pub fn downloads(&self) -> &Path {
        self.downloads.path()
    }

    /// What Stripe reports when somebody has paid by a payment link.
    pub fn is_paid(&self, number: &str, link: &str, email: &str) {
        let session = json!({
            "object": "checkout.session", "id": format!("cs_{number}"), "payment_status": "paid", "payment_link": link,
            "payment_intent": format!("pi_{number}"), "customer_details": { "email": email },
        });
        let event = json!({
            "id": format!("evt_{number}"), "object": "event", "livemode": true, "type": "checkout.session.completed",
            "data": { "object": session },
        });
        self.reports(&event);
    }

    /// What Stripe reports when all of that payment was given back.
    pub fn is_refunded(&self, number: &str) {
        let charge = json!({
            "object": "charge", "id": format!("ch_{number}"), "payment_intent": format!("pi_{number}"), "amount": 1900,
            "amount_captured": 1900, "amount_refunded": 1900, "captured": true, "refunded": true, "currency": "usd",
        });
        let event = json!({
            "id": format!("evt_refund_{number}"), "object": "event", "livemode": true, "type": "charge.refunded",
            "data": { "object": charge },
        });
        self.reports(&event);
    }

    /// Whether a sale that Gumroad reports with this token is accepted.
    pub fn is_sold_by_gumroad(&self, number: &str, token: &str, email: &str) -> bool {
        let sale = [("sale_id", number), ("resource_name", "sale"), ("permalink", "guide"), ("email", email)];
        let sale = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(sale).finish();
        self.server.call("POST", &format!("/api/webhook/gumroad?token={token}"), "", &sale).0 == 200
    }

    fn reports(&self, event: &Value) {
        let (body, now) = (event.to_string(), SystemClock::default().now().timestamp());
        let mut mac = Hmac::<Sha256>::new_from_slice(STRIPE.as_bytes()).unwrap();
        mac.update(format!("{now}.{body}").as_bytes());
        let signature = HEXLOWER.encode(&mac.finalize().into_bytes());
        let headers = format!("Stripe-Signature: t={now},v1={signature}\r\n{JSON}");
        assert_eq!(self.server.call("POST", "/api/webhook/stripe", &headers, &body).0, 200);
    }

    /// At a path below `/api/admin/`.
    pub fn by_seller(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.server.admin("POST", path, body);
        assert!((200..300).contains(&status), "{path}: {answer}");
        answer
    }

    /// The newest e-mail once there are so many: its subject, its HTML, and where its button leads.
    pub fn mail(&self, count: usize) -> (String, String) {
        let mut messages = Vec::new();
        wait_for(Duration::from_secs(30), || {
            messages = self.folder.messages();
            messages.len() >= count
        });
        assert_eq!(messages.len(), count, "e-mails");
        let parsed: Vec<_> = messages.iter().map(|text| MessageParser::default().parse(text).unwrap()).collect();
        let newest = parsed.iter().max_by_key(|message| message.date().map(mail_parser::DateTime::to_timestamp));
        let newest = newest.unwrap();
        let html = newest.body_html(0).unwrap();
        let button =
            html.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).find(|to| to.contains("/key#"));
        let path = button.expect("a button").trim_start_matches(&self.site()).to_owned();
        (newest.subject().unwrap().to_owned(), path)
    }

    /// Sales, refused events, long names and right-to-left text.
    pub fn fill(&self) {
        let product = |name: &str, refs: &[&str]| {
            let refs = json!({ "stripe": refs });
            let facts = json!({ "name": name, "content": CONTENT, "price": 12.50, "refs": refs });
            self.by_seller("product", &facts);
        };
        product(LONG, &["plink_long"]);
        product(ARABIC, &["plink_arabic"]);
        for name in [&format!("{}.pdf", "name-without-a-break".repeat(9)), ARABIC] {
            let name = url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>();
            for product in [1, 2] {
                let path = format!("/api/admin/product/file?product_id={product}&name={name}");
                let seller = format!("Authorization: Bearer {TOKEN}\r\n");
                assert_eq!(self.server.call("PUT", &path, &seller, "bytes").0, 200);
            }
        }
        let post = json!({ "title": LONG, "category": "releases", "content": "# Hello" });
        self.by_seller("post", &post);
        for number in 0..60 {
            let link = ["plink_long", "plink_arabic", "plink_unknown"][number % 3];
            let email = format!("buyer-number-{number}-with-a-long-name@long-domain.example");
            self.is_paid(&number.to_string(), link, &email);
        }
    }

    /// Every page, with a product, a key and an event, of a shop that was filled.
    pub async fn pages(&self, browser: &Browser) -> Vec<Page> {
        let desk = [
            "keys", "issue", "import", "products", "product", "posts", "post", "messages", "events", "audit", "setup",
            "erase", "email",
        ];
        let mut paths: Vec<String> = desk.map(|page| format!("/desk/{page}")).into();
        paths.extend(["/desk", "/key", "/key/lost", "/docs"].map(str::to_owned));
        browser.go("/desk/keys").await;
        let found = self.first(browser, "/desk/key?id=").await;
        let change = found.replace("/desk/key?", "/desk/key/change?");
        paths.extend(["revoke", "resend", "terms", "rotate"].map(|what| format!("{change}&do={what}")));
        paths.push(found);
        browser.go("/desk/product?id=1").await;
        paths.push(self.first(browser, "/desk/product/file/delete?").await);
        let issued = json!({ "product_id": 1, "customer_email": "ada@example.com", "max_uses": -1 });
        let issued = self.by_seller("issue-key", &issued);
        let key = issued["api_key"].as_str().unwrap();
        for (list, one, verb) in [
            ("/desk/products", "/desk/product?id=", Some("/archive?")),
            ("/desk/posts", "/desk/post?id=", Some("/delete?")),
            ("/desk/events?outcome=needs_attention", "/desk/event?id=", None),
        ] {
            browser.go(list).await;
            let found = self.first(browser, one).await;
            paths.extend(verb.map(|verb| found.replace('?', verb)));
            paths.push(found);
        }
        let mut pages: Vec<Page> =
            paths.into_iter().map(|path| Page { name: path.clone(), path, typed: None }).collect();
        let typed = |name: &str, key: &str, buttons| Page {
            name: name.to_owned(),
            path: "/key".to_owned(),
            typed: Some((key.to_owned(), buttons)),
        };
        pages.push(typed("a key that is not valid", "dlv_0", &["Continue"]));
        for (name, change) in [
            ("a key that has expired", json!({ "expires_at": "2026-01-01T00:00:00Z" })),
            ("a key that is used up", json!({ "max_uses": 1 })),
            ("a key that was revoked", Value::Null),
        ] {
            let (id, text) = self.issued();
            match change {
                Value::Null => drop(self.by_seller("key/revoke", &json!({ "id": id }))),
                mut change => {
                    change["id"] = json!(id);
                    self.by_seller("key/change", &change);
                }
            }
            let buttons: &[&str] = if name.contains("used up") { &["Continue", "Open"] } else { &["Continue"] };
            pages.push(typed(name, &text, buttons));
        }
        pages.push(typed("a key", key, &["Continue"]));
        pages.push(typed("what was bought", key, &["Continue", "Open"]));
        pages
    }

    /// A key that was issued by hand: its id and its text.
    fn issued(&self) -> (String, String) {
        let email = format!("{}@example.com", self.folder.messages().len());
        let issued = json!({ "product_id": 1, "customer_email": email, "send_email": false });
        let issued = self.by_seller("issue-key", &issued);
        let text = issued["api_key"].as_str().unwrap().to_owned();
        let (_, found) = self.server.admin("GET", &format!("keys?email={email}&limit=1"), &Value::Null);
        (found["keys"][0]["id"].as_str().unwrap().to_owned(), text)
    }

    /// Where the first link of the page leads that begins so.
    async fn first(&self, browser: &Browser, begins: &str) -> String {
        let script = format!("return document.querySelector('a[href^=\"{begins}\"]')?.getAttribute('href')");
        browser.run(&script).await.as_str().expect(begins).to_owned()
    }
}
