-- What platforms call products that are not sold here: sales of them need nobody. The body of an event that is dismissed is kept, as that
-- of an event that is not done yet.
CREATE TABLE delivery_dismissed (
    source TEXT COLLATE "C" NOT NULL,
    name   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (source, name)
);
