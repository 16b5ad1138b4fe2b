//! The host's own name for a product or a key.

crate::text::line_type! {
    /// What the host calls a product or a key: the primary key of its own row, such as a UUID, so that it needs no second
    /// table. 1 to 200 characters without control characters, compared exactly. It means nothing here, and no buyer sees it.
    HostRef, 200
}
