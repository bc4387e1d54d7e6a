-- Which granules can hold a text, without regard to case. The expressions are those of the search, else it is not used.
ALTER TABLE bodies{{on_cluster}} ADD INDEX IF NOT EXISTS text_filter (lowerUTF8(request), lowerUTF8(response)) TYPE ngrambf_v1(4, 65536, 2, 0) GRANULARITY 1;
ALTER TABLE bodies{{on_cluster}} MATERIALIZE INDEX text_filter;
-- The requests of a trace, and of one of many users.
ALTER TABLE requests{{on_cluster}} ADD INDEX IF NOT EXISTS trace_id_filter trace_id TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE requests{{on_cluster}} MATERIALIZE INDEX trace_id_filter;
ALTER TABLE requests{{on_cluster}} ADD INDEX IF NOT EXISTS end_user_filter end_user TYPE bloom_filter(0.01) GRANULARITY 1;
ALTER TABLE requests{{on_cluster}} MATERIALIZE INDEX end_user_filter;
