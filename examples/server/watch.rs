//! The settings of whoever watches the server: metrics, the log, e-mails about what failed, and how long uses are on record.

use std::net::SocketAddr;

use chrono::TimeDelta;
use clap::Args;
use delivery_core::email::Email;

use super::Refusal;
use super::listen::address;
use super::log::LogFormat;
use super::refusal::read;

const JSON: &str = "json";

#[derive(Args)]
#[command(next_help_heading = "Watching")]
pub(crate) struct WatchArguments {
    /// Address and port of GET /metrics in Prometheus' text format, which is no part of the API; port 0 takes a free one
    #[arg(long, env)]
    metrics_bind: Option<String>,
    /// How the log is written: text, or json for one object a line
    #[arg(long, env, default_value = "text")]
    log_format: String,
    /// Address that is told of e-mails to buyers that failed for good, at most once an hour
    #[arg(long, env)]
    alert_email: Option<String>,
    /// How long records of single uses are kept, in days, 1 to 36500; -1 for ever. Counts stay
    #[arg(long, env, default_value = "-1", allow_hyphen_values = true)]
    history_days: String,
}

/// Who watches, and how.
pub(crate) struct Watch {
    pub metrics: Option<SocketAddr>,
    pub log_format: LogFormat,
    pub alert: Option<Email>,
    /// How long records of uses are kept; `None`: for ever.
    pub history: Option<TimeDelta>,
}

impl WatchArguments {
    /// Whether the log is to be JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.log_format == JSON
    }

    /// Checks every setting; a refusal names the setting and what it takes.
    pub(crate) fn check(&self) -> Result<Watch, Refusal> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let metrics = given(&self.metrics_bind).map(|text| read("METRICS_BIND", &text, address)).transpose()?;
        let alert = given(&self.alert_email).map(|text| read("ALERT_EMAIL", &text, str::parse)).transpose()?;
        let log_format = read("LOG_FORMAT", &self.log_format, |text| match text {
            "text" => Ok(LogFormat::Text),
            JSON => Ok(LogFormat::Json),
            _ => Err("must be text or json"),
        })?;
        let history = read("HISTORY_DAYS", &self.history_days, |text| match text.parse() {
            Ok(-1) => Ok(None),
            Ok(days @ 1..=36500) => Ok(Some(TimeDelta::days(days))),
            _ => Err("must be 1 to 36500 days, or -1 to keep records of uses for ever"),
        })?;
        Ok(Watch { metrics, log_format, alert, history })
    }
}
