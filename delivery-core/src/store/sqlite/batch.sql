-- What the writer's connection has of its own: one statement writes all rows of a batch, and is a transaction by itself.
-- Each statement more would be a trip more between the writer and SQLite's thread, twice through the scheduler.
-- Parameters are JSON arrays of rows.

CREATE TEMP VIEW IF NOT EXISTS delivery_batch (keys, letters, uses, exhausted, revoked, settled) AS
    SELECT NULL, NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER IF NOT EXISTS delivery_write INSTEAD OF INSERT ON delivery_batch BEGIN
    INSERT INTO delivery_grant
        (number, id, ring, product, email, source, order_id, issued_at, expires_at, max_uses)
    SELECT value->>0, unhex(value->>1), value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8,
           value->>9
    FROM json_each(NEW.keys);

    INSERT INTO delivery_letter (number, key, message_id, queued_at, due_at)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>3 FROM json_each(NEW.letters);

    INSERT INTO delivery_use (number, key, at, previous)
    SELECT value->>0, value->>1, value->>2, value->>3 FROM json_each(NEW.uses);

    UPDATE delivery_grant SET exhausted = 1 WHERE number IN (SELECT value FROM json_each(NEW.exhausted));

    UPDATE delivery_grant SET revoked_at = j.value->>1 FROM json_each(NEW.revoked) j WHERE number = j.value->>0;

    UPDATE delivery_letter
    SET leased = 0, state = j.value->>2, due_at = coalesce(j.value->>3, queued_at), reason = j.value->>4,
        attempts = attempts - j.value->>5, fence = fence + 1, route = j.value->>6
    FROM json_each(NEW.settled) j
    WHERE number = j.value->>0 AND fence = j.value->>1 AND state = 0;
END;

-- A slice of a sweep: counts, and how far uses are folded with them.
CREATE TEMP VIEW IF NOT EXISTS delivery_slice (counts, number, until, through) AS SELECT NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER IF NOT EXISTS delivery_count_slice INSTEAD OF INSERT ON delivery_slice BEGIN
    -- Without a WHERE, the parser would take ON CONFLICT for a join's ON.
    INSERT INTO delivery_count (key, used, last_use)
    SELECT value->>0, value->>1, value->>2 FROM json_each(NEW.counts) WHERE true
    ON CONFLICT (key) DO UPDATE SET used = used + excluded.used, last_use = excluded.last_use
    WHERE excluded.last_use > last_use;

    UPDATE delivery_fold SET number = NEW.number, until = NEW.until, through = NEW.through;
END;
