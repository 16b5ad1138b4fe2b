//! Parses the field `refs`, which contains the names that commerce platforms use for a product. Also parses the names
//! of platforms.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::delivery::Delivery;
use crate::http::PlatformPath;
use crate::http::describe::REFS;
use crate::http::fields::{Fault, Fields};
use crate::order::Source;
use crate::product::{RefName, Refs};
use crate::text::Invalid;

/// Returns the field `refs`: the names that commerce platforms use for a product, such as `{"stripe": ["plink_1"]}`.
/// Returns `None` if the field is absent, or if its value is `null`.
pub(super) fn refs_of(delivery: &Delivery, fields: &Fields<'_>) -> Result<Option<Refs>, Fault> {
    const EXPECTED: Invalid = Invalid::expected(
        "must be an object of lists of names, each of 1 to 255 characters without control characters",
    );
    let Some(given) = fields.value::<Strict>(REFS, EXPECTED)? else { return Ok(None) };
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
    let is_known = PlatformPath::BUILT_IN.iter().any(|known| known.name() == name)
        || delivery.inner.platforms.named(name).is_some();
    name.parse().ok().filter(|_| is_known)
}

/// A JSON object whose values are lists of strings. It is an error if a name occurs twice in the object.
struct Strict(BTreeMap<String, Vec<String>>);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Strict;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
                let mut read = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Vec<String>>()? {
                    if read.insert(name, value).is_some() {
                        return Err(Error::custom("a name comes twice"));
                    }
                }
                Ok(Strict(read))
            }
        }

        deserializer.deserialize_map(Object)
    }
}
