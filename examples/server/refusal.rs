//! How a setting that makes no sense is refused.

use std::fmt::Display;

use super::Refusal;

/// Reads one setting; the error names it.
pub(crate) fn read<T, E: Display>(
    name: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Refusal> {
    parse(text).map_err(|expected| refusal(name, expected))
}

pub(crate) fn refusal(name: &str, expected: impl Display) -> Refusal {
    format!("{name} (--{}) {expected}", name.to_ascii_lowercase().replace('_', "-")).into()
}
