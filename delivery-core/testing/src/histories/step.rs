//! What can happen, and what it is answered with.

use serde_json::Value;

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
    /// The clock moves, also back.
    Clock {
        /// By so much.
        milliseconds: i64,
    },
    /// From now on the mail server does this.
    Mailer(Behaviour),
    /// The worker sends what is due.
    Work,
    /// The seller has a failed e-mail sent again.
    Resend,
    /// The service ends, in order or not, and starts again.
    Restart {
        /// Whether the store is left open, as a crash leaves it.
        crash: bool,
    },
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
    /// The keys whose e-mails had failed; that of the first is sent again.
    Resent(Vec<usize>),
}
