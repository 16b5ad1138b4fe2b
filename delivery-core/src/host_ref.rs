//! The host application's own name for a product or a key.

crate::text::line_type! {
    /// The host application's own name for a product or a key, such as the UUID of its row, so that the application
    /// needs no table that maps one to the other. 1 to 200 characters without control characters, compared exactly.
    /// This crate does not interpret the name, and buyers do not see it.
    HostRef, 200
}
