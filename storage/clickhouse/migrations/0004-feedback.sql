-- What people think of the answers of a trace. Rows never change: a later revision of a feedback_id takes its place.
CREATE TABLE IF NOT EXISTS feedback{{on_cluster}}
(
    id UUID,
    created_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    feedback_id UUID,
    revision UInt32,
    organisation_id LowCardinality(String),
    workspace_id LowCardinality(String),
    api_key_id LowCardinality(String),
    user_id LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
    value Int8,
    weight Float64,
    metadata String CODEC(ZSTD(1)),
    INDEX feedback_id_filter feedback_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX trace_id_filter trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = {{engine MergeTree}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (organisation_id, workspace_id, created_at, id)
SETTINGS {{deduplication_window 10000}};
