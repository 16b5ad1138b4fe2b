//! Parsing the references of a product, as a seller types them. Each line has the name of a platform and the platform's
//! name for the product.

use super::PageRequest;
use super::form::Fault;
use crate::http::PlatformPath;
use crate::order::Source;
use crate::product::{RefName, Refs};

/// The platforms whose names for products have a known form. Each entry has the name of the platform, the prefixes with
/// which its names for products begin, and an example of such a name.
const FORMS: &[(&str, &[&str], &str)] = &[
    ("stripe", &["plink_", "price_", "prod_"], "plink_1Abc, of a payment link"),
    ("paddle", &["pri_", "pro_"], "pri_01abc, of a price"),
    ("lemonsqueezy", &["variant:", "product:"], "variant:501"),
];

/// Parses references, one on each line. `before` are the product's current references. A line that is equal to one of
/// them is not checked.
pub(super) fn read(visit: &PageRequest<'_>, lines: &str, before: Option<&Refs>) -> Result<Refs, Fault> {
    let mut names = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let known = before.into_iter().flat_map(Refs::iter).find(|(source, name)| format!("{source} {name}") == line);
        names.push(match known {
            Some((source, name)) => (source.clone(), name.clone()),
            None => one(visit, line).map_err(|wrong| Fault::new("refs", format!("“{line}”: {wrong}")))?,
        });
    }
    Refs::new(names).map_err(Fault::of("refs", "The references"))
}

fn one(visit: &PageRequest<'_>, line: &str) -> Result<(Source, RefName), String> {
    let Some((platform, name)) = line.split_once(char::is_whitespace) else {
        return Err("a line has a platform, a space, and its ID of the product, such as: stripe plink_1Abc.".to_owned());
    };
    let platform = platform.trim_end_matches(':').to_ascii_lowercase();
    let form = FORMS.iter().find(|(of, ..)| *of == platform);
    let name = match form {
        _ if platform == "gumroad" => named(name.trim()),
        Some((_, begins, _)) => in_address(name.trim(), begins),
        None => name.trim(),
    };
    let known: Vec<&str> = PlatformPath::BUILT_IN
        .iter()
        .copied()
        .chain(PlatformPath::of_host(visit.delivery))
        .map(PlatformPath::name)
        .collect();
    let Some(source) = known.contains(&platform.as_str()).then(|| platform.parse().ok()).flatten() else {
        return Err(format!("the first word must be one of {}.", known.join(", ")));
    };
    let is_address = name.contains("://");
    match form {
        Some((_, begins, example))
            if is_address
                || !is_id(name)
                || !begins.iter().any(|begin| name.strip_prefix(begin).is_some_and(|rest| !rest.is_empty())) =>
        {
            let instead = if is_address { "This is an address. " } else { "" };
            Err(format!("{instead}The ID must be such as {example}. The platform shows it beside the product."))
        }
        None if is_address => Err("this is an address. Copy the ID of the product instead.".to_owned()),
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

/// If `name` is a URL whose path ends with an identifier that begins with one of `begins`, returns this identifier. In
/// Stripe's dashboard, the URL of a payment link is such a URL. Returns any other name unchanged.
fn in_address<'n>(name: &'n str, begins: &[&str]) -> &'n str {
    let last = name.split(['?', '#']).next().and_then(|path| path.trim_end_matches('/').rsplit('/').next());
    last.filter(|last| begins.iter().any(|begin| last.starts_with(begin))).unwrap_or(name)
}

/// If `name` is the URL of a product on Gumroad, such as `https://ada.gumroad.com/l/atlas`, returns the product's name
/// in it. Returns any other name unchanged.
fn named(name: &str) -> &str {
    let address = Some(name).filter(|address| address.contains("gumroad.com/l/"));
    let after = address.and_then(|address| address.split_once("/l/")).map(|(_, after)| after);
    after.and_then(|after| after.split(['?', '#', '/']).next()).unwrap_or(name)
}
