//! The steps of a history, and the answers to them.

use serde_json::{Value, json};

use crate::Behaviour;

/// A step of a history. Keys are numbered from 0, in the order in which they were issued.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// The platform reports a paid order to the order webhook.
    Order {
        /// One of four orders.
        order: u8,
        /// Product 1 or 2, or 9, which does not exist.
        product: i64,
        /// One of three buyers, by index.
        buyer: usize,
    },
    /// A commerce platform reports something about an order of product 1. Such reports may be repeated, and may arrive
    /// in any sequence. Stores without an inbox skip this step.
    Event {
        /// One of three orders, which are not those of [`Step::Order`].
        order: u8,
        /// What the platform reports.
        report: OrderReport,
        /// One of three buyers, by index.
        buyer: usize,
        /// Which of two events with the same report.
        copy: u8,
    },
    /// The seller issues a key by hand.
    Issue {
        /// As in [`Step::Order`].
        product: i64,
        /// As in [`Step::Order`].
        buyer: usize,
        /// How many days the key is valid; `None` for the product's own terms, -1 for ever.
        days: Option<i64>,
        /// How often the key may be used; `None` for the product's own terms, -1 without a limit.
        uses: Option<i64>,
        /// Whether the buyer gets an e-mail.
        message: bool,
    },
    /// Asks whether the key is valid.
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
    /// Fetches the product with an `Idempotency-Key`. Up to ten repeats within 24 hours count no further use. Stores
    /// that do not recognise repeated requests skip this step.
    FetchOnce {
        /// Which key.
        key: usize,
        /// Which product.
        product: i64,
        /// One of two values of the header.
        request: u8,
    },
    /// Fetches the product by HEAD, which counts no use.
    Head {
        /// Which key.
        key: usize,
        /// Which product.
        product: i64,
    },
    /// Fetches the product with a key in which one character was changed.
    Forged {
        /// Which key is changed.
        key: usize,
    },
    /// The seller revokes a key.
    Revoke {
        /// Which key.
        key: usize,
    },
    /// The seller lifts the revocation of a key.
    Restore {
        /// Which key.
        key: usize,
    },
    /// The seller changes the terms of a key.
    Change {
        /// Which key.
        key: usize,
        /// The new validity, in days from the issue; -1 for ever, `None` for no change.
        days: Option<i64>,
        /// A new limit, or additional uses; `None` for no change.
        limit: Option<Limit>,
    },
    /// The seller sends a key again.
    SendAgain {
        /// Which key.
        key: usize,
        /// The new buyer, if the address changes.
        buyer: Option<usize>,
    },
    /// The seller replaces a key whose text leaked.
    Rotate {
        /// Which key.
        key: usize,
    },
    /// The seller adds a file to a product, or replaces the one of the same name. Stores without files skip this step.
    PutFile {
        /// Product 1 or 2.
        product: i64,
        /// One of three names, of which two differ only in the case of letters.
        name: usize,
    },
    /// The seller deletes a file of a product. Stores without files skip this step.
    DeleteFile {
        /// As in [`Step::PutFile`].
        product: i64,
        /// As in [`Step::PutFile`].
        name: usize,
    },
    /// The periodic work of a running service: it notifies buyers of keys that expire, marks expired keys, and prunes
    /// old requests. Stores without an [`Office`](delivery_core::store::Office) skip this step.
    Chores,
    /// The clock moves, forward or back.
    Clock {
        /// By how much; negative for back.
        milliseconds: i64,
    },
    /// The mail server behaves like this from now on.
    Mailer(Behaviour),
    /// The worker sends the e-mails that are due.
    Work,
    /// The seller retries all failed e-mails.
    Resend,
    /// The service stops, cleanly or by a crash, and starts again.
    Restart {
        /// Whether the store is left open, as after a crash.
        crash: bool,
    },
}

/// How the seller changes the use limit of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The limit becomes this number; -1 without a limit.
    Set(i64),
    /// This number of uses is added to the limit.
    Add(i64),
}

/// A platform's report about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderReport {
    /// The order was paid.
    Paid,
    /// The payment was refunded.
    Refunded,
    /// The payment is disputed.
    Disputed,
    /// The seller won the dispute.
    Won,
}

/// The answer to a step.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// The step has no answer.
    None,
    /// The HTTP status, and the JSON body without an error's message; null if the body is not compared.
    Http(u16, Value),
    /// Status 200 with the text of this key.
    Key(usize),
    /// Whether there was a file of this name.
    File(bool),
    /// How many e-mails were sent, deferred and given up.
    Worked(usize, usize, usize),
    /// The keys whose e-mails had failed, one for each e-mail.
    Resent(Vec<usize>),
}

impl Answer {
    pub(super) fn error(status: u16, code: &str) -> Self {
        Self::Http(status, json!({ "error": { "code": code } }))
    }

    /// Returns the answer to an allowed fetch of a product.
    pub(super) fn served(product: i64) -> Self {
        let name = format!("Product {product}");
        let product = json!({ "id": product, "name": name, "type": "digital", "content": "# x" });
        Self::Http(200, json!({ "product": product }))
    }
}
