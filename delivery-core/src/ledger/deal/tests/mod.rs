//! Deals have the same result in whatever order their reports come, and however often.

mod hostile;
mod lines;
mod money;
mod paid;
mod rare;
mod seller;
mod world;

use super::*;
