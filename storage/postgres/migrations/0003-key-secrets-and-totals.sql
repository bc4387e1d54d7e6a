-- What makes starting with many keys and lists of many rows fast. PostgreSQL 15.

-- The hashes of a key's secrets beside it: all keys are read at every start, and a second table costs as much again.
ALTER TABLE api_keys
  ADD COLUMN secret_hash text CHECK (char_length(secret_hash) BETWEEN 1 AND 255),
  ADD COLUMN secret_ends_at timestamp with time zone,
  -- The secret before, for a while after a rotation.
  ADD COLUMN replaced_hash text CHECK (char_length(replaced_hash) BETWEEN 1 AND 255),
  ADD COLUMN replaced_ends_at timestamp with time zone,
  ADD CONSTRAINT api_keys_replaced_after_present CHECK (replaced_hash IS NULL OR secret_hash IS NOT NULL);
UPDATE api_keys SET secret_hash = hash, secret_ends_at = api_key_secrets.expires_at
  FROM api_key_secrets
  WHERE api_key_secrets.organisation_id = api_keys.organisation_id AND api_key_id = api_keys.id AND position = 0;
UPDATE api_keys SET replaced_hash = hash, replaced_ends_at = api_key_secrets.expires_at
  FROM api_key_secrets
  WHERE api_key_secrets.organisation_id = api_keys.organisation_id AND api_key_id = api_keys.id AND position = 1;
DROP TABLE api_key_secrets;
CREATE UNIQUE INDEX api_keys_secret_taken ON api_keys (secret_hash) WHERE secret_hash IS NOT NULL;
CREATE UNIQUE INDEX api_keys_replaced_secret_taken ON api_keys (replaced_hash) WHERE replaced_hash IS NOT NULL;
CREATE INDEX api_keys_by_end_of_secret ON api_keys (organisation_id, replaced_ends_at)
  WHERE replaced_ends_at IS NOT NULL;

-- How many rows a list has: counting 100,000 takes longer than reading a page of them. `part` is the workspace where
-- there is one, `kind` what most lists are filtered by.
CREATE TABLE list_totals (
  organisation_id text NOT NULL,
  list text NOT NULL,
  part text NOT NULL,
  kind text NOT NULL,
  total bigint NOT NULL,
  PRIMARY KEY (organisation_id, list, part, kind)
);

-- Arguments: the expressions of `part` and `kind`. In the transaction of the change, whoever makes it.
CREATE FUNCTION keep_list_totals() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  moved text := CASE TG_OP
    WHEN 'INSERT' THEN 'SELECT 1 AS n, * FROM added'
    WHEN 'DELETE' THEN 'SELECT -1 AS n, * FROM gone'
    ELSE 'SELECT 1 AS n, * FROM added UNION ALL SELECT -1 AS n, * FROM gone'
  END;
BEGIN
  EXECUTE format(
    'INSERT INTO list_totals AS kept (organisation_id, list, part, kind, total)
       SELECT organisation_id, %L, %s, %s, sum(n) FROM (%s) AS moved GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0
       ON CONFLICT (organisation_id, list, part, kind) DO UPDATE SET total = kept.total + excluded.total',
    TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[1], moved);
  RETURN NULL;
END
$$;

DO $$
DECLARE
  counted record;
  arguments text;
BEGIN
  FOR counted IN SELECT * FROM (VALUES
    ('api_keys', 'coalesce(workspace_id, '''')', 'type'),
    ('workspaces', '''''', 'status'),
    ('users', '''''', 'role'),
    ('members', 'workspace_id', 'role'),
    ('invites', '''''', 'status'),
    ('group_mappings', 'workspace_id', 'role')
  ) AS lists (name, part, kind) LOOP
    EXECUTE format(
      'INSERT INTO list_totals SELECT organisation_id, %L, %s, %s, count(*) FROM %I GROUP BY 1, 2, 3, 4',
      counted.name, counted.part, counted.kind, counted.name);
    arguments := format('keep_list_totals(%L, %L)', counted.part, counted.kind);
    EXECUTE format('CREATE TRIGGER %I AFTER INSERT ON %I REFERENCING NEW TABLE AS added
      FOR EACH STATEMENT EXECUTE FUNCTION %s', counted.name || '_counted_in', counted.name, arguments);
    EXECUTE format('CREATE TRIGGER %I AFTER UPDATE ON %I REFERENCING NEW TABLE AS added OLD TABLE AS gone
      FOR EACH STATEMENT EXECUTE FUNCTION %s', counted.name || '_counted_anew', counted.name, arguments);
    EXECUTE format('CREATE TRIGGER %I AFTER DELETE ON %I REFERENCING OLD TABLE AS gone
      FOR EACH STATEMENT EXECUTE FUNCTION %s', counted.name || '_counted_out', counted.name, arguments);
  END LOOP;
END
$$;
