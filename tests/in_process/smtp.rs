//! SMTP against a scripted server on loopback.

use std::num::NonZeroUsize;
use std::time::Duration;

use delivery_core::ledger::MessageId;
use delivery_core::mail::{Failure, Mailer, Message, SmtpMailer};
use mail_parser::MessageParser;

use support::smtp::{Script, SmtpServer};

/// A server that does so, and a mailer that sends to it.
pub async fn serve(script: Script) -> (SmtpMailer, SmtpServer) {
    let server = SmtpServer::start(script).await;
    (server.url.parse().unwrap(), server)
}

/// A server that replies `reply` at the command `at`, and a mailer that logs in there.
async fn replying(at: &'static str, reply: &str) -> (SmtpMailer, SmtpServer) {
    let server = SmtpServer::start(Script::At(at, format!("{reply}\r\n").leak().as_bytes())).await;
    (server.url.replace("://", "://user:password@").parse().unwrap(), server)
}

pub fn message() -> Message {
    Message {
        reply_to: None,
        from: "Müller & Söhne <shop@example.com>".parse().unwrap(),
        to: "o'brien@example.com".parse().unwrap(),
        subject: "Your key for Größe \"L\"".to_owned(),
        text: "Your key:\n\n.dlv_key\n\rbare\rreturns\nä€🐦 and a line that is far longer than what SMTP takes: "
            .to_owned()
            + &"x".repeat(2000),
        html: "<p>Your key: dlv_key ä</p>".to_owned(),
        message_id: MessageId::new("e-mail-1@example.com").unwrap(),
        date: chrono::DateTime::from_timestamp(1_795_255_200, 0).unwrap(),
        about: None,
    }
}

#[tokio::test]
async fn an_accepted_message_arrives_whole() {
    let (mailer, server) = serve(Script::Accept).await;
    let sent = message();
    for _ in 0..3 {
        mailer.send(&sent).await.unwrap();
    }
    let received = server.received();
    let [raw, _, _] = received.as_slice() else { panic!("{received:?}") };
    assert!(raw.lines().all(|line| line.len() <= 998 && line.is_ascii() && !line.contains('\r')), "{raw}");
    let parsed = MessageParser::new().parse(raw.as_bytes()).unwrap();
    assert_eq!(parsed.subject(), Some(sent.subject.as_str()));
    assert_eq!(parsed.message_id(), Some("e-mail-1@example.com"));
    assert_eq!(parsed.header_raw("Auto-Submitted").map(str::trim), Some("auto-generated"));
    assert_eq!(parsed.from().unwrap().first().unwrap().name(), Some("Müller & Söhne"));
    assert_eq!(parsed.to().unwrap().first().unwrap().address(), Some("o'brien@example.com"));
    assert_eq!(parsed.date().unwrap().to_rfc3339(), "2026-11-21T10:00:00Z");
    let text = parsed.body_text(0).unwrap().replace("\r\n", "\n");
    assert_eq!(text.trim_end(), sent.text.replace('\r', "\n").trim_end());
    assert!(parsed.body_html(0).unwrap().contains(&sent.html));
}

#[tokio::test]
async fn messages_share_a_connection_up_to_a_hundred() {
    let (mailer, server) = serve(Script::Accept).await;
    for _ in 0..100 {
        mailer.send(&message()).await.unwrap();
    }
    assert_eq!((server.received().len(), server.connections()), (100, 1));
    mailer.send(&message()).await.unwrap();
    assert_eq!((server.received().len(), server.connections()), (101, 2));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let (mailer, server) = serve(Script::HangUpBetweenLetters).await;
    for _ in 0..3 {
        mailer.send(&message()).await.unwrap();
    }
    assert_eq!((server.received().len(), server.connections()), (3, 3));
}

/// Waits until the server has seen something.
async fn until(is_seen: impl Fn() -> bool) {
    let waiting = async {
        while !is_seen() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it never came to be");
}

/// A reply that comes too late for one e-mail must not be taken for the next one's.
#[tokio::test]
async fn a_connection_whose_message_was_cut_off_is_not_used_again() {
    let (mailer, server) = serve(Script::SilentAfterTheFirstDot).await;
    let sent = message();
    tokio::select! {
        done = mailer.send(&sent) => panic!("{done:?}"),
        () = until(|| !server.received().is_empty()) => {}
    }
    mailer.send(&message()).await.unwrap();
    assert_eq!((server.received().len(), server.connections()), (2, 2));
}

/// The second confirmation would be taken for the reply to the next e-mail's first command, and so on: an e-mail that is
/// refused would count as sent.
#[tokio::test]
async fn a_connection_whose_server_replied_once_too_often_is_not_used_for_another_message() {
    let (mailer, server) = serve(Script::At(".", b"250 taken\r\n250 taken\r\n")).await;
    for _ in 0..3 {
        mailer.send(&message()).await.unwrap();
    }
    assert_eq!((server.received().len(), server.connections()), (3, 3));
    // From the first command on, no e-mail counts as sent.
    let (mailer, server) = serve(Script::At("MAIL", b"250 ok\r\n250 ok\r\n")).await;
    assert_eq!(mailer.send(&message()).await.unwrap_err().kind(), Failure::Transient);
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn a_connection_that_nobody_needs_is_closed_in_order() {
    let (mailer, server) = serve(Script::Accept).await;
    mailer.send(&message()).await.unwrap();
    // A paused clock goes on by itself when nobody is busy, also while a reply is on its way.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(30)).await;
    tokio::time::resume();
    until(|| server.quit() > 0).await;
    mailer.send(&message()).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn what_a_refusal_means_for_the_message() {
    use Failure::{Doubtful, Permanent, Transient, Unconfirmed};
    for (at, reply, meaning) in [
        // Whatever comes before the recipient is named concerns every e-mail.
        ("", "550 your address is blocked", Transient),
        ("", "554 5.7.1 no service here", Transient),
        ("EHLO", "550 5.1.1 who are you", Transient),
        ("AUTH", "535 5.7.8 wrong password", Transient),
        ("AUTH", "550 no such user", Transient),
        ("MAIL", "550 no such user", Transient),
        ("MAIL", "550 5.1.1 sender unknown", Transient),
        ("MAIL", "553 sender address rejected", Transient),
        ("MAIL", "452 4.3.1 full", Transient),
        // Only an enhanced code says for certain that there is no such recipient.
        ("RCPT", "450 mailbox busy", Transient),
        ("RCPT", "451 greylisted", Transient),
        ("RCPT", "550 5.1.1 no such user", Permanent),
        ("RCPT", "550 5.1.10 no such user", Permanent),
        ("RCPT", "553 5.1.3 bad address", Permanent),
        ("RCPT", "550 no such user", Doubtful),
        ("RCPT", "551 user moved", Doubtful),
        ("RCPT", "553 unknown mailbox", Doubtful),
        ("RCPT", "550 relay not permitted", Transient),
        ("RCPT", "550 Sender verify failed", Transient),
        ("RCPT", "550 Mailbox quota exceeded", Transient),
        ("RCPT", "550 5.7.1 your address is blocked", Transient),
        ("RCPT", "550 5.4.5 daily quota spent", Transient),
        ("RCPT", "554 relay denied", Transient),
        ("RCPT", "530 log in first", Transient),
        // What comes after it is about the message or the sender.
        ("DATA", "550 no such user", Transient),
        ("DATA", "554 5.1.1 no valid recipients", Transient),
        (".", "452 full", Transient),
        (".", "550 no such user", Transient),
        (".", "550 5.1.1 no such user", Transient),
        (".", "554 5.7.1 refused", Transient),
        (".", "334 more", Unconfirmed),
        (".", "451", Transient),
        ("RCPT", "550", Doubtful),
        (".", "no reply at all", Unconfirmed),
    ] {
        let (mailer, _server) = replying(at, reply).await;
        let error = mailer.send(&message()).await.unwrap_err();
        assert_eq!(error.kind(), meaning, "{at} {reply}: {error}");
        assert!(!error.to_string().contains("dlv_key"));
    }
    let (mailer, _) = serve(Script::HangUpAfterTheDot).await;
    assert_eq!(mailer.send(&message()).await.unwrap_err().kind(), Unconfirmed);
}

#[tokio::test]
async fn a_refusal_is_told_as_what_it_is() {
    for (at, reply, told) in [
        ("", "421 4.7.0 too many connections", "the mail server is busy (421 4.7.0)"),
        ("", "554 no service here", "the mail server takes no connections from here (554)"),
        ("EHLO", "421 later", "the mail server is busy (421)"),
        ("EHLO", "504 5.5.2 need a name", "the mail server refuses the name that HELO gives (504 5.5.2)"),
        ("EHLO", "250 no login here", "the mail server offers no login that is known here"),
        ("AUTH", "454 4.7.0 later", "the mail server is busy (454 4.7.0)"),
        ("AUTH", "535 5.7.8 wrong password", "the mail server refuses the login (535 5.7.8)"),
        ("MAIL", "421 later", "the mail server is busy (421)"),
        ("MAIL", "530 5.7.0 log in first", "the mail server wants a login (530 5.7.0)"),
        ("RCPT", "550 5.1.1 no such user", "the mail server knows no such recipient (550 5.1.1)"),
        ("DATA", "554 5.7.1 no", "the mail server did not take the message (554 5.7.1)"),
        (".", "554 038.954.090 no", "the mail server did not take the message (554)"),
    ] {
        let (mailer, _server) = replying(at, reply).await;
        assert_eq!(mailer.send(&message()).await.unwrap_err().to_string(), told, "{at} {reply}");
    }
}

#[tokio::test]
async fn nothing_of_a_reply_is_repeated_but_its_codes() {
    let words = "key 0123 4567, (ada at example dot com), ZGx2X2FiYw==; ";
    let replies = ["554 ", "554 5.7.1 ", "450-4.7.1 ", "554 5.7.1234 ", "5544 ", "", "250 5.7.1 ", "334 "];
    let mut refused = 0;
    for at in ["", "EHLO", "AUTH", "MAIL", "RCPT", "DATA", "."] {
        for codes in replies {
            let reply = format!("{codes}{words}\r\n{}{words}", codes.replace('-', " "));
            let (mailer, _server) = replying(at, &reply).await;
            let Err(error) = mailer.send(&message()).await else { continue };
            refused += 1;
            let told = format!("{} {error:?}", delivery_core::explain(&error));
            for word in ["0123", "4567", "ada", "dot", "ZGx2", "key", "1234"] {
                assert!(!told.contains(word), "{at} {codes}: {told}");
            }
        }
    }
    assert!(refused > 40, "{refused}");
}

#[tokio::test]
async fn a_reply_without_end_is_broken_off() {
    for line in [&format!("550-{}\r\n", "y".repeat(100)), "550 y", "\r"] {
        let endless: &'static [u8] = line.repeat(200_000 / line.len()).leak().as_bytes();
        for (at, meaning) in [("RCPT", Failure::Transient), (".", Failure::Unconfirmed)] {
            let (mailer, _server) = serve(Script::At(at, endless)).await;
            assert_eq!(mailer.send(&message()).await.unwrap_err().kind(), meaning, "{at} {line:?}");
        }
    }
}

#[tokio::test]
async fn extensions_are_known_however_they_are_written() {
    for reply in ["250-mail.example\r\n250-smtputf8\r\n250 Auth plain", "250-\r\n250-SmtpUtf8\r\n250 AUTH PLAIN"] {
        let (mailer, _server) = replying("EHLO", reply).await;
        mailer.send(&Message { to: "jürgen@example.com".parse().unwrap(), ..message() }).await.unwrap();
    }
}

#[tokio::test]
async fn the_server_is_greeted_with_a_dns_name() {
    let (mailer, server) = serve(Script::HangUpBetweenLetters).await;
    for mailer in [mailer.clone(), mailer.helo("mail.shop.example").unwrap()] {
        mailer.send(&message()).await.unwrap();
        mailer.check(&message().from).await.unwrap();
    }
    let [of_sender, set] = ["EHLO example.com", "EHLO mail.shop.example"];
    assert_eq!(server.greeted(), [of_sender, of_sender, set, set]);
}

#[tokio::test]
async fn a_server_that_accepts_others_is_believed_when_it_refuses_one() {
    let (mailer, _) = serve(Script::KnowsSome).await;
    let send = async |to: &str| mailer.send(&Message { to: to.parse().unwrap(), ..message() }).await;
    let refused = async |to: &str| send(to).await.unwrap_err().kind();
    assert_eq!(refused("nobody@example.com").await, Failure::Doubtful, "it may refuse everybody");
    send("buyer@example.com").await.unwrap();
    assert_eq!(refused("nobody@example.com").await, Failure::Permanent);
    assert_eq!(refused("nonesuch@example.com").await, Failure::Doubtful, "nobody was accepted since");
    send("buyer@example.com").await.unwrap();
    assert_eq!(refused("nonesuch@example.com").await, Failure::Permanent);
}

#[tokio::test]
async fn a_confirmation_is_understood_whatever_it_is_written_in() {
    let long: &'static [u8] = format!("250 taken {}\r\n", "x".repeat(20_000)).leak().as_bytes();
    let lines: &'static [u8] = format!("250-{}\r\n250 taken\r\n", "x".repeat(5000)).leak().as_bytes();
    for reply in [&b"250 \xfcbernommen\r\n"[..], b"250-\xff\xfe\r\n250 ok\r\n", b"250\r\n", b"250 ok\n", long, lines] {
        let (mailer, server) = serve(Script::At(".", reply)).await;
        mailer.send(&message()).await.unwrap();
        mailer.send(&message()).await.unwrap();
        assert_eq!((server.received().len(), server.connections()), (2, 1));
    }
}

#[tokio::test]
async fn a_server_has_ten_minutes_for_its_last_reply() {
    for (seconds, confirmed) in [(62, true), (590, true), (610, false)] {
        let (mailer, server) = serve(Script::Slow(seconds)).await;
        let thinking = async {
            until(|| !server.received().is_empty()).await;
            // The clock goes on by itself until a moment before the reply, and not while that is on its way.
            tokio::time::pause();
            tokio::time::sleep(Duration::from_millis(seconds * 1000 - 100)).await;
            tokio::time::resume();
        };
        let sending = async { mailer.send(&message()).await.map_err(|error| error.kind()) };
        let (sent, ()) = tokio::join!(sending, thinking);
        assert_eq!(sent, if confirmed { Ok(()) } else { Err(Failure::Unconfirmed) }, "{seconds} s");
    }
}

/// As an alert does while the only connection waits for the confirmation of an e-mail to a buyer.
#[tokio::test]
async fn an_e_mail_that_gets_no_connection_is_not_tried() {
    let (mailer, server) = serve(Script::Slow(300)).await;
    let (mailer, message) = (mailer.connections(NonZeroUsize::MIN), message());
    let waiting = async {
        until(|| !server.received().is_empty()).await;
        tokio::time::pause();
        mailer.send(&message).await.unwrap_err()
    };
    tokio::select! {
        sent = mailer.send(&message) => panic!("{sent:?}"),
        error = waiting => assert_eq!(error.kind(), Failure::NotTried, "{error}"),
    }
}

#[tokio::test]
async fn an_address_beyond_ascii_goes_by_smtputf8_or_fails_with_that_reason() {
    let sent = Message { to: "用户@例え.jp".parse().unwrap(), ..message() };
    let (mailer, server) = serve(Script::International).await;
    mailer.send(&sent).await.unwrap();
    mailer.send(&message()).await.unwrap();
    let senders = server.senders();
    assert!(senders[0].contains("SMTPUTF8") && !senders[1].contains("SMTPUTF8"), "{senders:?}");
    let received = server.received();
    assert!(received[0].contains("To: 用户@xn--r8jz45g.jp\r\n"), "{}", received[0]);
    for to in ["हिन्दी@example.com", "\u{301}a@example.com", "jürgen@bücher.example"] {
        let sent = Message { to: to.parse().unwrap(), ..message() };
        mailer.send(&sent).await.unwrap();
        let received = server.received().pop().unwrap();
        assert!(received.contains(&format!("To: {}\r\n", sent.to)), "{received}");
    }
    let (mailer, server) = serve(Script::Accept).await;
    let error = mailer.send(&sent).await.unwrap_err();
    assert!(server.recipients().is_empty());
    assert!(error.is_permanent() && error.to_string().contains("SMTPUTF8"), "{error}");
    assert!(server.senders().is_empty());
}

#[tokio::test]
async fn dots_that_follow_each_other_or_stand_at_the_end_are_sent_in_quotes() {
    let (mailer, server) = serve(Script::Accept).await;
    for (to, written) in [
        ("a..b@docomo.ne.jp", "\"a..b\"@docomo.ne.jp"),
        ("a.@ezweb.ne.jp", "\"a.\"@ezweb.ne.jp"),
        ("a.b@example.com", "a.b@example.com"),
    ] {
        mailer.send(&Message { to: to.parse().unwrap(), ..message() }).await.unwrap();
        assert_eq!(server.recipients().pop(), Some(format!("RCPT TO:<{written}>")));
        let received = server.received().pop().unwrap();
        assert!(received.contains(&format!("\r\nTo: {written}\r\n")), "{received}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_may_be_back_later() {
    let (_nobody, address) = support::nobody();
    let mailer: SmtpMailer = format!("smtp://{address}").parse().unwrap();
    assert!(!mailer.send(&message()).await.unwrap_err().is_permanent());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_left_in_time() {
    let (mailer, _) = serve(Script::Silence).await;
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is paused")]
    let started = tokio::time::Instant::now();
    assert!(!mailer.send(&message()).await.unwrap_err().is_permanent());
    assert!(started.elapsed() <= delivery_core::mail::SEND_TIMEOUT);
}
