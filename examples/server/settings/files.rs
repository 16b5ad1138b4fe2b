//! Secrets from files: `WEBHOOK_SECRET_FILE` names a file with the value of `WEBHOOK_SECRET`. Container platforms and
//! service managers provide secrets as files. Each secret setting has such a twin.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::builder::{Resettable, ValueRange};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use super::refusal::refusal;
use crate::Refusal;

/// The longest value, in bytes.
const LONGEST: u64 = 64 << 10;

/// Adds a twin for each setting that may be a secret: those whose value `--help` hides.
pub(super) fn with_twins(command: Command) -> Command {
    let secrets: Vec<(String, String)> = secrets(&command).collect();
    secrets.into_iter().fold(command, |command, (id, name)| {
        let twin = Arg::new(format!("{id}_file")).long(format!("{}-file", id.replace('_', "-")));
        let twin = twin.env(format!("{name}_FILE")).value_name("FILE").num_args(ValueRange::new(1));
        command.arg(twin.help(format!("File with the value of {name}")).hide_short_help(true))
    })
}

/// The names of settings, each with the file that its value is from.
pub(super) type Files = BTreeMap<String, PathBuf>;

/// Returns the command with the contents of the files in `matches` as default values, and the names of these files.
pub(super) fn with_contents(command: Command, matches: &ArgMatches) -> Result<(Command, Files), Refusal> {
    let (mut contents, mut files) = (Vec::new(), Files::new());
    for (id, name) in secrets(&command) {
        let Some(file) = matches.get_one::<String>(&format!("{id}_file")).filter(|file| !file.is_empty()) else {
            continue;
        };
        let twin = format!("{name}_FILE");
        if matches!(matches.value_source(&id), Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            return Err(refusal(&twin, format!("must not be set beside {name}")));
        }
        let text = content(file).map_err(|error| refusal(&twin, format!("cannot be read: {error}")))?;
        // Editors end a file with a line break. Everything else is the value.
        let value = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
        if value.is_empty() {
            return Err(refusal(&twin, "is an empty file"));
        }
        files.insert(name, file.into());
        contents.push((id, value.to_owned()));
    }
    let filled = contents.into_iter().fold(command, |command, (id, value)| {
        command.mut_arg(id, |arg| arg.env(Resettable::Reset).default_value(value).hide_default_value(true))
    });
    Ok((filled, files))
}

/// The text of a file, which may be a pipe.
fn content(file: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST { Err(io::Error::other("it is longer than 64 KiB")) } else { Ok(text) }
}

/// The settings that may be secrets: the id of the argument and the name of its environment variable. The name is made
/// from the id, because an argument whose variable is empty no longer has the variable.
fn secrets(command: &Command) -> impl Iterator<Item = (String, String)> {
    command.get_arguments().filter(|arg| arg.is_hide_env_values_set()).map(|arg| {
        let id = arg.get_id().as_str();
        (id.to_owned(), id.to_ascii_uppercase())
    })
}
