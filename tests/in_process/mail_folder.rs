//! E-mails in a folder, one file each.

use delivery_core::ledger::MessageId;
use delivery_core::mail::{FolderMailer, Mailer, Message};
use mail_parser::MessageParser;

use crate::smtp::message;

#[tokio::test]
async fn a_folder_keeps_one_private_file_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let mailer = FolderMailer::open(folder.path().join("mail")).unwrap();
    for _ in 0..2 {
        mailer.send(&message()).await.unwrap();
    }
    let files: Vec<_> =
        std::fs::read_dir(folder.path().join("mail")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [folder.path().join("mail/e-mail-1@example.com.eml")]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&files[0]).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let bytes = std::fs::read(&files[0]).unwrap();
    assert_eq!(MessageParser::new().parse(&bytes).unwrap().message_id(), Some("e-mail-1@example.com"));
}

#[tokio::test]
async fn messages_that_come_at_once_are_all_written_whoever_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let mailer = FolderMailer::open(folder.path()).unwrap();
    let messages: Vec<Message> = (0..40)
        .map(|number| Message { message_id: MessageId::new(format!("{number}@example.com")).unwrap(), ..message() })
        .collect();
    let mut sending: Vec<_> = messages.iter().map(|message| mailer.send(message)).collect();
    // The first has begun to write, for itself alone; the second is to write for all the others.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(sending.iter_mut().all(|message| message.as_mut().poll(&mut context).is_pending()));
    assert!(!format!("{mailer:?}").contains("waiting"), "e-mails hold keys");
    drop(sending.drain(..2));
    for message in sending {
        message.await.unwrap();
    }
    for message in &messages[1..] {
        assert!(folder.path().join(format!("{}.eml", message.message_id.as_str())).is_file());
    }
}

#[tokio::test]
async fn a_folder_that_is_gone_may_be_back_later() {
    let folder = tempfile::tempdir().unwrap();
    let mailer = FolderMailer::open(folder.path().join("mail")).unwrap();
    std::fs::remove_dir(folder.path().join("mail")).unwrap();
    assert!(!mailer.send(&message()).await.unwrap_err().is_permanent());
    mailer.clone().send(&message()).await.unwrap_err();
    FolderMailer::open(folder.path().join("mail")).unwrap();
    mailer.send(&message()).await.unwrap();
}
