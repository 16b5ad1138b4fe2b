//! Timelines as they are written down: what happens when, and what must have come of it. One file each, one step a line.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use url::form_urlencoded::Serializer;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    pub name: String,
    /// Who sends every event.
    pub platform: String,
    #[serde(rename = "why")]
    _why: Option<String>,
    #[serde(rename = "source")]
    _source: Option<IgnoredAny>,
    /// Settings of the server, by their names.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// As the seller adds them, except for their names and content; the first is number 1.
    pub products: Vec<Value>,
    /// Whether the last check is also met when the events come in another order.
    #[serde(default = "yes")]
    pub shuffle: bool,
    pub steps: Vec<Step>,
    #[serde(rename = "final")]
    pub end: End,
}

/// One thing that happens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, at the time of the step before or later. A timeline without times happens all at once.
    pub at: Option<DateTime<Utc>>,
    #[serde(rename = "what")]
    _what: Option<String>,
    /// The platform sends an event.
    pub send: Option<Event>,
    /// What may come of it at once: outcomes of the inbox.
    #[serde(default)]
    pub expect: Vec<String>,
    /// What must be true now of the keys of products.
    #[serde(default)]
    pub check: BTreeMap<i64, Expected>,
    /// The seller gives the key of a product another date.
    pub seller: Option<OtherDate>,
    /// The buyer fetches this product once.
    #[serde(rename = "use")]
    pub fetch: Option<i64>,
    /// The seller adds to the event that waits what it did not say, and has it applied.
    pub apply: Option<Value>,
    /// A buyer at this address has lost the keys.
    pub resend: Option<String>,
}

/// A request of the platform's, but for what proves it: it is signed when it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    body: Option<Box<RawValue>>,
    /// Whether the body is written on many lines.
    indent: Option<IgnoredAny>,
    form: Option<Vec<(String, String)>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    pub status: Standing,
    pub expires_at: Option<String>,
    /// How many keys are not revoked. The one that expires last is looked at.
    #[serde(default = "one")]
    pub keys: usize,
    pub used: Option<u64>,
    pub remaining: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    Valid,
    Expired,
    /// There are keys, and all of them are revoked.
    Revoked,
    /// There never was a key.
    Absent,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherDate {
    pub product: i64,
    pub expires_at: String,
}

/// What must be true at the end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Events that need attention.
    pub attention: Option<usize>,
    /// E-mails about keys that expire.
    pub notices: Option<usize>,
    /// E-mails about purchases.
    pub mails: Option<usize>,
    /// E-mails of all kinds that were sent.
    pub letters: Option<usize>,
    /// To whom.
    pub to: Option<Vec<String>>,
    /// How many keys of a product are `valid`, or were until they expired, and how many are `revoked`.
    #[serde(default)]
    pub keys: BTreeMap<i64, BTreeMap<String, usize>>,
    /// The limit of the only key of a product.
    #[serde(default)]
    pub uses: BTreeMap<i64, i64>,
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

/// All timelines of a folder beside this file, by name.
pub fn all(folder: &str) -> Vec<Timeline> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/timelines").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

fn read(file: &Path) -> Timeline {
    let timeline = serde_json::from_str(&std::fs::read_to_string(file).unwrap());
    timeline.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

impl Event {
    pub fn is_form(&self) -> bool {
        self.form.is_some()
    }

    /// What the platform writes, and signs.
    pub fn body(&self) -> Vec<u8> {
        match (&self.form, &self.body) {
            (Some(form), _) => Serializer::new(String::new()).extend_pairs(form).finish().into_bytes(),
            (None, Some(body)) if self.indent.is_some() => {
                let body: Value = serde_json::from_str(body.get()).unwrap();
                serde_json::to_vec_pretty(&body).unwrap()
            }
            (None, Some(body)) => body.get().as_bytes().to_vec(),
            (None, None) => Vec::new(),
        }
    }
}
