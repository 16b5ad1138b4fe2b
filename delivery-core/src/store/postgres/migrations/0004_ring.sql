-- Of the secrets, the one with the largest number signed most recently.
ALTER TABLE delivery_ring ADD COLUMN signs BIGINT NOT NULL DEFAULT 0;
