//! A [`Message`] as MIME, by lettre.

use lettre::address::Envelope;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, MultiPart, SinglePart};
use lettre::{Address, Message as Mime};

use super::{MailError, Message};

pub(super) fn compose(message: &Message) -> Result<Mime, MailError> {
    // A faulty sender address affects every e-mail until the seller corrects it, so the failure is transient. A faulty
    // buyer address affects this e-mail only.
    let from: Address =
        message.from.address().parse().map_err(|error| {
            MailError::transient("the sender's address cannot be written in a message").because(error)
        })?;
    // lettre's own check rejects a combining mark after a letter. The address was checked when it was parsed.
    let to = Address::new_dangerous(message.to.local(), message.to.domain());
    // Set the envelope explicitly: to derive it from the headers, lettre would parse the address.
    let envelope = Envelope::new(Some(from.clone()), vec![to.clone()])
        .map_err(|error| MailError::permanent("the message cannot be put together").because(error))?;
    // RFC 3834: marks the message as sent by a program, so that no vacation responder replies to it.
    let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
    Mime::builder()
        .envelope(envelope)
        .from(Mailbox::new(message.from.name().map(str::to_owned), from))
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

/// Always uses quoted-printable: every line is then short and ASCII, and no bare CR reaches the wire, after which
/// lettre before 0.11.24 would not escape a dot (RUSTSEC-2026-0561).
fn part(kind: ContentType, text: &str) -> Result<SinglePart, MailError> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let body = Body::new_with_encoding(text, ContentTransferEncoding::QuotedPrintable)
        .map_err(|_| MailError::permanent("the e-mail's text cannot be encoded"))?;
    Ok(SinglePart::builder().content_type(kind).body(body))
}
