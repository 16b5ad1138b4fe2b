-- Keys that are revoked or used up are few, and sought.
CREATE INDEX delivery_key_revoked ON delivery_key (id) WHERE revoked_at IS NOT NULL;
CREATE INDEX delivery_key_exhausted ON delivery_key (id) WHERE max_uses >= 0 AND used >= max_uses;
