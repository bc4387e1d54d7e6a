-- Whether what the request used was estimated: its answer was broken off.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS usage_estimated Bool AFTER output_audio_tokens;
