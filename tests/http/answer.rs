//! What a row is answered: its snapshot, the snapshot of another row, or a text that is put together here.
//!
//! The tables say what the API promises. They take nothing from the code under test but the paths of the platforms.

use delivery_core::http::PlatformPath;

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

/// The limits: requests a minute.
const LIMITS: [(&str, u32); 7] = [
    ("files", 300),
    ("product", 100),
    ("validate", 60),
    ("failures", 60),
    ("webhook", 30),
    ("admin", 10),
    ("resend", 5),
];

/// The seller's endpoints that take GET. The others take POST.
const LISTS: [&str; 9] = ["product/files", "keys", "key", "messages", "inbox", "events", "stats", "email", "export"];

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

    /// With the snapshot of another row, whose group is named if it is another one.
    pub fn like(self, row: &'static str) -> Self {
        self.answered(Kind::Like(row))
    }

    /// Because there were too many requests.
    pub fn limited(self) -> Self {
        self.refused("RATE_LIMITED")
    }

    /// Without rate limit headers.
    pub fn uncounted(self) -> Self {
        Self { uncounted: true, ..self }
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

    /// The whole text that the row is answered.
    pub fn expected(&self) -> String {
        let answer = match &self.kind {
            Kind::Snapshot => return stored(&self.name),
            // A row of the same group is named without it.
            Kind::Like(row) if row.contains("::") => return stored(row),
            Kind::Like(row) => return stored(&format!("{}::{row}", self.name.split("::").next().unwrap_or_default())),
            Kind::Refused(code, sentence) => self.refusal(code, sentence),
            Kind::LeadsTo(address) => format!(
                "303 See Other\ncache-control: no-store\ncontent-length: 0\n\
                 content-type: text/plain; charset=utf-8\nlocation: {address}\nreferrer-policy: same-origin\n\n"
            ),
        };
        let effects = match self.leaves {
            None => ", as before".to_owned(),
            Some([keys, uses, emails]) => format!(" -> {keys} keys, {uses} uses, {emails} e-mails"),
        };
        format!("{answer}\n\n({SHOP}{effects})")
    }

    fn refusal(&self, code: &str, sentence: &str) -> String {
        let (method, target) = self.line.split_once(' ').unwrap();
        let path = target.split('?').next().unwrap_or_default();
        let class = class(path);
        let (_, status, _) = CODES.iter().find(|(name, ..)| *name == code).unwrap();
        let body = format!(r#"{{"error":{{"code":"{code}","message":"{sentence}"}}}}"#);
        let mut headers = vec![format!("content-length: {}", body.len()), "content-type: application/json".to_owned()];
        if !matches!(class, "public" | "") {
            headers.extend(["cache-control: no-store".to_owned(), "referrer-policy: no-referrer".to_owned()]);
        }
        if let Some(limit) = self.limit.or_else(|| limit(class, code)).filter(|_| !self.uncounted) {
            let (_, quota) = LIMITS.iter().find(|(name, _)| *name == limit).unwrap();
            let left = self.left.unwrap_or(if code == "RATE_LIMITED" { 0 } else { quota - 1 });
            headers.push(format!("ratelimit-policy: \"{limit}\";q={quota};w=60"));
            headers.push(format!("ratelimit: \"{limit}\";r={left};t=60"));
        }
        headers.extend(match (code, class) {
            ("METHOD_NOT_ALLOWED", _) => Some(format!("allow: {}", allow(class, path))),
            ("INVALID_KEY", _) | ("UNAUTHORIZED", "admin") => Some("www-authenticate: Bearer".to_owned()),
            ("RATE_LIMITED", _) => Some("retry-after: 60".to_owned()),
            ("UNAVAILABLE", _) => Some("retry-after: 5".to_owned()),
            _ => None,
        });
        headers.sort();
        let body = if method == "HEAD" { "" } else { &body };
        format!("{status}\n{}\n\n{body}", headers.join("\n"))
    }
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
        path if PlatformPath::BUILT_IN.iter().any(|platform| platform.path() == path) => "platform",
        _ => "",
    }
}

/// The limit that a refusal tells of.
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
    let list = path.strip_prefix("/api/admin/").is_some_and(|name| LISTS.contains(&name));
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
