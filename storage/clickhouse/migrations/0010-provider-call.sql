-- What was last sent to a provider, and its answer where that was translated, masked, as a JSON object; empty where it is not kept.
ALTER TABLE bodies{{on_cluster}} ADD COLUMN IF NOT EXISTS provider_call String CODEC(ZSTD(1)) AFTER request_headers;
