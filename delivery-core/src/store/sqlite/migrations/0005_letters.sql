-- The way by which a parked letter could not go: when that changes, it is tried again.
ALTER TABLE delivery_letter ADD COLUMN route TEXT; -- hexadecimal
