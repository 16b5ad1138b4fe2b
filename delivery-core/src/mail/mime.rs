//! Writes a [`Message`] as MIME, with lettre.

use lettre::address::Envelope;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue, Headers, To};
use lettre::message::{Body, Mailbox, Mailboxes, MultiPart, SinglePart};
use lettre::{Address, Message as Mime};

use super::{MailError, Message};
use crate::email::Email;

pub(super) fn compose(message: &Message) -> Result<Mime, MailError> {
    // A faulty sender address affects every e-mail until the seller corrects it, so the failure is transient. The other
    // failures in this file affect this e-mail only, so they are permanent.
    let from: Address =
        message.from.address().parse().map_err(|error| {
            MailError::transient("the sender's address cannot be written in a message").because(error)
        })?;
    let to = address(&message.to);
    // Set the envelope explicitly. Otherwise lettre would derive it from the headers, and would check the recipient's
    // address with its own check. That check rejects some valid addresses: see the function `address`.
    let envelope = Envelope::new(Some(from.clone()), vec![to.clone()])
        .map_err(|error| MailError::permanent("the message cannot be put together").because(error))?;
    // RFC 3834: marks the message as sent by a program, so that no vacation responder replies to it.
    let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
    let mut mime = Mime::builder().envelope(envelope);
    if let Some(reply_to) = &message.reply_to {
        mime = mime.reply_to(Mailbox::new(None, address(reply_to)));
    }
    mime.from(Mailbox::new(message.from.name().map(str::to_owned), from))
        .to(Mailbox::new(None, to))
        .subject(message.subject.clone())
        .date(message.date.into())
        .message_id(Some(message.message_id.to_string()))
        .raw_header(automatic)
        .multipart(
            MultiPart::alternative()
                .singlepart(part(ContentType::TEXT_PLAIN, &message.text)?)
                .singlepart(part(ContentType::TEXT_HTML, &message.html)?),
        )
        .map_err(|error| MailError::permanent("the message cannot be put together").because(error))
}

/// Returns the address for the envelope and the header.
fn address(email: &Email) -> Address {
    // Skip lettre's own check, because it rejects a combining mark after a letter. The address was already checked when
    // it was parsed.
    Address::new_dangerous(email.quoted_local(), email.domain())
}

/// Returns whether a composed message is addressed to `email`, ignoring the case of ASCII letters.
pub(super) fn is_to(composed: &[u8], email: &Email) -> bool {
    let mut expected = Headers::new();
    expected.set(To::from(Mailboxes::from(Mailbox::new(None, address(email)))));
    let (expected, composed) = (expected.to_string(), String::from_utf8_lossy(composed));
    let header = composed.split("\r\n\r\n").next().unwrap_or_default();
    // The continuation of a folded header line begins with a space.
    let unfolded = |text: &str| text.replace("\r\n ", " ").trim_end().to_ascii_lowercase();
    unfolded(header).split("\r\n").any(|line| line == unfolded(&expected))
}

/// Encodes a body, always as quoted-printable, so that every line is short and ASCII. The encoded body also contains no
/// bare CR. This matters, because lettre before 0.11.24 does not escape a dot after a bare CR (RUSTSEC-2026-0561).
fn part(kind: ContentType, text: &str) -> Result<SinglePart, MailError> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let body = Body::new_with_encoding(text, ContentTransferEncoding::QuotedPrintable)
        .map_err(|_| MailError::permanent("the e-mail's text cannot be encoded"))?;
    Ok(SinglePart::builder().content_type(kind).body(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::MessageId;

    #[test]
    fn a_message_is_known_by_its_recipient() {
        let long = format!("{}@{}.example", "a".repeat(64), "b".repeat(60));
        for (to, asked, is_its) in [
            ("ada@example.com", "ada@example.com", true),
            ("Ada@example.com", "aDA@example.com", true),
            ("ada@example.com", "bada@example.com", false),
            ("ada@example.com", "ada@example.co", false),
            ("jürgen@example.com", "jürgen@example.com", true),
            ("a..b@example.com", "A..b@example.com", true),
            ("a..b@example.com", "b@example.com", false),
            (&long, &long, true),
        ] {
            let message = Message {
                reply_to: Some("help@shop.example".parse().unwrap()),
                from: "Shop <shop@shop.example>".parse().unwrap(),
                to: to.parse().unwrap(),
                subject: "To: other@example.com".to_owned(),
                text: "To: other@example.com\r\n".to_owned(),
                html: String::new(),
                message_id: MessageId::new("a@b").unwrap(),
                date: chrono::DateTime::UNIX_EPOCH,
                about: None,
            };
            let composed = compose(&message).unwrap().formatted();
            assert_eq!(is_to(&composed, &asked.parse().unwrap()), is_its, "{to} {asked}");
            assert!(!is_to(&composed, &"other@example.com".parse().unwrap()));
        }
    }
}
