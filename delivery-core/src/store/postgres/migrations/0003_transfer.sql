-- A store is loaded from a dump, in one transaction. A schema whose transfer has not ended is not whole: the migration fails on it.
CREATE TABLE delivery_check (
    begun BIGINT CONSTRAINT a_store_was_moved_into_this_schema_only_in_part CHECK (begun = 0)
);
INSERT INTO delivery_check (begun) SELECT 1 FROM delivery_transfer WHERE finished_at IS NULL;
DROP TABLE delivery_check;
DROP TABLE delivery_transfer;
