//! The shop of the naive model: orders, reports of platforms, validations and fetches.

use chrono::{DateTime, SecondsFormat};
use serde_json::json;

use super::message::{Message, Topic};
use super::model::{Key, Model, NEVER, TERMS};
use super::step::{Answer, OrderReport};

impl Key {
    pub(super) fn is_used_up(&self) -> bool {
        self.limit >= 0 && self.used >= self.limit
    }
}

impl Model {
    pub(super) fn order(&mut self, order: u8, product: i64, buyer: usize) -> Answer {
        if product == 9 {
            return Answer::error(404, "NOT_FOUND");
        }
        let known = self.keys.iter().position(|key| key.order == Some(order) && key.product == product);
        Answer::Key(known.unwrap_or_else(|| self.sell(product, buyer, Some(order), (None, None), true)))
    }

    pub(super) fn apply_report(&mut self, order: usize, report: OrderReport, buyer: usize) {
        let mut deal = self.deals[order].clone();
        match report {
            OrderReport::Paid if deal.key.is_some() || deal.is_refunded => {}
            OrderReport::Paid if deal.is_disputed && !deal.is_won => deal.waiting.push(buyer),
            OrderReport::Paid => deal.key = Some(self.sell(1, buyer, None, (None, None), true)),
            OrderReport::Refunded if !deal.is_refunded => {
                deal.is_refunded = true;
                if let Some(key) = deal.key.map(|key| self.heir(key)).map(|key| &mut self.keys[key]) {
                    if !key.revoked || key.disputed {
                        key.messages.push(Message::queued(Topic::Refunded, key.buyer, self.now));
                    }
                    (key.revoked, key.disputed) = (true, false);
                }
            }
            OrderReport::Disputed if !deal.is_disputed => {
                deal.is_disputed = true;
                if let Some(key) =
                    deal.key.map(|key| self.heir(key)).filter(|key| !deal.is_won && !self.keys[*key].revoked)
                {
                    (self.keys[key].revoked, self.keys[key].disputed) = (true, true);
                }
            }
            OrderReport::Won if !deal.is_won => {
                deal.is_won = true;
                if let Some(key) = deal.key.map(|key| self.heir(key)).filter(|key| self.keys[*key].disputed) {
                    (self.keys[key].revoked, self.keys[key].disputed) = (false, false);
                }
                let first = deal.waiting.first().copied().filter(|_| deal.key.is_none() && !deal.is_refunded);
                deal.key = deal.key.or_else(|| first.map(|buyer| self.sell(1, buyer, None, (None, None), true)));
            }
            OrderReport::Refunded | OrderReport::Disputed | OrderReport::Won => {}
        }
        self.deals[order] = deal;
    }

    pub(super) fn issue(
        &mut self,
        product: i64,
        buyer: usize,
        terms: (Option<i64>, Option<i64>),
        message: bool,
    ) -> Answer {
        if product == 9 {
            return Answer::error(404, "NOT_FOUND");
        }
        Answer::Key(self.sell(product, buyer, None, terms, message))
    }

    fn sell(
        &mut self,
        product: i64,
        buyer: usize,
        order: Option<u8>,
        (days, uses): (Option<i64>, Option<i64>),
        message: bool,
    ) -> usize {
        let own = TERMS[usize::from(product == 2)];
        let (days, limit) = (days.unwrap_or(own.0), uses.unwrap_or(own.1));
        let issued = self.now.div_euclid(1000);
        let expires = if days < 0 { NEVER } else { issued + days * 86_400 };
        // A key is issued, and its e-mail due, at a whole second.
        let messages = message.then(|| Message::queued(Topic::Sold, buyer, issued * 1000)).into_iter().collect();
        self.keys.push(Key {
            product,
            buyer,
            limit,
            used: 0,
            revoked: false,
            expires,
            granted: expires,
            inherited: 0,
            disputed: false,
            order,
            issued,
            successor: None,
            noticed: None,
            messages,
        });
        self.keys.len() - 1
    }

    pub(super) fn expired(&self, key: &Key) -> bool {
        self.now >= key.expires * 1000
    }

    /// Returns the code with which the host's rule refuses the next use.
    fn denied(&self, key: &Key) -> Option<&'static str> {
        self.judge?(&Key { used: key.used + 1, ..key.clone() }, self.now)
    }

    pub(super) fn validate(&self, key: usize) -> Answer {
        let key = &self.keys[key];
        let code = match () {
            () if key.revoked => {
                return Answer::Http(401, json!({ "valid": false, "error": { "code": "INVALID_KEY" } }));
            }
            () if self.expired(key) => Some("EXPIRED_KEY"),
            () if key.is_used_up() => Some("EXCEEDED_USES"),
            () => self.denied(key),
        };
        let expires_at =
            DateTime::from_timestamp(key.expires, 0).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut body = json!({
            "valid": code.is_none(),
            "product_id": key.product,
            "expires_at": expires_at,
            "used_count": key.used,
            "remaining_uses": if key.limit < 0 { -1 } else { (key.limit - key.used).max(0) },
        });
        if let Some(code) = code {
            body["error"] = json!({ "code": code });
        }
        Answer::Http(if code.is_none() { 200 } else { 403 }, body)
    }

    pub(super) fn fetch(&mut self, number: usize, product: i64, counts: bool) -> Answer {
        let key = &self.keys[number];
        match () {
            () if key.revoked => Answer::error(401, "INVALID_KEY"),
            () if self.expired(key) => Answer::error(403, "EXPIRED_KEY"),
            () if product == 9 => Answer::error(404, "NOT_FOUND"),
            () if key.product != product => Answer::error(403, "WRONG_PRODUCT"),
            () if key.is_used_up() => Answer::error(403, "EXCEEDED_USES"),
            () => {
                if let Some(code) = self.denied(key) {
                    return Answer::error(403, code);
                }
                self.keys[number].used += i64::from(counts);
                Answer::served(product)
            }
        }
    }
}
