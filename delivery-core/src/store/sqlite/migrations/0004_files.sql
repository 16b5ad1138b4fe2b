-- Files of products. The bytes are objects in an object store; an object is written once and never changed.
CREATE TABLE delivery_file (
    object   TEXT PRIMARY KEY, -- 32 hexadecimal digits
    product  INTEGER NOT NULL,
    name     TEXT NOT NULL,
    folded   TEXT NOT NULL, -- the name without regard to case
    size     INTEGER NOT NULL, -- bytes
    sha256   BLOB NOT NULL,
    kind     TEXT NOT NULL, -- media type
    added_at INTEGER NOT NULL,
    ended_at INTEGER -- when it was replaced or deleted; NULL: current
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX delivery_file_by_name ON delivery_file (product, folded) WHERE ended_at IS NULL;
