//! What happens, decided purely: no async, no I/O, no clock.
//!
//! ```text
//! plan    operations and the rows that they concern -> answers, and the rows to write
//! deal    what a platform has reported of a sale -> what should hold of its keys
//! inbox, request, message, notice, audit, answer    what operations are about, and what they come to
//! ```
//!
//! A [store](crate::store) loads the rows that [`plan`] needs and persists what it writes. It decides nothing.

mod answer;
mod audit;
pub(crate) mod deal;
mod error;
pub(crate) mod inbox;
mod message;
mod notice;
pub(crate) mod plan;
mod request;

pub use self::answer::{Issue, Refused, Resend, Sale, Successor};
pub use self::audit::{Action, Edit};
pub use self::deal::{
    Bought, Captured, Cause, ChargeRef, Charged, Deal, Dispute, Extent, Links, MOST_PRODUCTS, Offer, Own, Recurrence,
    ReferenceKind, Refund, Report, Returned, Standing, Subscription, Term, Word,
};
pub use self::error::StoreError;
pub use self::inbox::{
    Customer, Entry, EventId, EventName, EventOutcome, Handling, Notices, Receipt, Received, UNKNOWN_PRODUCT,
};
pub use self::message::{FailedMessage, Lease, LeasedMessage, MessageNumber, Outcome, Route};
pub use self::notice::{Addressee, MOST_WEBHOOKS, MessageId, MessageKind, Notice, Recipient, WebhookName};
pub use self::plan::{
    DealRow, InboxWrites, KeyWrite, Loaded, Needs, NewEvent, NewMessage, NewUse, Numbers, PurchaseId, ReferenceId,
    RequestRow, Row, Writes,
};
pub use self::request::{Fetch, Fetched, KNOWN_FOR, MOST_REPEATS, RequestId};
