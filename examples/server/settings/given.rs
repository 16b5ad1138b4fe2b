//! Reads flags and environment variables.

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, FromArgMatches, Subcommand};
use delivery_core::delivery::Setting;

use super::command::Command;
use super::files::{self, Files};
use super::refusal::{flag, id};
use super::table::{FIRST, LAST};
use crate::Refusal;

/// The settings as text, and the command.
#[derive(Default)]
pub(crate) struct Given {
    matches: ArgMatches,
    pub(crate) command: Option<Command>,
    /// The files that secrets were read from.
    pub(crate) files: Files,
}

impl Given {
    /// Reads flags and environment. An empty variable counts as not set, because deployment tools leave variables
    /// empty.
    pub(crate) fn read() -> Result<Self, Refusal> {
        let last = LAST.iter().flat_map(|(heading, rows)| rows.iter().map(move |row| row.setting.under(heading)));
        let settings = FIRST.iter().map(|row| row.setting).chain(Setting::all()).chain(last);
        let program = clap::Command::new("delivery")
            .version(env!("CARGO_PKG_VERSION"))
            .about("Sells digital products: takes paid orders, e-mails keys, serves products")
            .after_help("RUST_LOG sets the log filter, info by default. An empty variable counts as not set.");
        let program = files::with_twins(program.args(settings.map(argument)));
        // Each setting may be given before or after a command.
        let mut program = Command::augment_subcommands(program.mut_args(|arg| arg.global(true)));
        for name in program.get_arguments().filter_map(|arg| arg.get_env()) {
            if std::env::var_os(name).is_some_and(|value| value.to_str().is_none()) {
                return Err(format!("{} must be text in UTF-8", name.display()).into());
            }
        }
        let is_empty = |arg: &Arg| arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        program = program.mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
        let matches = program.clone().get_matches();
        let (program, files) = files::with_contents(program, &matches)?;
        let matches = program.get_matches();
        let command = matches.subcommand_name().map(|_| Command::from_arg_matches(&matches));
        let command = command.transpose().unwrap_or_else(|error| error.exit());
        Ok(Self { matches, command, files })
    }

    /// The value of a setting, or its default; `None` if it is empty or has neither.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.matches.get_one(&id(name)).filter(|text: &&String| !text.is_empty()).cloned()
    }
}

fn argument(setting: Setting) -> Arg {
    let arg = Arg::new(id(setting.name)).long(flag(setting.name)).env(setting.name).value_name(setting.name);
    let arg = arg.help(setting.help).hide_env_values(setting.is_secret).allow_negative_numbers(true);
    let arg = setting.heading.iter().fold(arg, |arg, heading| arg.help_heading(*heading));
    setting.default.iter().fold(arg, |arg, default| arg.default_value(*default))
}
