-- When the row came into the store: what follows live asks for what is new. Rows that are there already get the time
-- of their acceptance.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS stored_at DateTime64(3, 'UTC') DEFAULT created_at CODEC(Delta(8), ZSTD(1));
ALTER TABLE requests{{on_cluster}} MATERIALIZE COLUMN stored_at SETTINGS mutations_sync = 1;
ALTER TABLE requests{{on_cluster}} MODIFY COLUMN stored_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta(8), ZSTD(1));
ALTER TABLE requests{{on_cluster}} ADD INDEX IF NOT EXISTS stored_at_range stored_at TYPE minmax GRANULARITY 1;
-- Which versions of what is administered served the request, and what was decided about it.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS config_version LowCardinality(String) AFTER config;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS prompt_version LowCardinality(String) AFTER prompt;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS guardrails String CODEC(ZSTD(1)) AFTER decision;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS limits Array(LowCardinality(String)) AFTER guardrails;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS sdk LowCardinality(String) AFTER user_agent;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS source LowCardinality(String) AFTER sdk;
-- Whoever uses the application, else the user whose key it is.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS end_user String MATERIALIZED if(metadata['_user'] = '', user_id, metadata['_user']) CODEC(ZSTD(1));
-- Milliseconds per token behind the first one; 0 where it is not known.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS ms_per_token Float64 MATERIALIZED if(first_token_ms > 0 AND completion_tokens > 1 AND upstream_ms > first_token_ms, (upstream_ms - first_token_ms) / (completion_tokens - 1), 0) CODEC(ZSTD(1));
