//! What can happen, and what it is answered with.

use serde_json::{Value, json};

use crate::Behaviour;

/// What happens next. Keys are named by the order of their issue, from 0.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// The platform tells of a paid order.
    Order {
        /// One of four orders.
        order: u8,
        /// 1 or 2; 9 is no product.
        product: i64,
        /// One of three buyers.
        buyer: usize,
    },
    /// A commerce platform reports something of an order of product 1. What it reports twice, and out of order, comes to the same.
    Event {
        /// One of three orders, which are not those of [`Step::Order`].
        order: u8,
        /// What.
        told: Told,
        /// One of three buyers.
        buyer: usize,
        /// Of two events that say the same, which.
        copy: u8,
    },
    /// The seller issues a key by hand.
    Issue {
        /// As of an order.
        product: i64,
        /// As of an order.
        buyer: usize,
        /// For how long; `None` for the product's own terms, -1 for ever.
        days: Option<i64>,
        /// How often; `None` for the product's own terms, -1 without a limit.
        uses: Option<i64>,
        /// Whether an e-mail is sent.
        message: bool,
    },
    /// Is the key valid?
    Validate {
        /// Which key.
        key: usize,
    },
    /// Fetches the product, which counts a use.
    Fetch {
        /// Which key.
        key: usize,
        /// Which product.
        product: i64,
    },
    /// Fetches the product with an `Idempotency-Key`, which counts once.
    FetchOnce {
        /// Which key.
        key: usize,
        /// Which product.
        product: i64,
        /// One of two requests.
        request: u8,
    },
    /// The same by HEAD, which counts none.
    Head {
        /// Which key.
        key: usize,
        /// Which product.
        product: i64,
    },
    /// With a key of which one character is another.
    Forged {
        /// Which key it is made from.
        key: usize,
    },
    /// The seller revokes a key.
    Revoke {
        /// Which key.
        key: usize,
    },
    /// The seller gives a key back.
    Restore {
        /// Which key.
        key: usize,
    },
    /// The seller gives a key other terms.
    Change {
        /// Which key.
        key: usize,
        /// Days from its issue; -1 for ever.
        days: Option<i64>,
        /// Another limit, or more uses.
        limit: Option<Limit>,
    },
    /// The seller sends a key again.
    SendAgain {
        /// Which key.
        key: usize,
        /// To another address from now on.
        buyer: Option<usize>,
    },
    /// The seller replaces a key whose text leaked.
    Rotate {
        /// Which key.
        key: usize,
    },
    /// What a running service does now and then: it tells buyers of keys that expire, marks those that have, and forgets old
    /// requests.
    Chores,
    /// The clock moves, also back.
    Clock {
        /// By so much.
        milliseconds: i64,
    },
    /// From now on the mail server does this.
    Mailer(Behaviour),
    /// The worker sends what is due.
    Work,
    /// The seller has all e-mails that failed sent again.
    Resend,
    /// The service ends, in order or not, and starts again.
    Restart {
        /// Whether the store is left open, as a crash leaves it.
        crash: bool,
    },
}

/// How the seller changes what is left of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// So many uses; -1 without a limit.
    Set(i64),
    /// So many more.
    Add(i64),
}

/// What a platform reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// The order was paid.
    Paid,
    /// The money went back.
    Refunded,
    /// The payment is disputed.
    Disputed,
    /// The dispute was won.
    Won,
}

/// What a step must be answered with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// Nothing is answered.
    None,
    /// A status, and the body but for sentences.
    Http(u16, Value),
    /// 200 with this key.
    Key(usize),
    /// E-mails sent, deferred, failed.
    Worked(usize, usize, usize),
    /// The keys whose e-mails had failed, one for each e-mail.
    Resent(Vec<usize>),
}

impl Answer {
    pub(super) fn error(status: u16, code: &str) -> Self {
        Self::Http(status, json!({ "error": { "code": code } }))
    }

    /// The answer that has a product.
    pub(super) fn served(product: i64) -> Self {
        let name = format!("Product {product}");
        let product = json!({ "id": product, "name": name, "type": "digital", "content": "# x" });
        Self::Http(200, json!({ "product": product }))
    }
}
