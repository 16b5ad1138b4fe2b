-- Keys that were sold elsewhere are also found by the text that their buyers have. Only a MAC of the text is kept.
CREATE TABLE delivery_alias (
    mac BYTEA PRIMARY KEY, -- 32 bytes
    key BIGINT NOT NULL
);
CREATE INDEX delivery_alias_by_key ON delivery_alias (key);
