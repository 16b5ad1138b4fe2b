-- Revoked keys are few, and sought.
CREATE INDEX delivery_key_revoked ON delivery_key (id) WHERE revoked_at IS NOT NULL;
