//! Deals come to the same in whatever order their events come, and however often.

mod before;
mod hostile;
mod lines;
mod money;
mod paid;
mod rare;
mod seller;
mod world;

use super::*;
