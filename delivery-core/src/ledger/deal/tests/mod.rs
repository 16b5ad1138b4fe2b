//! Tests that a deal has the same result in whatever order, and however often, its reports are made.

mod hostile;
mod lines;
mod money;
mod paid;
mod rare;
mod seller;
mod world;

use super::*;
