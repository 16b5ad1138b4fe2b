//! Cases as the catalogue has them, and the requests that they come to.

use std::collections::HashMap;

use data_encoding::BASE64;
use serde::Deserialize;

/// A request, or several of the same kind, and what may come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    pub group: String,
    pub method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    body_base64: Option<String>,
    raw_base64: Option<String>,
    pub setup: Setup,
    #[serde(default)]
    pub server: Kind,
    pub expect_status: Vec<i32>,
    pub expect_code: Vec<Option<String>>,
    pub must_not: Vec<String>,
    pub repeat: Option<Repeat>,
    pub expect_key: Option<SameOrOther>,
    /// Whether the product that was added is bought.
    #[serde(default)]
    pub is_bought: bool,
    #[serde(rename = "note")]
    _note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setup {
    None,
    ValidKey,
    Order,
}

/// Which server: one with generous quotas, or one with those of the documentation.
#[derive(Debug, Default, Deserialize, Clone, Copy, PartialEq, Eq, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Generous,
    Limits,
}

#[derive(Debug, Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SameOrOther {
    Same,
    Other,
}

/// The same request several times.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    pub count: usize,
    #[serde(default)]
    pub expect_last_status: Vec<i32>,
    #[serde(default)]
    pub expect_last_code: Vec<Option<String>>,
    /// How many are answered as the first; of the others, the last is judged.
    pub expect_after: Option<usize>,
}

pub fn catalogue() -> Vec<Case> {
    serde_json::from_str(include_str!("catalogue.json")).unwrap()
}

/// The uses of every key that a case is given.
pub const MAX_USES: u8 = 5;

impl Case {
    pub fn must_not(&self, what: &str) -> bool {
        self.must_not.iter().any(|must_not| must_not == what)
    }

    pub fn path_is(&self, beginning: &str) -> bool {
        self.path.starts_with(beginning)
    }

    /// The request, byte for byte. `values` stand for `{{NAME}}`.
    pub fn request(&self, values: &HashMap<&'static str, String>) -> Vec<u8> {
        if let Some(raw) = &self.raw_base64 {
            return BASE64.decode(raw.as_bytes()).unwrap();
        }
        let body = self.body(values);
        let target = filled(&self.path, values);
        let mut head = vec![format!("{} {target} HTTP/1.1", self.method), "Host: x\r\nConnection: close".to_owned()];
        head.extend(self.headers.iter().map(|(name, value)| format!("{name}: {}", filled(value, values))));
        let chunked = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
        if let (Some(body), false) = (&body, chunked) {
            head.push(format!("Content-Length: {}", body.len()));
        }
        let body = body.unwrap_or_default();
        head.push("\r\n".to_owned());
        let mut request = head.join("\r\n").into_bytes();
        if chunked {
            for chunk in body.chunks(16 * 1024) {
                request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                request.extend(chunk);
                request.extend(b"\r\n");
            }
            request.extend(b"0\r\n\r\n");
        } else {
            request.extend(body);
        }
        request
    }

    fn body(&self, values: &HashMap<&'static str, String>) -> Option<Vec<u8>> {
        let bytes = || self.body_base64.as_ref().map(|body| BASE64.decode(body.as_bytes()).unwrap());
        self.body.as_ref().map(|body| filled(body, values).into_bytes()).or_else(bytes)
    }
}

/// The text with its placeholders filled. What no value stands for is meant as it is, such as `{{7*7}}`.
fn filled(text: &str, values: &HashMap<&'static str, String>) -> String {
    let fill = |text: String, (name, value): (&&str, &String)| text.replace(&format!("{{{{{name}}}}}"), value);
    repeated(&values.iter().fold(text.to_owned(), fill))
}

/// With `{{repeat 3 ab}}` as `ababab`, and `{{repeat 3 a#}}` as `a0a1a2`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{{repeat ") else { return text.to_owned() };
    let (repeated, after) = rest.split_once("}}").unwrap();
    let (count, part) = repeated.split_once(' ').unwrap();
    let count: usize = count.parse().unwrap();
    let parts = if part.contains('#') {
        (0..count).map(|number| part.replace('#', &number.to_string())).collect()
    } else {
        part.repeat(count)
    };
    format!("{before}{parts}{}", self::repeated(after))
}
