//! An e-mail to try out the mail server.

use delivery_core::email::Email;
use delivery_core::explain;
use delivery_core::mail::Mailer;

use crate::observe::alert::message;
use crate::settings::Settings;
use crate::{Refusal, say};

pub(super) async fn run(settings: &Settings, address: &str) -> Result<(), Refusal> {
    let to: Email = address.parse().map_err(|expected| format!("ADDRESS {expected}"))?;
    let Some(mailer) = &settings.smtp else {
        return Err("SMTP_URL (--smtp-url) is not set: e-mails become files, and reach no buyer".into());
    };
    let from = settings.options.sender.clone();
    let text = "This e-mail was sent by the command test-mail. Keys that you sell reach their buyers the same way.\n";
    let html = format!("<p>{}</p>\n", text.trim_end());
    let mail = message(from.clone(), to, "Test of your mail server".to_owned(), text.to_owned(), html)?;
    mailer.send(&mail).await.map_err(|error| format!("the e-mail was not sent: {}", explain(&error)))?;
    say(&format!("{address} was sent an e-mail from {}: the mail server took it", from.address()));
    Ok(())
}
