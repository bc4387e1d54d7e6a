-- The headers of the request, masked, as a JSON object; empty where they are not kept.
ALTER TABLE bodies{{on_cluster}} ADD COLUMN IF NOT EXISTS request_headers String CODEC(ZSTD(1)) AFTER log_format;
