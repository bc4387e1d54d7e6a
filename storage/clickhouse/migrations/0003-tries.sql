-- Which target of a config served a request, what was tried for it, and why.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS option LowCardinality(String) AFTER attempts;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS retries Int16 AFTER option;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS lost_cost Decimal(18, 12) CODEC(ZSTD(1)) AFTER cost;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS tries String CODEC(ZSTD(1)) AFTER retries;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS decision String CODEC(ZSTD(3)) AFTER tries;
