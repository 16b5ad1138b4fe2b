-- Times are milliseconds since 1970, UTC, unless a column says seconds. Nothing here is secret: a key's text cannot be
-- made from its id without the signing secret.

-- Fingerprints of the secrets that keys are signed with.
CREATE TABLE delivery_keyring (
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
    uses        INTEGER,
    archived    INTEGER NOT NULL DEFAULT 0, -- 1: neither listed nor sold
    host_ref    TEXT UNIQUE, -- what the host calls it
    refs        TEXT NOT NULL DEFAULT '{}', -- what platforms call it: {"stripe": ["plink_1"]}
    language    TEXT -- of e-mails about it; NULL: the shop's
) STRICT;

-- What a commerce platform calls a product of ours: the column `refs`, a name a row. A name is one product's.
CREATE TABLE delivery_product_ref (
    source  TEXT NOT NULL,
    name    TEXT NOT NULL,
    product INTEGER NOT NULL,
    PRIMARY KEY (source, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_product_ref_by_product ON delivery_product_ref (product);
CREATE TRIGGER delivery_product_named AFTER INSERT ON delivery_product WHEN NEW.refs <> '{}' BEGIN
    INSERT INTO delivery_product_ref (source, name, product)
    SELECT s.key, n.value, NEW.id FROM json_each(NEW.refs) s, json_each(s.value) n;
END;
CREATE TRIGGER delivery_product_renamed AFTER UPDATE OF refs ON delivery_product WHEN NEW.refs <> OLD.refs BEGIN
    DELETE FROM delivery_product_ref WHERE product = OLD.id;
    INSERT INTO delivery_product_ref (source, name, product)
    SELECT s.key, n.value, NEW.id FROM json_each(NEW.refs) s, json_each(s.value) n;
END;

CREATE TABLE delivery_post (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    title        TEXT NOT NULL,
    category     TEXT NOT NULL,
    content      TEXT NOT NULL,
    published_at INTEGER NOT NULL, -- seconds
    version      INTEGER NOT NULL DEFAULT 0 -- counts changes
) STRICT;
CREATE INDEX delivery_post_by_time ON delivery_post (published_at, id);
CREATE INDEX delivery_post_by_category ON delivery_post (category, published_at, id);

-- What was granted, and the state but for the count, which delivery_count holds.
CREATE TABLE delivery_key (
    number         INTEGER PRIMARY KEY,
    id             BLOB NOT NULL UNIQUE,
    secret_version INTEGER NOT NULL,
    product        INTEGER NOT NULL,
    email          TEXT NOT NULL,
    source         TEXT,
    order_id       TEXT,
    issued_at      INTEGER NOT NULL, -- seconds
    granted_until  INTEGER NOT NULL, -- seconds
    granted_uses   INTEGER NOT NULL, -- -1: unlimited
    expires_at     INTEGER NOT NULL, -- seconds
    max_uses       INTEGER NOT NULL, -- -1: unlimited
    revoked_at     INTEGER,
    revoked_reason TEXT,
    revoked_by     TEXT,
    successor      TEXT, -- the id of the key that took its place
    exhausted      INTEGER NOT NULL DEFAULT 0, -- 1: used up
    host_ref       TEXT, -- what the host calls it
    noticed        INTEGER, -- seconds: the time at which it is to expire of which the buyer was told
    lapsed         INTEGER, -- seconds: the time at which it expired, once that was marked
    -- For searches: 0 valid, 1 used up, 2 expired as far as that is marked, 3 revoked.
    state          INTEGER NOT NULL GENERATED ALWAYS AS (CASE
        WHEN revoked_at IS NOT NULL THEN 3 WHEN lapsed = expires_at THEN 2 WHEN exhausted = 1 THEN 1 ELSE 0 END) VIRTUAL,
    -- 0: the buyer is to be told when it expires, 1: was told, 2: it never does.
    told           INTEGER NOT NULL GENERATED ALWAYS AS (CASE
        WHEN expires_at >= 253402300799 THEN 2 WHEN noticed = expires_at THEN 1 ELSE 0 END) VIRTUAL
) STRICT;
-- Without regard to the case of ASCII letters.
CREATE INDEX delivery_key_by_email ON delivery_key (lower(email), id);
CREATE INDEX delivery_key_by_product ON delivery_key (product, state, id);
CREATE INDEX delivery_key_by_state ON delivery_key (state, id);
-- Most shops have no more than one source beside this one, in which orders are many.
CREATE INDEX delivery_key_by_source ON delivery_key (source, state, id) WHERE source <> 'webhook';
CREATE INDEX delivery_key_by_host_ref ON delivery_key (host_ref, id) WHERE host_ref IS NOT NULL;
-- The keys of an order that others replaced; the purchase has the last one.
CREATE INDEX delivery_key_replaced ON delivery_key (order_id, id) WHERE successor IS NOT NULL;
-- Keys that have expired and are to be marked, and those whose buyers are to be told before they expire.
CREATE INDEX delivery_key_expiring ON delivery_key (state, told, expires_at);

-- Counts, as far as they are flushed (see delivery_watermark). They stand apart from what was granted: some three hundred
-- fit into a page, so that flushing the counts of many keys writes few pages.
CREATE TABLE delivery_count (
    key      INTEGER PRIMARY KEY,
    used     INTEGER NOT NULL,
    last_use INTEGER NOT NULL -- 0: none of its own
) STRICT;

-- Keys with their counts, as far as they are flushed.
CREATE VIEW delivery_counted_key AS
    SELECT k.*, coalesce(c.used, 0) AS used, nullif(c.last_use, 0) AS last_use, 0 AS version
    FROM delivery_key k LEFT JOIN delivery_count c ON c.key = k.number;

-- The identity of a purchase: one key for an order and product, for ever.
CREATE TABLE delivery_purchase (
    order_id TEXT NOT NULL,
    source   TEXT NOT NULL,
    product  INTEGER NOT NULL,
    key      INTEGER NOT NULL,
    PRIMARY KEY (order_id, source, product)
) STRICT, WITHOUT ROWID;

-- The redo log of counts: one row a counted use, appended, with the count after it. A commit of many uses writes one page.
-- `previous` chains the uses of a key, newest first, so that its history is read without an index.
CREATE TABLE delivery_use (
    number   INTEGER PRIMARY KEY,
    key      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    used     INTEGER NOT NULL,
    previous INTEGER
) STRICT;

-- Uses up to `number` are counted in delivery_count. Of those after it, some may be. No row has a number beyond `reserved`,
-- where 0 says nothing.
CREATE TABLE delivery_watermark (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    number   INTEGER NOT NULL,
    reserved INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO delivery_watermark (one, number) VALUES (1, 0);

-- Requests that buyers may repeat: fetches that came with an `Idempotency-Key`. Deleted a day later.
CREATE TABLE delivery_request (
    key     INTEGER NOT NULL,
    request TEXT NOT NULL, -- 16 bytes of the SHA-256 of its name, hexadecimal
    product INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    repeats INTEGER NOT NULL, -- how often it was answered again
    version INTEGER NOT NULL DEFAULT 1, -- counts writes
    PRIMARY KEY (key, request)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_request_by_time ON delivery_request (at);

CREATE TABLE delivery_message (
    number     INTEGER PRIMARY KEY,
    key        INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    recipient  TEXT NOT NULL,
    message_id TEXT NOT NULL,
    state      INTEGER NOT NULL DEFAULT 0, -- 0 queued, 1 sent, 2 failed
    leased     INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    token      INTEGER NOT NULL DEFAULT 0,
    queued_at  INTEGER NOT NULL,
    due_at     INTEGER NOT NULL, -- of a leased message: when the lease ends; of a sent or failed one: when that was
    reason     TEXT,
    route      TEXT -- hexadecimal: the route by which it failed
) STRICT;
CREATE INDEX delivery_message_by_key ON delivery_message (key, number);
CREATE INDEX delivery_message_queued ON delivery_message (due_at, number) WHERE state = 0;
CREATE INDEX delivery_message_leased ON delivery_message (number) WHERE leased = 1;
CREATE INDEX delivery_message_failed ON delivery_message (due_at, number) WHERE state = 2;

-- Events of commerce platforms, kept before they are answered, and what they came to.
CREATE TABLE delivery_inbox (
    number      INTEGER PRIMARY KEY,
    source      TEXT NOT NULL,
    name        TEXT NOT NULL, -- the platform's name for the event
    kind        TEXT NOT NULL,
    order_id    TEXT,
    body        TEXT, -- what it says, as JSON, until it is done; NULL after that, and if it cannot be read
    received_at INTEGER NOT NULL,
    outcome     TEXT, -- NULL: not applied yet
    reason      TEXT,
    keys        TEXT NOT NULL, -- a JSON array of key ids
    due_at      INTEGER, -- when it is applied, if nobody does before; NULL: done
    attempts    INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    UNIQUE (source, name)
) STRICT;
CREATE INDEX delivery_inbox_due ON delivery_inbox (due_at, number) WHERE due_at IS NOT NULL;
-- Most are sales, and need no index to be found.
CREATE INDEX delivery_inbox_by_outcome ON delivery_inbox (outcome, number) WHERE outcome <> 'issued';

-- What platforms have reported of a sale and its renewals, and what that came to; for ever.
CREATE TABLE delivery_deal (
    number  INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    facts   TEXT NOT NULL -- JSON
) STRICT;

-- What platforms call orders, payments, invoices and subscriptions, each with its deal.
CREATE TABLE delivery_reference (
    source TEXT NOT NULL,
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    deal   INTEGER NOT NULL,
    PRIMARY KEY (source, kind, name)
) STRICT, WITHOUT ROWID;

-- Addresses of platforms' customers.
CREATE TABLE delivery_customer (
    source    TEXT NOT NULL,
    reference TEXT NOT NULL,
    email     TEXT NOT NULL,
    told_at   INTEGER NOT NULL,
    PRIMARY KEY (source, reference)
) STRICT, WITHOUT ROWID;

-- The audit log of changes. What was issued is told by the keys themselves.
CREATE TABLE delivery_event (
    number INTEGER PRIMARY KEY,
    key    INTEGER,
    product INTEGER,
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    detail TEXT
) STRICT;
CREATE INDEX delivery_event_by_key ON delivery_event (key, number);
-- Addresses that were corrected, and those of customers, are to be erased with others.
CREATE INDEX delivery_event_corrected ON delivery_event (lower(detail)) WHERE action = 'email_changed';
CREATE INDEX delivery_customer_by_email ON delivery_customer (lower(email));

-- Who is signed in at the desk.
CREATE TABLE delivery_session (
    id         BLOB PRIMARY KEY, -- a MAC of the session's secret
    actor      TEXT NOT NULL,
    token      BLOB NOT NULL, -- a MAC of the token that signed in
    expires_at INTEGER NOT NULL -- seconds
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_session_by_time ON delivery_session (expires_at);

-- Buyers who asked for their keys, until that is looked up.
CREATE TABLE delivery_lost (
    number INTEGER PRIMARY KEY,
    email  TEXT NOT NULL,
    at     INTEGER NOT NULL
) STRICT;

-- A transfer into another database: which one, and when it was finished.
CREATE TABLE delivery_transfer (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          BLOB NOT NULL,
    finished_at INTEGER
) STRICT;
