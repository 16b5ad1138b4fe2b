//! E-mails to the seller about e-mails to buyers that failed for good.
//!
//! They go out by the same mail server, and are tried until it takes them. They are not kept: what failed stands at the desk,
//! whether or not its seller was told.

use std::fmt::Write as _;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use delivery_core::email::Email;
use delivery_core::mail::{Mailer, Message, Sender};
use delivery_core::observer::{Event, Observer};
use delivery_core::store::MessageId;
use delivery_core::{Clock, SystemClock, explain};
use minijinja::HtmlEscape;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::timeout;
use uuid::Uuid;

use super::Refusal;

/// How long others are waited for that fail for the same reason.
const GATHER: Duration = Duration::from_secs(10);
/// How long no other alert is sent after one.
const PAUSE: Duration = Duration::from_hours(1);
/// How long to wait before an alert that was not sent is tried again.
const AGAIN: Duration = Duration::from_mins(5);
/// Failures that wait to be told of; more are counted and not listed.
const MOST: usize = 1000;
/// Failures that an alert lists.
const LISTED: usize = 20;

/// Notes what fails.
#[derive(Debug)]
pub(crate) struct Alerts(mpsc::Sender<String>);

/// Tells the seller of it.
pub(crate) struct AlertWorker {
    failures: Receiver<String>,
    mailer: Arc<dyn Mailer>,
    from: Sender,
    to: Email,
    base_url: String,
}

/// An observer, and the worker that sends what it notes to `to`.
pub(crate) fn alerts(mailer: Arc<dyn Mailer>, from: Sender, to: Email, base_url: String) -> (Alerts, AlertWorker) {
    let (note, failures) = mpsc::channel(MOST);
    (Alerts(note), AlertWorker { failures, mailer, from, to, base_url })
}

impl Observer for Alerts {
    fn observe(&self, event: &Event) {
        let Event::MessageFailed { key, kind, reason } = event else { return };
        let failure = format!("{}, key {key}: {reason}", kind.as_str());
        if let Err(TrySendError::Full(failure)) = self.0.try_send(failure) {
            tracing::warn!(failure, "too many e-mails fail to list them in an alert");
        }
    }
}

impl AlertWorker {
    /// Sends alerts until `stop`; then, at once, the one that waits.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            let first = tokio::select! {
                failure = self.failures.recv() => failure,
                () = &mut stop => return,
            };
            let mut failures = Vec::from_iter(first);
            let mut pause = GATHER;
            // Until nothing failed for the length of a pause.
            loop {
                let stopped = timeout(pause, &mut stop).await.is_ok();
                while let Ok(another) = self.failures.try_recv() {
                    failures.push(another);
                }
                if failures.is_empty() && !stopped {
                    break;
                }
                if failures.is_empty() {
                    return;
                }
                match self.send(&failures).await {
                    Ok(()) => (failures, pause) = (Vec::new(), PAUSE),
                    Err(error) => {
                        tracing::warn!(
                            "the seller is not told yet of e-mails that failed: {}",
                            explain(error.as_ref())
                        );
                        pause = AGAIN;
                    }
                }
                if stopped {
                    return;
                }
            }
        }
    }

    async fn send(&self, failures: &[String]) -> Result<(), Refusal> {
        let count = failures.len();
        let (subject, itself) = match count {
            1 => ("An e-mail to a buyer failed".to_owned(), "itself"),
            count => (format!("{count} e-mails to buyers failed"), "themselves"),
        };
        let link = format!("{}/desk/messages?state=failed", self.base_url.trim_end_matches('/'));
        let mut text = format!("{subject}, and will not be sent again by {itself}:\n\n");
        let mut html = format!("<p>{subject}, and will not be sent again by {itself}:</p>\n<ul>\n");
        for failure in failures.iter().take(LISTED) {
            writeln!(text, "- {failure}")?;
            writeln!(html, "<li>{}</li>", HtmlEscape(failure))?;
        }
        if let Some(more) = count.checked_sub(LISTED).filter(|more| *more > 0) {
            writeln!(text, "- and {more} more")?;
            writeln!(html, "<li>and {more} more</li>")?;
        }
        write!(text, "\nCorrect addresses and send them again at the desk: {link}\n")?;
        let escaped = HtmlEscape(&link).to_string();
        write!(
            html,
            "</ul>\n<p>Correct addresses and send them again at the desk: <a href=\"{escaped}\">{escaped}</a></p>\n"
        )?;
        self.mailer.send(&message(self.from.clone(), self.to.clone(), subject, text, html)?).await?;
        tracing::info!(failures = count, "the seller was told of e-mails that failed");
        Ok(())
    }
}

/// A message that is about no key.
pub(crate) fn message(
    from: Sender,
    to: Email,
    subject: String,
    text: String,
    html: String,
) -> Result<Message, Refusal> {
    let message_id = MessageId::new(format!("{}@{}", Uuid::new_v4().simple(), from.domain()))?;
    Ok(Message { from, to, subject, text, html, message_id, date: SystemClock::default().now() })
}
