-- The way by which a parked letter could not go: when that changes, it is tried again.
ALTER TABLE delivery_letter ADD COLUMN route TEXT; -- hexadecimal
-- Leased letters are few: a lease that is too long is found among them.
ALTER TABLE delivery_letter ADD COLUMN leased BIGINT NOT NULL DEFAULT 0;
CREATE INDEX delivery_letter_leased ON delivery_letter (due_at) WHERE leased = 1;
