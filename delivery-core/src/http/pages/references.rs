//! Parsing the references of a product, as a seller types them. Each line has the name of a platform and the platform's
//! name for the product.

use super::PageRequest;
use super::form::FormError;
use crate::delivery::{NameForm, PlatformRow};
use crate::http::PlatformPath;
use crate::order::Source;
use crate::product::{RefName, Refs};

/// Parses references, one on each line. `before` are the product's current references. A line that is equal to one of
/// them is accepted without further checks.
pub(super) fn read(request: &PageRequest<'_>, lines: &str, before: Option<&Refs>) -> Result<Refs, FormError> {
    let mut names = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let known = before.into_iter().flat_map(Refs::iter).find(|(source, name)| format!("{source} {name}") == line);
        names.push(match known {
            Some((source, name)) => (source.clone(), name.clone()),
            None => one(request, line).map_err(|wrong| FormError::new("refs", format!("“{line}”: {wrong}")))?,
        });
    }
    Refs::new(names).map_err(FormError::of("refs", "The references"))
}

fn one(request: &PageRequest<'_>, line: &str) -> Result<(Source, RefName), String> {
    let Some((platform, name)) = line.split_once(char::is_whitespace) else {
        return Err("a line has a platform, a space, and its ID of the product, such as: stripe plink_1Abc.".to_owned());
    };
    let platform = platform.trim_end_matches(':').to_ascii_lowercase();
    let form = PlatformRow::named(&platform).map_or(&NameForm::Any, |row| &row.guide.product_names);
    let name = match form {
        NameForm::Any => name.trim(),
        NameForm::InUrl(before) => after(name.trim(), before),
        NameForm::Id(begins, _) => in_address(name.trim(), begins),
    };
    let known: Vec<&str> =
        PlatformPath::built_in().chain(PlatformPath::of_host(request.delivery)).map(PlatformPath::name).collect();
    let Some(source) = known.contains(&platform.as_str()).then(|| platform.parse().ok()).flatten() else {
        return Err(format!("the first word must be one of {}.", known.join(", ")));
    };
    let is_address = name.contains("://");
    match form {
        NameForm::Id(begins, example)
            if is_address
                || !is_id(name)
                || !begins.iter().any(|begin| name.strip_prefix(begin).is_some_and(|rest| !rest.is_empty())) =>
        {
            let instead = if is_address { "This is an address. " } else { "" };
            Err(format!("{instead}The ID must be such as {example}. The platform shows it beside the product."))
        }
        NameForm::Any | NameForm::InUrl(_) if is_address => {
            Err("this is an address. Copy the ID of the product instead.".to_owned())
        }
        _ => {
            let name = name.parse().map_err(|expected: crate::text::Invalid| format!("the ID {expected}."))?;
            Ok((source, name))
        }
    }
}

/// Returns whether a text has only characters that identifiers of platforms have.
fn is_id(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte))
}

/// Returns the last path segment of the URL `name`, if this segment begins with one of `begins`. For example, the
/// address of a payment link in Stripe's dashboard ends with the identifier of the link. Returns any other name
/// unchanged.
fn in_address<'n>(name: &'n str, begins: &[&str]) -> &'n str {
    let last = name.split(['?', '#']).next().and_then(|path| path.trim_end_matches('/').rsplit('/').next());
    last.filter(|last| begins.iter().any(|begin| last.starts_with(begin))).unwrap_or(name)
}

/// If `name` contains the text `before`, returns the path segment after this text. With `gumroad.com/l/`, for example,
/// the result for `https://ada.gumroad.com/l/atlas` is `atlas`. Returns any other name unchanged.
fn after<'n>(name: &'n str, before: &str) -> &'n str {
    let after = name.split_once(before).and_then(|(_, after)| after.split(['?', '#', '/']).next());
    after.unwrap_or(name)
}
