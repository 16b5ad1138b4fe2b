-- What the writer's connection has of its own: one statement writes all rows of a batch, and is a transaction by itself.
-- Each further statement would cost a trip between the writer and SQLite's thread, twice through the scheduler.
-- Parameters are JSON arrays of rows; `inbox` is an object of them, has requests and aliases too, and is null in most
-- batches.

CREATE TEMP VIEW IF NOT EXISTS delivery_batch (keys, states, messages, uses, audit_entries, completed, inbox) AS
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL;

CREATE TEMP TRIGGER IF NOT EXISTS delivery_write INSTEAD OF INSERT ON delivery_batch BEGIN
    INSERT INTO delivery_key
        (number, id, secret_version, product, email, source, order_id, issued_at, granted_until, granted_uses, expires_at,
         max_uses, host_ref, noticed)
    SELECT value->>0, unhex(value->>1), value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8,
           value->>9, value->>8, value->>9, value->>10,
           (SELECT h.noticed FROM delivery_key h WHERE h.number = value->>11)
    FROM json_each(NEW.keys);

    INSERT INTO delivery_purchase (order_id, source, product, key)
    SELECT value->>6, value->>5, value->>3, value->>0 FROM json_each(NEW.keys)
    WHERE value->>6 IS NOT NULL AND value->>11 IS NULL;

    -- A key that takes the place of another has its purchase and its count.
    UPDATE delivery_purchase SET key = j.value->>0 FROM json_each(NEW.keys) j
    WHERE j.value->>11 IS NOT NULL AND order_id = j.value->>6 AND source = j.value->>5 AND product = j.value->>3;

    INSERT INTO delivery_count (key, used, last_use)
    SELECT value->>0, value->>12, 0 FROM json_each(NEW.keys) WHERE value->>12 > 0;

    INSERT INTO delivery_message (number, key, kind, recipient, message_id, queued_at, due_at)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>5 FROM json_each(NEW.messages);

    INSERT INTO delivery_use (number, key, at, used, previous)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each(NEW.uses);

    UPDATE delivery_key
    SET expires_at = j.value->>1, max_uses = j.value->>2, revoked_at = j.value->>3, revoked_reason = j.value->>4,
        revoked_by = j.value->>5, exhausted = j.value->>6, email = j.value->>7,
        successor = j.value->>8
    FROM json_each(NEW.states) j WHERE number = j.value->>0;

    INSERT INTO delivery_event (number, key, at, actor, action, detail)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5 FROM json_each(NEW.audit_entries);

    UPDATE delivery_message
    SET leased = 0, state = j.value->>2, due_at = coalesce(j.value->>3, queued_at), reason = j.value->>4,
        attempts = attempts - j.value->>5, token = token + 1, route = j.value->>6
    FROM json_each(NEW.completed) j
    WHERE number = j.value->>0 AND token = j.value->>1 AND state = 0;

    INSERT INTO delivery_inbox
        (number, source, name, kind, order_id, body, received_at, outcome, reason, keys, due_at, attempts, version)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8, value->>9,
           value->>10, value->>11, 1
    FROM json_each(NEW.inbox, '$.events')
    -- An event is inserted once, or written by whoever has its version: nobody else writes.
    WHERE true
    ON CONFLICT (number) DO UPDATE SET body = excluded.body, outcome = excluded.outcome, reason = excluded.reason, keys = excluded.keys,
        due_at = excluded.due_at, attempts = excluded.attempts, version = delivery_inbox.version + 1;

    INSERT INTO delivery_deal (number, version, facts)
    SELECT value->>0, 1, value->>1 FROM json_each(NEW.inbox, '$.deals') WHERE true
    ON CONFLICT (number) DO UPDATE SET facts = excluded.facts, version = delivery_deal.version + 1;

    DELETE FROM delivery_payment WHERE deal IN (SELECT value->>0 FROM json_each(NEW.inbox, '$.deals'))
        AND (deal, name) NOT IN (SELECT value->>0, value->>1 FROM json_each(NEW.inbox, '$.payments'));
    INSERT INTO delivery_payment (deal, name, at, units, currency)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each(NEW.inbox, '$.payments') WHERE true
    ON CONFLICT (deal, name) DO UPDATE SET at = excluded.at, units = excluded.units, currency = excluded.currency
    WHERE (delivery_payment.at, delivery_payment.units, delivery_payment.currency) IS NOT (excluded.at, excluded.units, excluded.currency);

    INSERT INTO delivery_reference (source, kind, name, deal)
    SELECT value->>0, value->>1, value->>2, value->>3 FROM json_each(NEW.inbox, '$.references');

    INSERT INTO delivery_customer (source, reference, email, told_at)
    SELECT value->>0, value->>1, value->>2, value->>3 FROM json_each(NEW.inbox, '$.customers') WHERE true
    ON CONFLICT (source, reference) DO UPDATE SET email = excluded.email, told_at = excluded.told_at
    WHERE delivery_customer.told_at <= excluded.told_at;

    INSERT INTO delivery_event (number, at, actor, action, detail)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each(NEW.inbox, '$.applied');

    INSERT INTO delivery_request (key, request, product, at, repeats, version)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, 1 FROM json_each(NEW.inbox, '$.requests') WHERE true
    ON CONFLICT (key, request) DO UPDATE SET product = excluded.product, at = excluded.at, repeats = excluded.repeats,
        version = delivery_request.version + 1;

    INSERT INTO delivery_alias (mac, key) SELECT unhex(value->>0), value->>1 FROM json_each(NEW.inbox, '$.aliases');
END;
