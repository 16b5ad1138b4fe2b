//! The place of the Rocket binding. It is not written yet: this crate has no items and is not published.
//!
//! `delivery-axum` shows the shape it takes: one native route for each `Endpoint` of `delivery-core`, and a guard.
