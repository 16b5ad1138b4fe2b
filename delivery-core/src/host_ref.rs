//! The host application's own name for a product or a key.

crate::text::line_type! {
    /// The host application's own name for a product or a key, such as the UUID of a row in its database. With such
    /// names, the application needs no table that maps its rows to products and keys. A name has 1 to 200 characters
    /// without control characters, and is compared exactly. This crate does not interpret the name, and buyers do not
    /// see it.
    HostRef, 200
}

impl From<uuid::Uuid> for HostRef {
    /// Returns the UUID in its usual form, in lower case with hyphens.
    fn from(uuid: uuid::Uuid) -> Self {
        Self(uuid.to_string().into())
    }
}
