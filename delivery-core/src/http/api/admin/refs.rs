//! Parses the field `refs`, which contains the names that commerce platforms use for a product. Also parses the names
//! of platforms.

use crate::delivery::Delivery;
use crate::http::PlatformPath;
use crate::http::describe::REFS;
use crate::http::fields::{Fault, Fields, Members};
use crate::order::Source;
use crate::product::{RefName, Refs};
use crate::text::Invalid;

/// Returns the field `refs`: the names that commerce platforms use for a product, such as `{"stripe": ["plink_1"]}`.
/// Returns `None` if the field is absent, or if its value is `null`.
pub(super) fn refs_of(delivery: &Delivery, fields: &Fields<'_>) -> Result<Option<Refs>, Fault> {
    const EXPECTED: Invalid = Invalid::expected(
        "must be an object of lists of names, each of 1 to 255 characters without control characters",
    );
    let Some(given) = fields.value::<Members<Vec<String>>>(REFS, EXPECTED)? else { return Ok(None) };
    let mut names = Vec::new();
    for (platform, called) in given.0 {
        let source = platform_named(delivery, &platform)
            .ok_or_else(|| Fault::malformed(REFS.name, Invalid::expected("must name platforms such as stripe")))?;
        for name in called {
            let name = name.parse::<RefName>().map_err(|_| Fault::malformed(REFS.name, EXPECTED))?;
            names.push((source.clone(), name));
        }
    }
    Refs::new(names).map(Some).map_err(|expected| Fault::malformed(REFS.name, expected))
}

/// Returns the platform with this name. Returns `None` if neither this crate nor the host application supports such a
/// platform.
pub(super) fn platform_named(delivery: &Delivery, name: &str) -> Option<Source> {
    let is_known =
        PlatformPath::built_in().any(|known| known.name() == name) || delivery.inner.platforms.named(name).is_some();
    name.parse().ok().filter(|_| is_known)
}
