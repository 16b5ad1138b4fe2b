//! Errors about invalid settings, and the names of flags.

use std::fmt::Display;

use crate::Refusal;

/// Reads one setting; the error names it.
pub(crate) fn read<T, E: Display>(
    name: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Refusal> {
    parse(text).map_err(|expected| refusal(name, expected))
}

/// The error for an invalid setting.
pub(crate) fn refusal(name: &str, expected: impl Display) -> Refusal {
    format!("{name} (--{}) {expected}", flag(name)).into()
}

/// The id of a setting's argument.
pub(super) fn id(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The name of its flag, without the dashes.
pub(super) fn flag(name: &str) -> String {
    id(name).replace('_', "-")
}
