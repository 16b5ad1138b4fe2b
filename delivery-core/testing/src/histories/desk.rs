//! The seller's changes of keys in the naive model, and repeated requests.

use super::message::{Message, Topic};
use super::model::{Model, NEVER, Request};
use super::step::{Answer, Limit};
use serde_json::Value;

const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;
/// How long before the expiry of a key its buyer is notified, in milliseconds.
const TOLD_BEFORE: i64 = 14 * DAY;

/// Returns the answer to a successful change by the seller. It has no body, because the keys are compared anyway.
fn done() -> Answer {
    Answer::Http(200, Value::Null)
}

fn refused() -> Answer {
    Answer::error(400, "INVALID_PARAMS")
}

impl Model {
    /// Returns the last successor of this key, or the key itself if it has none.
    pub(super) fn heir(&self, mut key: usize) -> usize {
        while let Some(successor) = self.keys[key].successor {
            key = successor;
        }
        key
    }

    pub(super) fn restore(&mut self, key: usize) -> Answer {
        let key = &mut self.keys[key];
        if key.successor.is_some() {
            return refused();
        }
        (key.revoked, key.disputed) = (false, false);
        done()
    }

    pub(super) fn change(&mut self, key: usize, days: Option<i64>, limit: Option<Limit>) -> Answer {
        if days.is_none() && limit.is_none() {
            return Answer::error(400, "MISSING_PARAMS");
        }
        let key = &mut self.keys[key];
        match limit {
            Some(Limit::Add(_)) if key.limit < 0 => return refused(),
            Some(Limit::Add(uses)) => key.limit += uses,
            Some(Limit::Set(uses)) => key.limit = uses,
            None => {}
        }
        match days {
            Some(-1) => key.expires = NEVER,
            Some(days) => key.expires = key.issued + days * 86_400,
            None => {}
        }
        done()
    }

    pub(super) fn send_again(&mut self, key: usize, buyer: Option<usize>) -> Answer {
        let key = &mut self.keys[key];
        if key.revoked {
            return refused();
        }
        key.buyer = buyer.unwrap_or(key.buyer);
        key.messages.push(Message::queued(Topic::Again, key.buyer, self.now));
        done()
    }

    pub(super) fn rotate(&mut self, key: usize) -> Answer {
        let (heir, successor) = (self.heir(key), self.keys.len());
        let old = &mut self.keys[key];
        if heir != key {
            return Answer::Key(heir);
        }
        if old.revoked {
            return refused();
        }
        let mut new = old.clone();
        (old.revoked, old.successor, old.order) = (true, Some(successor), None);
        new.inherited = new.used;
        new.messages = vec![Message::queued(Topic::Successor, new.buyer, self.now)];
        self.keys.push(new);
        Answer::Key(successor)
    }

    pub(super) fn chores(&mut self) -> Answer {
        let now = self.now;
        for key in &mut self.keys {
            let expires = key.expires * 1000;
            // Skips keys whose validity, both as sold and now, is shorter than the notice period.
            let is_long = key.granted.max(key.expires) - key.issued >= TOLD_BEFORE / 1000;
            let is_soon = is_long && now < expires && expires <= now + TOLD_BEFORE;
            if is_soon && !key.revoked && !key.is_used_up() && key.noticed != Some(key.expires) {
                key.noticed = Some(key.expires);
                key.messages.push(Message::queued(Topic::Expiring(key.expires), key.buyer, now));
            }
        }
        self.requests.retain(|request| request.at >= now - 25 * HOUR);
        Answer::None
    }

    pub(super) fn fetch_once(&mut self, key: usize, product: i64, name: u8) -> Answer {
        let now = self.now;
        if product == 9 {
            return self.fetch(key, product, true);
        }
        let place = self.requests.iter().position(|request| (request.key, request.name) == (key, name));
        let is_known = |request: &&mut Request| (now - request.at).abs() < 24 * HOUR;
        let known = place.map(|place| &mut self.requests[place]).filter(is_known);
        let counts_each = known.is_some();
        if let Some(known) = known.filter(|_| !self.keys[key].revoked) {
            if known.product != product {
                return refused();
            }
            if known.repeats < 10 {
                known.repeats += 1;
                return Answer::served(product);
            }
        }
        let answer = self.fetch(key, product, true);
        if matches!(answer, Answer::Http(200, _)) && !counts_each {
            let request = Request { key, name, product, at: now, repeats: 0 };
            match place {
                Some(place) => self.requests[place] = request,
                None => self.requests.push(request),
            }
        }
        answer
    }
}
