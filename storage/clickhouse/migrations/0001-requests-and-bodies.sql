-- One row per client request. Partitioned by acceptance time, never by a time that a caller can choose.
-- The deduplication window counts blocks: one per insert and partition it touches.
CREATE TABLE IF NOT EXISTS requests{{on_cluster}}
(
    id UUID,
    created_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    organisation_id LowCardinality(String),
    workspace_id LowCardinality(String),
    api_key_id LowCardinality(String),
    user_id LowCardinality(String),
    method LowCardinality(String),
    path String CODEC(ZSTD(1)),
    endpoint LowCardinality(String),
    stream Bool,
    status UInt16,
    outcome LowCardinality(String),
    is_success Bool,
    error_code LowCardinality(String),
    error_source LowCardinality(String),
    error_message String CODEC(ZSTD(1)),
    plugin LowCardinality(String),
    ai_service LowCardinality(String),
    provider LowCardinality(String),
    model_requested LowCardinality(String),
    model LowCardinality(String),
    upstream_host LowCardinality(String),
    config LowCardinality(String),
    prompt LowCardinality(String),
    virtual_key LowCardinality(String),
    cache_status LowCardinality(String),
    generation LowCardinality(String),
    latency_ms Float64 CODEC(ZSTD(1)),
    upstream_ms Float64 CODEC(ZSTD(1)),
    gateway_ms Float64 CODEC(ZSTD(1)),
    first_byte_ms Float64 CODEC(ZSTD(1)),
    first_token_ms Float64 CODEC(ZSTD(1)),
    request_bytes UInt64 CODEC(T64, ZSTD(1)),
    response_bytes UInt64 CODEC(T64, ZSTD(1)),
    prompt_tokens UInt64 CODEC(T64, ZSTD(1)),
    completion_tokens UInt64 CODEC(T64, ZSTD(1)),
    total_tokens UInt64 CODEC(T64, ZSTD(1)),
    cached_tokens UInt64 CODEC(T64, ZSTD(1)),
    cache_write_tokens UInt64 CODEC(T64, ZSTD(1)),
    reasoning_tokens UInt64 CODEC(T64, ZSTD(1)),
    input_audio_tokens UInt64 CODEC(T64, ZSTD(1)),
    output_audio_tokens UInt64 CODEC(T64, ZSTD(1)),
    cost Decimal(18, 12) CODEC(ZSTD(1)),
    pricing LowCardinality(String),
    price_version LowCardinality(String),
    attempts UInt16,
    resent Bool,
    finish_reason LowCardinality(String),
    metadata Map(String, String) CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    parent_span_id String CODEC(ZSTD(1)),
    span_name LowCardinality(String),
    client_address String CODEC(ZSTD(1)),
    user_agent LowCardinality(String),
    INDEX id_filter id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = {{engine MergeTree}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (organisation_id, workspace_id, created_at, id)
SETTINGS {{deduplication_window 10000}};

-- What was sent and answered. Kept for a shorter time, hence a table of its own in partitions of a day; small
-- granules, because it is read one row at a time.
CREATE TABLE IF NOT EXISTS bodies{{on_cluster}}
(
    id UUID,
    created_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    organisation_id LowCardinality(String),
    workspace_id LowCardinality(String),
    request String CODEC(ZSTD(3)),
    response String CODEC(ZSTD(3)),
    request_truncated Bool,
    response_truncated Bool,
    log_format LowCardinality(String),
    INDEX id_filter id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = {{engine MergeTree}}
PARTITION BY toYYYYMMDD(created_at)
ORDER BY (organisation_id, workspace_id, created_at, id)
SETTINGS index_granularity = 512, {{deduplication_window 10000}};
