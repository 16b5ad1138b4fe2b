//! The rules of the ledger, which records keys, sales and uses, as pure code: no async, no I/O, no clock.
//!
//! ```text
//! operation   what callers ask for: issue, change, resend, rotate, fetch, receive, complete -> an answer
//! plan        the rows that were loaded for a batch of operations -> the rows to write
//! deal        what a platform has reported about a sale -> the state that the sale's keys should have
//! sale, inbox, request, message, notice, audit, amount, error    the types that operations use
//! ```
//!
//! A [store](crate::store) loads the rows that a batch of operations [needs](Needs), and persists the rows that the
//! plan for the batch [writes](Writes). The store decides nothing.
//!
//! To implement [`Storage`](crate::store::Storage), you need [`Needs`], [`Loaded`] and [`Writes`] with their rows. To
//! call a [`Ledger`](crate::store::Ledger), you submit an [`Operation`] and get an [`Answer`]. To write a
//! [`Platform`](crate::platform::Platform), you need the types that its events contain, such as [`Refund`] and
//! [`Term`]. Most host applications need only [`StoreError`].

mod amount;
mod audit;
pub(crate) mod deal;
mod error;
pub(crate) mod inbox;
mod message;
mod notice;
pub(crate) mod operation;
pub(crate) mod plan;
mod request;
mod sale;

pub use self::amount::{Amount, Currency};
pub use self::audit::{Action, Edit};
pub use self::deal::{
    Bought, Captured, Cause, ChargeRef, Charged, Deal, Dispute, Extent, Links, MOST_PRODUCTS, Offer, Own, Recurrence,
    ReferenceKind, Refund, Report, Returned, Standing, Subscription, SubscriptionReport, Term,
};
pub use self::error::{Refused, StoreError};
pub use self::inbox::{
    Customer, EventId, EventName, EventOutcome, InboxEvent, NO_ADDRESS, UNKNOWN_PRODUCT, names_buyer, names_customer,
    sales_named,
};
pub use self::message::{FailedMessage, Lease, LeasedMessage, MessageNumber, Outcome, Route};
pub use self::notice::{Addressee, MOST_WEBHOOKS, MessageId, MessageKind, Notice, Recipient, WebhookName};
pub use self::operation::{
    Answer, ChangeKey, CompleteMessage, Fetch, FetchProduct, Fetched, Handling, IDEMPOTENCY_WINDOW, InboundEvent,
    Issue, MOST_REPEATS, Notices, Operation, Received, Resend, ResendKey, RotateKey, Successor,
};
pub use self::plan::{
    DealRow, InboxWrites, KeyWrite, Loaded, Needs, NewAuditEntry, NewMessage, NewUse, Numbers, PurchaseId, ReferenceId,
    RequestRow, Row, Writes, number_at,
};
pub use self::request::RequestId;
pub use self::sale::{Imported, NewSale};
