-- Of a schema that keys are being moved into, or were: which move, and when it was finished (milliseconds).
CREATE TABLE delivery_move (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          BYTEA NOT NULL,
    finished_at BIGINT
);
