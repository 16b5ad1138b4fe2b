-- Files of products. The bytes are objects in an object store; an object is written once and never changed.
CREATE TABLE delivery_file (
    object   TEXT COLLATE "C" PRIMARY KEY, -- 32 hexadecimal digits
    product  BIGINT NOT NULL,
    name     TEXT NOT NULL,
    folded   TEXT COLLATE "C" NOT NULL, -- the name without regard to case
    size     BIGINT NOT NULL, -- bytes
    sha256   BYTEA NOT NULL,
    kind     TEXT NOT NULL, -- media type
    added_at BIGINT NOT NULL,
    ended_at BIGINT -- when it was replaced or deleted; NULL: current
);
CREATE UNIQUE INDEX delivery_file_by_name ON delivery_file (product, folded) WHERE ended_at IS NULL;
-- A row is deleted only after it has ended, so no product changes then.
CREATE TRIGGER delivery_file_change AFTER INSERT OR UPDATE ON delivery_file
    FOR EACH STATEMENT EXECUTE FUNCTION delivery_count_change();
