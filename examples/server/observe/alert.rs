//! E-mails to the seller about messages that failed for good: e-mails to buyers, and webhooks.
//!
//! Alerts use the same mail server, and are retried until it accepts them. Alerts are not stored. If the server stops
//! before an alert is sent, the seller still finds the failures at the desk.

use std::fmt::Write as _;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delivery_core::email::Email;
use delivery_core::ledger::MessageId;
use delivery_core::mail::{Mailer, Message, Sender};
use delivery_core::observer::{Event, Observer};
use delivery_core::{Clock, SystemClock, explain};
use minijinja::HtmlEscape;
use tokio::sync::Notify;
use tokio::time::timeout;
use uuid::Uuid;

use crate::Refusal;

/// How long an alert waits for further failures, which often have the same cause.
const GATHER: Duration = Duration::from_secs(10);
/// How long to wait after an alert before the next one.
const PAUSE: Duration = Duration::from_hours(1);
/// How long to wait before retrying an alert that could not be sent.
const AGAIN: Duration = Duration::from_mins(5);
/// The maximum number of failures that an alert lists. Further failures are only counted.
const LISTED: usize = 20;

/// An observer that records failures for the [`AlertWorker`].
#[derive(Debug)]
pub(crate) struct Alerts(Arc<Noted>);

/// The failures that no alert has reported yet.
#[derive(Debug, Default)]
struct Noted {
    failures: Mutex<Failures>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Failures {
    count: usize,
    /// Descriptions of the first failures, at most `LISTED`.
    listed: Vec<String>,
}

/// Sends the alerts to the seller.
pub(crate) struct AlertWorker {
    noted: Arc<Noted>,
    mailer: Arc<dyn Mailer>,
    from: Sender,
    to: Email,
    base_url: String,
}

/// Returns an observer, and the worker that e-mails the failures it records to `to`.
pub(crate) fn alerts(mailer: Arc<dyn Mailer>, from: Sender, to: Email, base_url: String) -> (Alerts, AlertWorker) {
    let noted = Arc::new(Noted::default());
    (Alerts(noted.clone()), AlertWorker { noted, mailer, from, to, base_url })
}

impl Observer for Alerts {
    fn observe(&self, event: &Event) {
        let Event::MessageFailed { key, kind, reason } = event else { return };
        let mut failures = self.0.failures();
        failures.count += 1;
        if failures.listed.len() < LISTED {
            failures.listed.push(format!("{}, key {key}: {reason}", kind.as_str()));
        }
        drop(failures);
        self.0.more.notify_one();
    }
}

impl Noted {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AlertWorker {
    /// Sends alerts until `stop` resolves, then sends a pending alert at once.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) {
        let (mut stop, mut stopped) = (pin!(stop), false);
        loop {
            while self.noted.failures().count == 0 {
                if stopped {
                    return;
                }
                tokio::select! {
                    () = self.noted.more.notified() => {}
                    () = &mut stop => return,
                }
            }
            if !stopped {
                stopped = timeout(GATHER, &mut stop).await.is_ok();
            }
            let failures = std::mem::take(&mut *self.noted.failures());
            let pause = match self.send(&failures).await {
                Ok(()) => PAUSE,
                Err(error) => {
                    tracing::warn!("the seller is not told yet of e-mails that failed: {}", explain(error.as_ref()));
                    self.noted.failures().put_back(failures);
                    if stopped {
                        return;
                    }
                    AGAIN
                }
            };
            if !stopped {
                stopped = timeout(pause, &mut stop).await.is_ok();
            }
        }
    }

    async fn send(&self, failures: &Failures) -> Result<(), Refusal> {
        let count = failures.count;
        let (subject, itself) = match count {
            1 => ("An e-mail to a buyer failed".to_owned(), "itself"),
            count => (format!("{count} e-mails to buyers failed"), "themselves"),
        };
        let link = format!("{}/desk/messages?state=failed", self.base_url.trim_end_matches('/'));
        let mut text = format!("{subject}, and will not be sent again by {itself}:\n\n");
        let mut html = format!("<p>{subject}, and will not be sent again by {itself}:</p>\n<ul>\n");
        for failure in &failures.listed {
            writeln!(text, "- {failure}")?;
            writeln!(html, "<li>{}</li>", HtmlEscape(failure))?;
        }
        if let Some(more) = count.checked_sub(failures.listed.len()).filter(|more| *more > 0) {
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

impl Failures {
    /// Puts `taken` back, before the failures that were recorded since.
    fn put_back(&mut self, mut taken: Self) {
        taken.count += self.count;
        taken.listed.append(&mut self.listed);
        taken.listed.truncate(LISTED);
        *self = taken;
    }
}

/// A message that concerns no key, such as an alert.
pub(crate) fn message(
    from: Sender,
    to: Email,
    subject: String,
    text: String,
    html: String,
) -> Result<Message, Refusal> {
    let message_id = MessageId::new(format!("{}@{}", Uuid::new_v4().simple(), from.domain()))?;
    Ok(Message {
        from,
        reply_to: None,
        to,
        subject,
        text,
        html,
        message_id,
        date: SystemClock::default().now(),
        about: None,
    })
}
