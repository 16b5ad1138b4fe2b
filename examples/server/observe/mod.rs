//! What the operator sees: the log, metrics, e-mails about failures, and how long uses are on record.

pub(crate) mod alert;
pub(crate) mod history;
pub(crate) mod log;
pub(crate) mod metrics;
