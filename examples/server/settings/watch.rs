//! The settings for monitoring: metrics, the log, e-mails about failures, and how long records of uses are kept.

use std::net::SocketAddr;

use chrono::TimeDelta;
use delivery_core::email::Email;

use super::given::Given;
use super::listen::address;
use crate::Refusal;

const JSON: &str = "json";

/// The settings for monitoring.
pub(crate) struct Watch {
    pub metrics: Option<SocketAddr>,
    pub log_format: LogFormat,
    pub alert: Option<Email>,
    /// How long records of uses are kept; `None`: for ever.
    pub history: Option<TimeDelta>,
}

/// How lines of the log are written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether `LOG_FORMAT` is JSON. This works before the settings are checked.
pub(crate) fn is_json(given: &Given) -> bool {
    given.text("LOG_FORMAT").is_some_and(|format| format == JSON)
}

impl Watch {
    pub(super) fn read(given: &Given) -> Result<Self, Refusal> {
        let metrics = given.read_as("METRICS_BIND", address)?;
        let alert = given.read_as("ALERT_EMAIL", str::parse)?;
        let log_format = given.value("LOG_FORMAT", |text| match text {
            "text" => Ok(LogFormat::Text),
            JSON => Ok(LogFormat::Json),
            _ => Err("must be text or json"),
        })?;
        let history = given.value("HISTORY_DAYS", |text| match text.parse() {
            Ok(-1) => Ok(None),
            Ok(days @ 1..=36500) => Ok(Some(TimeDelta::days(days))),
            _ => Err("must be 1 to 36500 days, or -1 to keep records of uses for ever"),
        })?;
        Ok(Self { metrics, log_format, alert, history })
    }
}
