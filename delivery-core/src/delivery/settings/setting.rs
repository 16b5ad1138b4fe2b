//! A setting, and a row of a table of settings.

use crate::text::Invalid;

/// A setting, as a program's `--help` shows it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Setting {
    /// The name of the setting's environment variable, such as `LIMIT_ADMIN`.
    pub name: &'static str,
    /// The value if the setting is absent. `None` if the setting is required, if it has no default, or if `help`
    /// states the default.
    pub default: Option<&'static str>,
    /// What the setting means, without a full stop.
    pub help: &'static str,
    /// The heading of the setting's group. `None` for the first group.
    pub heading: Option<&'static str>,
    /// Whether the value is secret and must not be shown.
    pub is_secret: bool,
    /// Whether the value may be a list in a table of settings.
    pub(super) may_be_list: bool,
}

impl Setting {
    /// Makes a setting in the first group. Its value may be shown.
    #[must_use]
    pub const fn new(name: &'static str, default: Option<&'static str>, help: &'static str) -> Self {
        Self { name, default, help, heading: None, is_secret: false, may_be_list: true }
    }

    /// Makes a secret setting in the first group, without a default.
    #[must_use]
    pub const fn secret(name: &'static str, help: &'static str) -> Self {
        Self { is_secret: true, may_be_list: false, ..Self::new(name, None, help) }
    }

    /// Makes a setting that holds several secrets, in the first group, without a default.
    pub(super) const fn secrets(name: &'static str, help: &'static str) -> Self {
        Self { may_be_list: true, ..Self::secret(name, help) }
    }

    /// Moves the setting to another group.
    #[must_use]
    pub const fn under(self, heading: &'static str) -> Self {
        Self { heading: Some(heading), ..self }
    }
}

/// A setting, and how its text is read into a `T`.
pub(super) struct Row<T> {
    pub(super) setting: Setting,
    pub(super) read: fn(&mut T, &str) -> Result<(), Invalid>,
}

impl<T> Row<T> {
    pub(super) const fn help(mut self, help: &'static str) -> Self {
        self.setting.help = help;
        self
    }
}

pub(super) fn set<T>(field: &mut T, value: Result<T, Invalid>) -> Result<(), Invalid> {
    *field = value?;
    Ok(())
}

pub(super) fn flag(text: &str) -> Result<bool, Invalid> {
    text.parse().map_err(|_| Invalid::expected("must be true or false"))
}
