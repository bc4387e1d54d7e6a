-- What `weir reprice` has put into rows that were without a price: one row for each of them, in batches.
CREATE TABLE IF NOT EXISTS price_changes{{on_cluster}}
(
    batch String CODEC(ZSTD(1)),
    created_at DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)),
    id UUID,
    organisation_id LowCardinality(String),
    workspace_id LowCardinality(String),
    api_key_id LowCardinality(String),
    end_user String CODEC(ZSTD(1)),
    ai_service LowCardinality(String),
    provider LowCardinality(String),
    model LowCardinality(String),
    config LowCardinality(String),
    prompt LowCardinality(String),
    status UInt16,
    is_success Bool,
    retries Int16,
    cost Decimal(18, 12) CODEC(ZSTD(1)),
    price_version LowCardinality(String),
    changed_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(Delta(8), ZSTD(1))
)
ENGINE = {{engine MergeTree}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (batch, created_at, id)
SETTINGS {{deduplication_window 10000}};

-- Which batch has which number, and that it is complete. A batch without a number has changed nothing. Small, and kept
-- for ever: numbers never come again.
CREATE TABLE IF NOT EXISTS price_batches{{on_cluster}}
(
    number UInt64,
    batch String,
    state LowCardinality(String),
    noted_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = {{engine MergeTree}}
ORDER BY number
SETTINGS {{deduplication_window 10000}};
