-- Counts stand apart from what was sold, which never changes: some three hundred to a page, so that folding many uses
-- writes few pages. `delivery_key` shows both together.

UPDATE delivery_key SET used = used + t.uses, last_use = t.last FROM (
    SELECT key, count(*) AS uses, max(number) AS last FROM delivery_use
    WHERE number > (SELECT number FROM delivery_fold) GROUP BY key) t
WHERE delivery_key.number = t.key;
UPDATE delivery_fold SET number = max(number, coalesce((SELECT max(number) FROM delivery_use), 0));

CREATE TABLE delivery_count (
    key      INTEGER PRIMARY KEY,
    used     INTEGER NOT NULL, -- as far as folded, see delivery_fold
    last_use INTEGER NOT NULL -- as far as folded
) STRICT;
INSERT INTO delivery_count SELECT number, used, coalesce(last_use, 0) FROM delivery_key WHERE used > 0 ORDER BY number;

DROP INDEX delivery_key_exhausted;
ALTER TABLE delivery_key ADD COLUMN exhausted INTEGER NOT NULL DEFAULT 0; -- 1: used up, from the last use on
UPDATE delivery_key SET exhausted = 1 WHERE max_uses >= 0 AND used >= max_uses;
ALTER TABLE delivery_key DROP COLUMN used;
ALTER TABLE delivery_key DROP COLUMN last_use;
ALTER TABLE delivery_key RENAME TO delivery_grant;
CREATE INDEX delivery_grant_exhausted ON delivery_grant (id) WHERE exhausted = 1;

CREATE VIEW delivery_key AS
    SELECT g.number, g.id, g.ring, g.product, g.email, g.source, g.order_id, g.issued_at, g.expires_at, g.max_uses,
           g.revoked_at, g.exhausted, coalesce(c.used, 0) AS used, c.last_use
    FROM delivery_grant g LEFT JOIN delivery_count c ON c.key = g.number;

-- Uses are folded in sweeps, key by key: of the uses behind `number`, those up to `until` of the keys up to `through`
-- are counted too. Between sweeps, `until` is `number` and `through` is 0.
ALTER TABLE delivery_fold ADD COLUMN until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delivery_fold ADD COLUMN through INTEGER NOT NULL DEFAULT 0;
UPDATE delivery_fold SET until = number;
