//! SMTP against a scripted server on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use delivery_core::mail::{FolderMailer, Mailer, Message, SmtpMailer};
use delivery_core::store::MessageId;
use mail_parser::MessageParser;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the server does at the point where it misbehaves.
#[derive(Clone, Copy)]
enum Script {
    Accept,
    Silence,
    AtRecipient(&'static str),
    AtEnd(&'static str),
    HangUpAfterTheDot,
}

/// Serves connections by `script`, and keeps what came as data.
async fn serve(script: Script) -> (SmtpMailer, Arc<Mutex<Vec<String>>>) {
    let (mailer, received, _) = serve_counting(script).await;
    (mailer, received)
}

/// The same, and how many connections came.
async fn serve_counting(script: Script) -> (SmtpMailer, Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mailer = format!("smtp://{}", listener.local_addr().unwrap()).parse().unwrap();
    let received = Arc::new(Mutex::new(Vec::new()));
    let kept = received.clone();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(converse(stream, script, kept.clone()));
        }
    });
    (mailer, received, connections)
}

async fn converse(stream: TcpStream, script: Script, received: Arc<Mutex<Vec<String>>>) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    if matches!(script, Script::Silence) {
        return std::future::pending().await;
    }
    write.write_all(b"220 test\r\n").await?;
    while let Some(line) = lines.next_line().await? {
        let reply = match line.split(' ').next().unwrap().to_ascii_uppercase().as_str() {
            "EHLO" => "250-test\r\n250 8BITMIME",
            "RCPT" => match script {
                Script::AtRecipient(reply) => reply,
                _ => "250 ok",
            },
            "DATA" => {
                write.write_all(b"354 go on\r\n").await?;
                let mut data = String::new();
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    data.push_str(line.strip_prefix('.').unwrap_or(&line));
                    data.push_str("\r\n");
                }
                received.lock().unwrap().push(data);
                match script {
                    Script::HangUpAfterTheDot => return Ok(()),
                    Script::AtEnd(reply) => reply,
                    _ => "250 taken",
                }
            }
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        write.write_all(format!("{reply}\r\n").as_bytes()).await?;
    }
    Ok(())
}

fn message() -> Message {
    Message {
        from: "Müller & Söhne <shop@example.com>".parse().unwrap(),
        to: "o'brien@example.com".parse().unwrap(),
        subject: "Your key for Größe \"L\"".to_owned(),
        text: "Your key:\n\n.dlv_key\n\rbare\rreturns\nä€🐦 and a line that is far longer than what SMTP takes: "
            .to_owned()
            + &"x".repeat(2000),
        html: "<p>Your key: dlv_key ä</p>".to_owned(),
        message_id: MessageId::new("letter-1@example.com").unwrap(),
        date: chrono::DateTime::from_timestamp(1_795_255_200, 0).unwrap(),
    }
}

#[tokio::test]
async fn an_accepted_message_arrives_whole() {
    let (mailer, received) = serve(Script::Accept).await;
    let sent = message();
    for _ in 0..3 {
        mailer.send(&sent).await.unwrap();
    }
    let received = received.lock().unwrap();
    assert_eq!(received.len(), 3);
    let raw = &received[0];
    assert!(raw.lines().all(|line| line.len() <= 998 && line.is_ascii() && !line.contains('\r')), "{raw}");
    let parsed = MessageParser::new().parse(raw.as_bytes()).unwrap();
    assert_eq!(parsed.subject(), Some(sent.subject.as_str()));
    assert_eq!(parsed.message_id(), Some("letter-1@example.com"));
    assert_eq!(parsed.header_raw("Auto-Submitted").map(str::trim), Some("auto-generated"));
    assert_eq!(parsed.from().unwrap().first().unwrap().name(), Some("Müller & Söhne"));
    assert_eq!(parsed.to().unwrap().first().unwrap().address(), Some("o'brien@example.com"));
    assert_eq!(parsed.date().unwrap().to_rfc3339(), "2026-11-21T10:00:00Z");
    let text = parsed.body_text(0).unwrap().replace("\r\n", "\n");
    assert_eq!(text.trim_end(), sent.text.replace('\r', "\n").trim_end());
    assert!(parsed.body_html(0).unwrap().contains(&sent.html));
}

/// A reply that comes too late for one letter must not be taken for the next one's.
#[tokio::test]
async fn no_two_letters_share_a_connection() {
    let (mailer, received, connections) = serve_counting(Script::Accept).await;
    for _ in 0..3 {
        mailer.send(&message()).await.unwrap();
    }
    assert_eq!((received.lock().unwrap().len(), connections.load(Ordering::Relaxed)), (3, 3));
}

#[tokio::test]
async fn what_a_refusal_means_for_the_letter() {
    for (script, permanent) in [
        (Script::AtRecipient("450 mailbox busy"), false),
        (Script::AtRecipient("451 greylisted"), false),
        (Script::AtRecipient("550 no such user"), true),
        (Script::AtRecipient("550 5.1.1 no such user"), true),
        (Script::AtRecipient("550 5.7.1 your address is blocked"), false),
        (Script::AtRecipient("550 5.4.5 daily quota spent"), false),
        (Script::AtRecipient("554 relay denied"), false),
        (Script::AtRecipient("530 log in first"), false),
        (Script::AtEnd("452 full"), false),
        (Script::AtEnd("554 5.7.1 refused"), false),
        (Script::HangUpAfterTheDot, false),
    ] {
        let (mailer, _) = serve(script).await;
        let error = mailer.send(&message()).await.unwrap_err();
        assert_eq!(error.is_permanent(), permanent, "{error}");
        assert!(!error.to_string().contains("dlv_key"));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_may_be_back_later() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mailer: SmtpMailer = format!("smtp://{address}").parse().unwrap();
    assert!(!mailer.send(&message()).await.unwrap_err().is_permanent());
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_left_in_time() {
    let (mailer, _) = serve(Script::Silence).await;
    #[expect(clippy::disallowed_methods, reason = "the paused clock of the runtime")]
    let started = tokio::time::Instant::now();
    assert!(!mailer.send(&message()).await.unwrap_err().is_permanent());
    assert!(started.elapsed() <= delivery_core::mail::SEND_TIMEOUT);
}

#[tokio::test]
async fn a_folder_keeps_one_private_file_a_letter() {
    let folder = tempfile::tempdir().unwrap();
    let mailer = FolderMailer::open(folder.path().join("mail")).unwrap();
    for _ in 0..2 {
        mailer.send(&message()).await.unwrap();
    }
    let files: Vec<_> =
        std::fs::read_dir(folder.path().join("mail")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [folder.path().join("mail/letter-1@example.com.eml")]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&files[0]).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let bytes = std::fs::read(&files[0]).unwrap();
    assert_eq!(MessageParser::new().parse(&bytes).unwrap().message_id(), Some("letter-1@example.com"));
}
