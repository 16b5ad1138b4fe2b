-- A store is moved by a dump, which leaves nothing behind. A file that was moved before sells no more: the migration fails on it.
CREATE TABLE delivery_check (
    moved INTEGER CONSTRAINT the_store_was_moved_to_another_database CHECK (moved = 0)
) STRICT;
INSERT INTO delivery_check (moved) SELECT 1 FROM delivery_transfer WHERE finished_at IS NOT NULL;
DROP TABLE delivery_check;
DROP TABLE delivery_transfer;
