-- Times are milliseconds since 1970, UTC, unless a column says seconds. Nothing here is secret: a key's text cannot be
-- made from its id without the signing secret.

CREATE TABLE delivery_ring (
    fingerprint BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE delivery_product (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL,
    description TEXT NOT NULL,
    kind        TEXT NOT NULL,
    content     TEXT NOT NULL,
    price       TEXT NOT NULL,
    days        INTEGER,
    uses        INTEGER
) STRICT;

CREATE TABLE delivery_post (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    title        TEXT NOT NULL,
    category     TEXT NOT NULL,
    content      TEXT NOT NULL,
    published_at INTEGER NOT NULL -- seconds
) STRICT;
CREATE INDEX delivery_post_by_time ON delivery_post (published_at, id);
CREATE INDEX delivery_post_by_category ON delivery_post (category, published_at, id);

CREATE TABLE delivery_key (
    number     INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,
    ring       INTEGER NOT NULL,
    product    INTEGER NOT NULL,
    email      TEXT NOT NULL,
    source     TEXT,
    order_id   TEXT,
    issued_at  INTEGER NOT NULL, -- seconds
    expires_at INTEGER NOT NULL, -- seconds
    max_uses   INTEGER NOT NULL, -- -1: unlimited
    used       INTEGER NOT NULL DEFAULT 0, -- as far as folded, see delivery_fold
    last_use   INTEGER, -- as far as folded
    revoked_at INTEGER
) STRICT;
-- The identity of a purchase: one key for an order and product, for ever.
CREATE UNIQUE INDEX delivery_key_by_order ON delivery_key (order_id, source, product) WHERE order_id IS NOT NULL;
CREATE INDEX delivery_key_by_email ON delivery_key (email, id);
CREATE INDEX delivery_key_by_product ON delivery_key (product, id);

-- One row a counted use, appended: a commit of many uses dirties one page. `previous` chains the uses of a key, newest
-- first, so that its history is read without an index.
CREATE TABLE delivery_use (
    number   INTEGER PRIMARY KEY,
    key      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    previous INTEGER
) STRICT;

-- Uses up to `number` are counted in their keys' rows; those behind it are not yet.
CREATE TABLE delivery_fold (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    number INTEGER NOT NULL
) STRICT;
INSERT INTO delivery_fold (only, number) VALUES (1, 0);

CREATE TABLE delivery_letter (
    number     INTEGER PRIMARY KEY,
    key        INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    state      INTEGER NOT NULL DEFAULT 0, -- 0 waiting, 1 sent, 2 parked
    leased     INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    fence      INTEGER NOT NULL DEFAULT 0,
    queued_at  INTEGER NOT NULL,
    due_at     INTEGER NOT NULL, -- of a sent or parked letter: when that was
    reason     TEXT
) STRICT;
CREATE INDEX delivery_letter_waiting ON delivery_letter (due_at, number) WHERE state = 0;
CREATE INDEX delivery_letter_leased ON delivery_letter (number) WHERE leased = 1;
CREATE INDEX delivery_letter_parked ON delivery_letter (number) WHERE state = 2;
