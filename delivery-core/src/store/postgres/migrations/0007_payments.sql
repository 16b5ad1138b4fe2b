-- What was paid, as far as platforms say it: the payments of each deal, which are computed from its facts whenever the deal is written.
CREATE TABLE delivery_payment (
    deal     bigint NOT NULL,
    name     text COLLATE "C" NOT NULL, -- the platform's name of the charge
    at       bigint NOT NULL,
    units    bigint NOT NULL, -- of the currency's smallest unit
    currency text COLLATE "C" NOT NULL,
    PRIMARY KEY (deal, name)
);
CREATE INDEX delivery_payment_by_time ON delivery_payment (at, currency, units);
