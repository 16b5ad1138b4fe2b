//! The settings for monitoring: metrics, the log, e-mails about failures, and how long records of uses are kept.

use std::net::SocketAddr;
use std::str::FromStr;

use chrono::TimeDelta;
use delivery_core::email::Email;

use super::given::Given;

const JSON: &str = "json";

/// The settings for monitoring.
#[derive(Default)]
pub(crate) struct Watch {
    pub metrics: Option<SocketAddr>,
    pub log_format: LogFormat,
    pub alert: Option<Email>,
    /// How long records of uses are kept; `None`: for ever.
    pub history: Option<TimeDelta>,
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether `LOG_FORMAT` is JSON. This works before the settings are checked.
pub(crate) fn is_json(given: &Given) -> bool {
    given.text("LOG_FORMAT").is_some_and(|format| format == JSON)
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            JSON => Ok(Self::Json),
            _ => Err("must be text or json"),
        }
    }
}
