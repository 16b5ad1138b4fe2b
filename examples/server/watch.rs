//! The settings of whoever watches the server: metrics, the log, and e-mails about what failed.

use std::net::SocketAddr;

use clap::Args;
use delivery_core::email::Email;

use super::Refusal;
use super::log::LogFormat;
use super::refusal::read;

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
}

/// Who watches, and how.
pub(crate) struct Watch {
    pub metrics: Option<SocketAddr>,
    pub log_format: LogFormat,
    pub alert: Option<Email>,
}

impl WatchArguments {
    /// Checks every setting; a refusal names the setting and what it takes.
    pub(crate) fn check(&self) -> Result<Watch, Refusal> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let metrics = given(&self.metrics_bind).map(|text| read("METRICS_BIND", &text, address)).transpose()?;
        let alert = given(&self.alert_email).map(|text| read("ALERT_EMAIL", &text, str::parse)).transpose()?;
        let log_format = read("LOG_FORMAT", &self.log_format, |text| match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("must be text or json"),
        })?;
        Ok(Watch { metrics, log_format, alert })
    }
}

/// An address to listen on.
pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "must be an address and a port such as 127.0.0.1:8080")
}
