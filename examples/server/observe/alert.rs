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
use delivery_core::ledger::{Addressee, MessageId};
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
    emails: usize,
    webhooks: usize,
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
        let Event::MessageFailed { key, kind, to, reason } = event else { return };
        let (mut failures, kind) = (self.0.failures(), kind.as_str());
        let described = if let Addressee::Webhook(name) = to {
            failures.webhooks += 1;
            format!("webhook {name}, {kind}, key {key}: {reason}")
        } else {
            failures.emails += 1;
            format!("{kind}, key {key}: {reason}")
        };
        if failures.listed.len() < LISTED {
            failures.listed.push(described);
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
            while self.noted.failures().count() == 0 {
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
                    tracing::warn!("the seller is not told yet of messages that failed: {}", explain(error.as_ref()));
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
        let (count, subject) = (failures.count(), failures.subject());
        let (itself, them) = if count == 1 { ("itself", "it") } else { ("themselves", "them") };
        let advice = failures.advice();
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
        write!(text, "\n{advice} and send {them} again at the desk: {link}\n")?;
        let escaped = HtmlEscape(&link).to_string();
        write!(
            html,
            "</ul>\n<p>{advice} and send {them} again at the desk: <a href=\"{escaped}\">{escaped}</a></p>\n"
        )?;
        self.mailer.send(&message(self.from.clone(), self.to.clone(), subject, text, html)?).await?;
        tracing::info!(failures = count, "an e-mail about failed messages was sent to the seller");
        Ok(())
    }
}

impl Failures {
    fn count(&self) -> usize {
        self.emails + self.webhooks
    }

    fn subject(&self) -> String {
        match (self.emails, self.webhooks) {
            (1, 0) => "An e-mail to a buyer failed".to_owned(),
            (emails, 0) => format!("{emails} e-mails to buyers failed"),
            (0, 1) => "A webhook failed".to_owned(),
            (0, webhooks) => format!("{webhooks} webhooks failed"),
            (emails, webhooks) => format!("{} e-mails and webhooks failed", emails + webhooks),
        }
    }

    fn advice(&self) -> &'static str {
        match (self.emails, self.webhooks) {
            (_, 0) => "Correct addresses",
            (0, _) => "Repair the receiver",
            _ => "Correct addresses, repair the receiver,",
        }
    }

    /// Puts `taken` back, before the failures that were recorded since.
    fn put_back(&mut self, mut taken: Self) {
        taken.emails += self.emails;
        taken.webhooks += self.webhooks;
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

#[cfg(test)]
mod tests {
    use super::Failures;

    #[test]
    fn the_subject_counts_what_failed() {
        for (emails, webhooks, subject, advice) in [
            (1, 0, "An e-mail to a buyer failed", "Correct addresses"),
            (3, 0, "3 e-mails to buyers failed", "Correct addresses"),
            (0, 1, "A webhook failed", "Repair the receiver"),
            (0, 2, "2 webhooks failed", "Repair the receiver"),
            (2, 1, "3 e-mails and webhooks failed", "Correct addresses, repair the receiver,"),
        ] {
            let failures = Failures { emails, webhooks, listed: Vec::new() };
            assert_eq!(failures.subject(), subject);
            assert_eq!(failures.advice(), advice, "{subject}");
        }
    }
}
