-- Of a store that is being moved into another database, or was: which move, and when it was finished (milliseconds).
CREATE TABLE delivery_move (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          BLOB NOT NULL,
    finished_at INTEGER
) STRICT;
