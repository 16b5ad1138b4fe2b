//! The names that commerce platforms use for a product.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::order::Source;
use crate::text::Invalid;

/// The maximum number of names that one product may have, over all platforms together.
pub const MOST_REFS: usize = 100;

crate::text::line_type! {
    /// A name that a platform uses for a product: 1 to 255 characters without control characters, compared exactly.
    RefName, 255
}

/// The names that platforms use for a product, by platform. An order for one of these names is an order for this
/// product. In JSON: `{"stripe": ["plink_1"], "shopify": ["BOOK-1", "variant:39072856"]}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Refs(BTreeMap<Source, BTreeSet<RefName>>);

impl Refs {
    /// Collects names, each with its platform. A repeated name counts once.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for more than [`MOST_REFS`] names.
    pub fn new(names: impl IntoIterator<Item = (Source, RefName)>) -> Result<Self, Invalid> {
        let mut refs = BTreeMap::<Source, BTreeSet<RefName>>::new();
        for (source, name) in names {
            refs.entry(source).or_default().insert(name);
        }
        let count: usize = refs.values().map(BTreeSet::len).sum();
        if count <= MOST_REFS { Ok(Self(refs)) } else { Err(Invalid::expected("must be at most 100 names")) }
    }

    /// Returns all names, each with its platform.
    pub fn iter(&self) -> impl Iterator<Item = (&Source, &RefName)> {
        self.0.iter().flat_map(|(source, names)| names.iter().map(move |name| (source, name)))
    }

    /// Returns whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
