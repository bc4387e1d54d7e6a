-- When the secret of a key is replaced by itself, and of what people were told: the moments, by kind.
ALTER TABLE api_keys
  ADD COLUMN rotation jsonb,
  ADD COLUMN next_rotation_at timestamp with time zone,
  ADD COLUMN told jsonb NOT NULL DEFAULT '{}',
  ADD CONSTRAINT api_keys_rotation_has_time CHECK ((rotation IS NULL) = (next_rotation_at IS NULL));
CREATE INDEX api_keys_by_rotation ON api_keys (organisation_id, next_rotation_at)
  WHERE next_rotation_at IS NOT NULL AND status <> 'expired';
CREATE INDEX api_keys_by_end_of_present_secret ON api_keys (organisation_id, secret_ends_at)
  WHERE secret_ends_at IS NOT NULL AND status <> 'expired';
