-- What was paid, as far as platforms say it: the payments of each deal, which are computed from its facts whenever the deal is written.
CREATE TABLE delivery_payment (
    deal     INTEGER NOT NULL,
    name     TEXT NOT NULL, -- the platform's name of the charge
    at       INTEGER NOT NULL,
    units    INTEGER NOT NULL, -- of the currency's smallest unit
    currency TEXT NOT NULL,
    PRIMARY KEY (deal, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_payment_by_time ON delivery_payment (at, currency, units);
