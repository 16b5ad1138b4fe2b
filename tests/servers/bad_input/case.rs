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
    body_gen: Option<Generated>,
    raw_base64: Option<String>,
    pub setup: Setup,
    #[serde(default)]
    pub server: Kind,
    pub expect_status: Vec<i32>,
    pub expect_code: Vec<Option<String>>,
    pub must_not: Vec<String>,
    pub repeat: Option<Repeat>,
    pub expect_key: Option<SameOrOther>,
    #[serde(default)]
    then: Option<Then>,
    #[serde(rename = "note")]
    _note: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setup {
    None,
    Admin,
    ValidKey,
    ExpiredKey,
    ExhaustedKey,
    Order,
}

/// Which server: one with generous quotas, one with those of the documentation, one whose key is expired.
#[derive(Debug, Default, Deserialize, Clone, Copy, PartialEq, Eq, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Generous,
    Limits,
    Expired,
}

#[derive(Debug, Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum SameOrOther {
    Same,
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Then {
    /// The product that was added is bought.
    Buy,
}

/// Prefix, a repeated part, a middle, another repeated part, suffix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Generated {
    prefix: String,
    repeat: String,
    count: usize,
    middle: String,
    repeat2: String,
    count2: usize,
    suffix: String,
}

/// The same request several times.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    count: Count,
    #[serde(default)]
    pub expect_last_status: Vec<i32>,
    #[serde(default)]
    pub expect_last_code: Vec<Option<String>>,
    /// From one address, which is so of every case here.
    #[serde(rename = "source")]
    _source: Option<String>,
    /// How many are answered as the first; of the others, the last is judged.
    pub expect_after: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Count {
    Number(usize),
    Named(String),
}

pub fn catalogue() -> Vec<Case> {
    serde_json::from_str(include_str!("catalogue.json")).unwrap()
}

/// The uses of every key that a case is given.
pub const MAX_USES: u8 = 5;
/// Forged keys that are judged a minute from one address.
const IP_LIMIT: usize = 60;

impl Repeat {
    pub fn count(&self) -> usize {
        match &self.count {
            Count::Number(count) => *count,
            Count::Named(name) if name == "{{MAX_USES_PLUS_1}}" => usize::from(MAX_USES) + 1,
            Count::Named(name) if name == "{{IP_LIMIT_PLUS_1}}" => IP_LIMIT + 1,
            Count::Named(name) => panic!("how often is {name}?"),
        }
    }
}

impl Case {
    pub fn must_not(&self, what: &str) -> bool {
        self.must_not.iter().any(|must_not| must_not == what)
    }

    pub fn path_is(&self, beginning: &str) -> bool {
        self.path.starts_with(beginning)
    }

    pub fn is_bought(&self) -> bool {
        matches!(self.then, Some(Then::Buy))
    }

    /// The request, byte for byte. `values` stand for `{{NAME}}`.
    pub fn request(&self, values: &HashMap<&'static str, String>) -> Vec<u8> {
        if let Some(raw) = &self.raw_base64 {
            return BASE64.decode(raw.as_bytes()).unwrap();
        }
        let (body, has_body) = self.body(values);
        let target = filled(&self.path, values);
        let mut head = vec![format!("{} {target} HTTP/1.1", self.method), "Host: x\r\nConnection: close".to_owned()];
        head.extend(self.headers.iter().map(|(name, value)| format!("{name}: {}", filled(value, values))));
        let chunked = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
        if has_body && !chunked {
            head.push(format!("Content-Length: {}", body.len()));
        }
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

    fn body(&self, values: &HashMap<&'static str, String>) -> (Vec<u8>, bool) {
        if let Some(body) = &self.body {
            return (filled(body, values).into_bytes(), true);
        }
        if let Some(body) = &self.body_base64 {
            return (BASE64.decode(body.as_bytes()).unwrap(), true);
        }
        let Some(Generated { prefix, repeat, count, middle, repeat2, count2, suffix }) = &self.body_gen else {
            return (Vec::new(), false);
        };
        let parts =
            [filled(prefix, values), repeat.repeat(*count), middle.clone(), repeat2.repeat(*count2), suffix.clone()];
        (parts.concat().into_bytes(), true)
    }
}

/// The text with its placeholders filled. What no value stands for is meant as it is, such as `{{7*7}}`.
fn filled(text: &str, values: &HashMap<&'static str, String>) -> String {
    let text = repeated(text);
    values.iter().fold(text, |text, (name, value)| text.replace(&format!("{{{{{name}}}}}"), value))
}

/// With `{{repeat 3 ab}}` as `ababab`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once("{{repeat ") else { return text.to_owned() };
    let (repeated, after) = rest.split_once("}}").unwrap();
    let (count, part) = repeated.split_once(' ').unwrap();
    format!("{before}{}{}", part.repeat(count.parse().unwrap()), self::repeated(after))
}
