-- What the request asked for and the wire of its target cannot say.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS dropped Array(LowCardinality(String)) AFTER finish_reason;
