//! Compares the service with the naive model: keys, histories and e-mails.

use std::collections::HashMap;

use delivery_core::key::KeyId;
use delivery_core::ledger::MessageKind;
use delivery_core::mail::Message;
use delivery_core::store::{KeyQuery, Ledger};

use super::message::Topic;
use super::model::{BUYERS, Model};
use super::service::{Service, product};
use crate::Fixture;

impl<F> Service<F>
where
    F: Fixture<Store: Ledger + Sized>,
{
    /// Asserts that every key and every sent e-mail is as in the model.
    pub(super) async fn compare(&self, model: &Model) {
        let query = KeyQuery { limit: 1000, ..KeyQuery::default() };
        let found = self.delivery.keys(&query).await.expect("it is well").items;
        assert_eq!(found.len(), model.keys.len());
        let found: HashMap<KeyId, _> = found.into_iter().map(|key| (key.id(), key)).collect();
        for (number, expected) in model.keys.iter().enumerate() {
            let key = &found[&self.id(number)];
            let used = i64::try_from(key.used()).expect("it is well");
            let state = (key.product().get(), used, key.limit().as_count(), key.revoked_at().is_some());
            assert_eq!(state, (expected.product, expected.used, expected.limit, expected.revoked));
            let until = (key.expires_at().timestamp(), key.email().as_str());
            assert_eq!(until, (expected.expires, BUYERS[expected.buyer]));
            let history = self.delivery.history(key.id(), None, 1000).await.expect("it is well");
            assert_eq!(history.items.len(), usize::try_from(expected.used - expected.inherited).expect("it is well"));
        }
        for (product, expected) in [1, 2].map(product).into_iter().zip(&model.files).filter(|_| self.has_files()) {
            let found = self.delivery.product(product).await.expect("it is well").expect("it is well");
            let names: Vec<_> = found.files().iter().map(|file| file.name.as_str()).collect();
            assert_eq!(names, expected.values().copied().collect::<Vec<_>>());
        }
        let accepted = self.mailer.accepted();
        assert_eq!(accepted.len(), model.accepted.len());
        let mut names: HashMap<_, _> = HashMap::new();
        for message in &accepted {
            let about = self.about(message);
            if about.1 != Topic::Again {
                let first = names.entry((about.0, about.1)).or_insert(&message.message_id);
                assert_eq!(first, &&message.message_id, "one name an e-mail");
            }
        }
        let mut sent: Vec<_> = accepted.iter().map(|message| self.about(message)).collect();
        let mut expected = model.accepted.clone();
        sent.sort_unstable();
        expected.sort_unstable();
        assert_eq!(sent, expected);
    }

    /// Returns which key an e-mail is about, its topic, and which buyer it went to.
    fn about(&self, message: &Message) -> (usize, Topic, usize) {
        let number = self.texts.iter().position(|text| message.text.contains(text)).expect("an e-mail with a key");
        let topic = match message.subject.parse() {
            Ok(MessageKind::Purchase) => Topic::Sold,
            Ok(MessageKind::Revoked) => Topic::Refunded,
            Ok(MessageKind::Resend) => Topic::Again,
            Ok(MessageKind::Successor) => Topic::Successor,
            Ok(MessageKind::Expiring) => {
                let name = message.message_id.as_str().split_once('@').expect("it is well").0;
                Topic::Expiring(name.rsplit_once('-').and_then(|(_, at)| at.parse().ok()).expect("a time"))
            }
            other => panic!("{other:?}"),
        };
        (number, topic, BUYERS.iter().position(|buyer| *buyer == message.to.as_str()).expect("a buyer"))
    }
}
