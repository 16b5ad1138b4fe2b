-- Finds the events of one platform: the newest one, and a page of them.
CREATE INDEX delivery_inbox_by_source ON delivery_inbox (source, number);
