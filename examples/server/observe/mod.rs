//! Monitoring for the operator: the log, metrics and e-mails about failures. Also deletes old records of uses.

pub(crate) mod alert;
pub(crate) mod history;
pub(crate) mod log;
pub(crate) mod metrics;
