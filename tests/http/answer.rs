//! What a row is answered: its snapshot, the snapshot of another row with some differences, or a text that is put
//! together here.
//!
//! The tables say what the API promises. They take nothing from the code under test but the paths of the platforms.

use delivery_core::http::PlatformPath;

use crate::everywhere::LISTS;
use crate::row::{Kind, Row};

/// The codes: the status line, and the sentence of a code that has only one.
const CODES: [(&str, &str, &str); 17] = [
    ("MISSING_PARAMS", "400 Bad Request", ""),
    ("INVALID_PARAMS", "400 Bad Request", ""),
    ("INVALID_KEY", "401 Unauthorized", "The key is not valid."),
    ("UNAUTHORIZED", "401 Unauthorized", "The credentials are missing or wrong."),
    ("EXPIRED_KEY", "403 Forbidden", "The key has expired."),
    ("EXCEEDED_USES", "403 Forbidden", "All uses of the key are spent."),
    ("WRONG_PRODUCT", "403 Forbidden", "The key is for another product."),
    ("ONCE", "403 Forbidden", "This key can be used once."),
    ("REVOKED_KEY", "403 Forbidden", "The key was revoked."),
    ("NOT_FOUND", "404 Not Found", "There is no such thing."),
    ("METHOD_NOT_ALLOWED", "405 Method Not Allowed", "This address takes another method."),
    ("EXPIRED_TICKET", "410 Gone", "The link has expired: open the product again for a new one."),
    ("PAYLOAD_TOO_LARGE", "413 Payload Too Large", "The body is too large."),
    (
        "UNSUPPORTED_MEDIA_TYPE",
        "415 Unsupported Media Type",
        "The body must be application/json in UTF-8, not compressed.",
    ),
    ("RATE_LIMITED", "429 Too Many Requests", "Too many requests: try again after the time given."),
    ("INTERNAL", "500 Internal Server Error", "The request failed through no fault of yours."),
    ("UNAVAILABLE", "503 Service Unavailable", "The service is not available at the moment: try again shortly."),
];

/// The pages in place of one that cannot be shown: the status line, the title, and the sentence below it. The first
/// page is the snapshot of `desk_keys::status_made_up`, from which the others are made.
const PAGES: [(&str, &str, &str); 9] = [
    (
        "400 Bad Request",
        "This page cannot be shown",
        "Its address, or the form that was sent, is not complete. Go back and try again.",
    ),
    (
        "403 Forbidden",
        "This form cannot be sent",
        "It was not sent from this site, or it is too old. Go back, load the page again, and send it once more.",
    ),
    ("404 Not Found", "There is no such page", "It may have been moved or deleted."),
    ("405 Method Not Allowed", "This page does not do that", "Go back and follow the links of the page."),
    ("413 Payload Too Large", "That is too much", "The form is larger than this page takes."),
    ("415 Unsupported Media Type", "This form cannot be read", "Send it with the button of the page."),
    ("429 Too Many Requests", "Too many requests", "Wait a minute, and load the page again."),
    (
        "500 Internal Server Error",
        "Something went wrong",
        "Load the page again, and look whether it was done. The server's log says what went wrong.",
    ),
    (
        "503 Service Unavailable",
        "Not available now",
        "What you sent may not have been done. Wait a moment, load the page again, and look.",
    ),
];

/// The limits: requests a minute.
const LIMITS: [(&str, u32); 8] = [
    ("files", 300),
    ("desk", 300),
    ("product", 100),
    ("validate", 60),
    ("failures", 60),
    ("webhook", 30),
    ("admin", 10),
    ("resend", 5),
];

/// What there is before a row is played.
const SHOP: &str = "6 keys, 2 uses, 0 e-mails";

impl Row {
    /// With an error of a code that has one sentence.
    pub fn refused(self, code: &'static str) -> Self {
        let (_, _, sentence) = CODES.iter().find(|(name, ..)| *name == code).unwrap();
        assert!(!sentence.is_empty(), "{code} has several sentences");
        self.answered(Kind::Refused(code, (*sentence).to_owned()))
    }

    /// With `INVALID_PARAMS` and this sentence.
    pub fn invalid(self, sentence: &str) -> Self {
        self.answered(Kind::Refused("INVALID_PARAMS", sentence.to_owned()))
    }

    /// With `MISSING_PARAMS`, because this is missing.
    pub fn missing(self, what: &str) -> Self {
        self.answered(Kind::Refused("MISSING_PARAMS", format!("{what} is missing.")))
    }

    /// With a redirect. The address may hold `{VALID_ID}` and the like.
    pub fn leads_to(self, address: &'static str) -> Self {
        self.answered(Kind::LeadsTo(address))
    }

    /// With this JSON.
    pub fn gives(self, body: impl Into<String>) -> Self {
        self.answered(Kind::Gives(body.into()))
    }

    /// With the snapshot of another row, whose group is named if it is another one.
    pub fn like(self, row: &'static str) -> Self {
        self.answered(Kind::Like(row))
    }

    /// Where the snapshot of the other row has `from`, the answer has `to`.
    pub fn but(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.differences.push((from.into(), to.into()));
        self
    }

    /// With the page that stands for one that cannot be shown.
    pub fn page(self, status: &'static str) -> Self {
        let [(usual, title, sentence), ..] = PAGES;
        let (_, its_title, its_sentence) = *PAGES.iter().find(|(known, ..)| *known == status).unwrap();
        let is_buyers = !self.line.contains("/desk");
        let row =
            self.like("desk_keys::status_made_up").but(usual, status).but(title, its_title).but(sentence, its_sentence);
        let row = if is_buyers { row.but("desk\">To the overview", "key\">To your key") } else { row };
        match status {
            "405 Method Not Allowed" => row.but("\ncache-control", "\nallow: GET, HEAD, POST\ncache-control"),
            "429 Too Many Requests" => row.but("\nx-content", "\nretry-after: 60\nx-content"),
            "503 Service Unavailable" => row.but("\nx-content", "\nretry-after: 5\nx-content"),
            _ => row,
        }
    }

    /// With the page that says that there were too many requests, within this limit.
    pub fn page_limited(self, limit: &str) -> Self {
        let counted = format!("\n{}\nreferrer-policy", limit_fields(limit, Some(0)).join("\n"));
        self.page("429 Too Many Requests").but("\nreferrer-policy", counted)
    }

    /// Because there were too many requests.
    pub fn limited(self) -> Self {
        self.refused("RATE_LIMITED")
    }

    /// Within another limit than the usual one of its endpoint.
    pub fn within(self, limit: &'static str) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// With this many requests left.
    pub fn left(self, left: u32) -> Self {
        Self { left: Some(left), ..self }
    }

    /// After which there are this many keys, uses and e-mails in the shop.
    pub fn leaves(self, keys: u32, uses: u32, emails: u32) -> Self {
        Self { leaves: Some([keys, uses, emails]), ..self }
    }

    fn answered(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The whole text that the row is answered. `fill` fills in `{VALID}` and the like.
    pub fn expected(&self, fill: impl Fn(&str) -> String) -> String {
        let answer = match &self.kind {
            Kind::Snapshot => return stored(&self.name),
            // A row of the same group is named without it.
            Kind::Like(row) if row.contains("::") => return self.varied(stored(row), fill),
            Kind::Like(row) => {
                let group = self.name.split("::").next().unwrap_or_default();
                return self.varied(stored(&format!("{group}::{row}")), fill);
            }
            Kind::Gives(body) => self.written("200 OK", "", body),
            Kind::Refused(code, sentence) => {
                let (_, status, _) = CODES.iter().find(|(name, ..)| name == code).unwrap();
                self.written(status, code, &format!(r#"{{"error":{{"code":"{code}","message":"{sentence}"}}}}"#))
            }
            Kind::LeadsTo(address) => format!(
                "303 See Other\ncache-control: no-store\ncontent-length: 0\n\
                 content-type: text/plain; charset=utf-8\nlocation: {address}\nreferrer-policy: same-origin\n\n"
            ),
        };
        fill(&format!("{answer}\n\n({SHOP}{})", self.effects().unwrap_or_else(|| ", as before".to_owned())))
    }

    fn effects(&self) -> Option<String> {
        self.leaves.map(|[keys, uses, emails]| format!(" -> {keys} keys, {uses} uses, {emails} e-mails"))
    }

    /// The answer to another row, with what is different here.
    fn varied(&self, answer: String, fill: impl Fn(&str) -> String) -> String {
        let mut answer =
            self.differences.iter().fold(answer, |answer, (from, to)| answer.replace(&fill(from), &fill(to)));
        if let (Some(left), Some((before, after))) = (self.left, answer.split_once(";r=")) {
            answer = format!("{before};r={left};{}", after.split_once(';').unwrap().1);
        }
        if let (Some(effects), Some((before, _))) = (self.effects(), answer.rsplit_once("\n\n(")) {
            answer = format!("{before}\n\n({SHOP}{effects})");
        }
        let length = |answer: &str| answer.split_once("\n\n")?.1.rsplit_once("\n\n(").map(|(body, _)| body.len());
        match (length(&answer), answer.split_once("content-length: ")) {
            (Some(length), Some((before, after))) if !self.differences.is_empty() => {
                format!("{before}content-length: {length}\n{}", after.split_once('\n').unwrap().1)
            }
            _ => answer,
        }
    }

    /// An answer with this JSON. `code` is the code of a refusal, else empty.
    fn written(&self, status: &str, code: &str, body: &str) -> String {
        let (method, target) = self.line.split_once(' ').unwrap();
        let path = target.split('?').next().unwrap_or_default();
        let class = class(path);
        let mut headers = vec![format!("content-length: {}", body.len()), "content-type: application/json".to_owned()];
        if !matches!(class, "public" | "") {
            headers.extend(["cache-control: no-store".to_owned(), "referrer-policy: no-referrer".to_owned()]);
        }
        if let Some(limit) = self.limit.or_else(|| limit(class, code)) {
            headers.extend(limit_fields(limit, self.left.or((code == "RATE_LIMITED").then_some(0))));
        }
        headers.extend(match (code, class) {
            ("METHOD_NOT_ALLOWED", _) => Some(format!("allow: {}", allow(class, path))),
            ("INVALID_KEY", _) | ("UNAUTHORIZED", "admin") => Some("www-authenticate: Bearer".to_owned()),
            ("RATE_LIMITED", _) => Some("retry-after: 60".to_owned()),
            ("UNAVAILABLE", _) => Some("retry-after: 5".to_owned()),
            _ => None,
        });
        headers.sort();
        let body = if method == "HEAD" { "" } else { body };
        format!("{status}\n{}\n\n{body}", headers.join("\n"))
    }
}

/// The fields that tell of a limit with `left` requests left, or all but one.
fn limit_fields(limit: &str, left: Option<u32>) -> [String; 2] {
    let (_, quota) = LIMITS.iter().find(|(name, _)| *name == limit).unwrap();
    let left = left.unwrap_or(quota - 1);
    [format!("ratelimit-policy: \"{limit}\";q={quota};w=60"), format!("ratelimit: \"{limit}\";r={left};t=60")]
}

/// The class of an endpoint. Most are named after their limit; a path that is no endpoint has none.
fn class(path: &str) -> &'static str {
    match path.strip_prefix("/nested").unwrap_or(path) {
        "/api/products" | "/api/posts" | "/api/openapi.json" => "public",
        "/api/validate" => "validate",
        "/api/product" => "product",
        "/api/webhook/order" => "webhook",
        "/api/resend" => "resend",
        "/guarded" | "/counted" => "guarded",
        "{LINK}" => "files",
        path if path.starts_with("/api/file/") && path.ends_with("/guide.pdf") => "files",
        path if path.starts_with("/api/admin/") => "admin",
        path if PlatformPath::built_in().any(|platform| platform.path() == path) => "platform",
        _ => "",
    }
}

/// The limit that an answer tells of.
fn limit(class: &'static str, code: &str) -> Option<&'static str> {
    match (class, code) {
        (_, "METHOD_NOT_ALLOWED") | ("product", "MISSING_PARAMS" | "INVALID_PARAMS") | ("files", "NOT_FOUND") => None,
        ("product", "INVALID_KEY") | ("guarded", "INVALID_KEY" | "RATE_LIMITED") => Some("failures"),
        ("platform", "UNAUTHORIZED" | "RATE_LIMITED") => Some("webhook"),
        ("files" | "validate" | "product" | "webhook" | "resend" | "admin", _) => Some(class),
        _ => None,
    }
}

/// The methods of an endpoint.
fn allow(class: &str, path: &str) -> &'static str {
    let list = LISTS.iter().any(|(_, line)| line.split('?').next() == Some(format!("GET {path}").as_str()));
    match class {
        "public" | "validate" | "product" | "files" => "GET, HEAD",
        _ if list => "GET, HEAD",
        _ if path == "/api/admin/product/file" => "PUT",
        _ => "POST",
    }
}

/// The text of a snapshot, below its head. A new one has none.
fn stored(row: &str) -> String {
    let file = format!("{}/tests/http/snapshots/{}.snap", env!("CARGO_MANIFEST_DIR"), row.replace("::", "__"));
    let file = std::fs::read_to_string(file).unwrap_or_default();
    file.splitn(3, "---\n").nth(2).unwrap_or_default().trim_end().to_owned()
}
