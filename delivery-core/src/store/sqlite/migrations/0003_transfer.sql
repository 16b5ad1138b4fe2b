-- A store is moved by a dump, which leaves nothing behind.
DROP TABLE delivery_transfer;
