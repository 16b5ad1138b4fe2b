//! Parses dotenv files: `NAME=value`, `export NAME = "value" # why`, `# a comment`.
//!
//! The crate `dotenvy` 0.15 is not used, because these files contain secrets. In a value without quotes or in double
//! quotes, it replaces `$NAME` by the value of a variable, and its errors repeat the line or the value that cannot be
//! parsed. Here `$` is an ordinary character, and an error is only the number of a line.

use std::collections::BTreeMap;

/// Reads the variables of a file. If a name occurs twice, the last value counts. Lines that are no assignments are
/// ignored.
///
/// # Errors
///
/// The number of a line whose quotes are not closed.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, String>, usize> {
    let mut variables = BTreeMap::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).unwrap_or(line);
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        variables.insert(name.trim().to_owned(), unquoted(value.trim()).ok_or(index + 1)?);
    }
    Ok(variables)
}

/// Removes the quotes from a value, and the comment after it; `None` if a quote is not closed.
fn unquoted(value: &str) -> Option<String> {
    if let Some(quoted) = value.strip_prefix('\'') {
        return quoted.split_once('\'').map(|(value, _)| value.to_owned());
    }
    let Some(quoted) = value.strip_prefix('"') else {
        let comment = value.find(" #").or_else(|| value.find("\t#")).unwrap_or(value.len());
        let value = value.get(..comment).unwrap_or_default();
        return Some(if value.starts_with('#') { String::new() } else { value.trim_end().to_owned() });
    };
    let (mut value, mut characters) = (String::new(), quoted.chars());
    loop {
        match characters.next()? {
            '"' => return Some(value),
            '\\' => match characters.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

#[test]
fn lines_of_a_dotenv_file() {
    for (line, expected) in [
        ("KEY_SECRET=a-secret", Some("a-secret")),
        ("KEY_SECRET = a-secret", Some("a-secret")),
        ("  KEY_SECRET=a-secret\r", Some("a-secret")),
        ("\u{feff}KEY_SECRET=a-secret", Some("a-secret")),
        ("export KEY_SECRET=a-secret", Some("a-secret")),
        ("export\tKEY_SECRET=a-secret", Some("a-secret")),
        ("KEY_SECRET=\"a \\\"secret\\\"\" # why", Some("a \"secret\"")),
        ("KEY_SECRET='a $ecret # of mine'", Some("a $ecret # of mine")),
        ("KEY_SECRET=a#secret", Some("a#secret")),
        ("KEY_SECRET=a=secret=", Some("a=secret=")),
        ("KEY_SECRET=a-secret # of mine", Some("a-secret")),
        ("KEY_SECRET=old\nKEY_SECRET=new", Some("new")),
        ("KEY_SECRET= # none yet", Some("")),
        ("#KEY_SECRET=a-secret", None),
        (" # KEY_SECRET=a-secret", None),
        ("KEY_SECRET", None),
        ("MY_KEY_SECRET=a-secret", None),
    ] {
        assert_eq!(parse(line).unwrap().get("KEY_SECRET").map(String::as_str), expected, "{line}");
    }
    assert_eq!(parse("A=1\nB=\"2"), Err(2));
    assert_eq!(parse("A='1"), Err(1));
}
