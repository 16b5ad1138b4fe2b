-- Secrets of commerce platforms that the seller set at the desk, encrypted with a key that is derived from the keyring.
CREATE TABLE delivery_platform_secret (
    source TEXT COLLATE "C" PRIMARY KEY,
    sealed BYTEA NOT NULL
);
