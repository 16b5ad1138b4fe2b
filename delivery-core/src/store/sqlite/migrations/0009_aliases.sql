-- Keys that were sold elsewhere are also found by the text that their buyers have. Only a MAC of the text is kept.
CREATE TABLE delivery_alias (
    mac BLOB PRIMARY KEY, -- 32 bytes
    key INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_alias_by_key ON delivery_alias (key);
