-- What requests can be configured with, with its versions; removals of all that directories follow. PostgreSQL 15.

-- Number of the last change that touched records of any kind; 0 when none did.
ALTER TABLE organisation_counters
  ADD COLUMN records_change bigint NOT NULL DEFAULT 0 CHECK (records_change >= 0);

-- What is gone, for instances that have not looked yet. `list` is the table that it was in.
CREATE TABLE removals (
  organisation_id text NOT NULL,
  list text NOT NULL,
  id text NOT NULL,
  change bigint NOT NULL,
  removed_at timestamp with time zone NOT NULL,
  PRIMARY KEY (organisation_id, list, id)
);
INSERT INTO removals SELECT organisation_id, 'api_keys', api_key_id, change, removed_at FROM api_key_removals;
DROP TABLE api_key_removals;
CREATE INDEX removals_by_change ON removals (organisation_id, list, change);
CREATE INDEX removals_by_age ON removals (organisation_id, removed_at);

-- Records of every kind. No foreign key to workspaces: a workspace may live in the configuration file. `data` is json
-- and not jsonb, which sorts the members of objects: their order in the schema of a tool matters to models. That jsonb
-- could hold it means that it has no NUL and no half of a surrogate pair.
CREATE TABLE records (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  organisation_id text NOT NULL,
  kind text NOT NULL CHECK (char_length(kind) BETWEEN 1 AND 64),
  workspace_id text CHECK (char_length(workspace_id) BETWEEN 1 AND 255),
  slug text NOT NULL CHECK (slug ~ '^[a-zA-Z0-9_-]{1,255}$'),
  name text NOT NULL CHECK (char_length(name) <= 255),
  status text NOT NULL CHECK (status IN ('active', 'archived')),
  -- A record that it belongs to; empty for none.
  parent_id text NOT NULL CHECK (char_length(parent_id) <= 255),
  data json NOT NULL CHECK (jsonb_typeof(data::jsonb) = 'object'),
  -- Length of `data` in bytes, so that pages can be bounded without reading it.
  size integer NOT NULL CHECK (size BETWEEN 2 AND 1048576),
  -- Encrypted texts by field.
  secrets jsonb NOT NULL CHECK (jsonb_typeof(secrets) = 'object'),
  created_by text NOT NULL CHECK (char_length(created_by) <= 255),
  updated_by text NOT NULL CHECK (char_length(updated_by) <= 255),
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  -- Number of the organisation's change that stored the row, a version of it, or a label.
  change bigint NOT NULL,
  CONSTRAINT records_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id),
  -- In the order of a look-up by slug, which asks for a workspace's and the organisation's at once.
  CONSTRAINT records_slug_taken UNIQUE NULLS NOT DISTINCT (organisation_id, kind, slug, workspace_id),
  CONSTRAINT records_of_organisation UNIQUE (organisation_id, id)
);
CREATE INDEX records_by_age ON records (organisation_id, kind, created_at, id);
CREATE INDEX records_by_workspace ON records (organisation_id, kind, workspace_id, created_at, id);
CREATE INDEX records_by_parent ON records (organisation_id, parent_id, created_at, id) WHERE parent_id <> '';
CREATE INDEX records_by_change ON records (organisation_id, change);
CREATE INDEX records_with_secrets ON records (id) WHERE secrets <> '{}';

CREATE TABLE record_versions (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  organisation_id text NOT NULL,
  record_id text NOT NULL,
  number integer NOT NULL CHECK (number >= 1),
  name text NOT NULL CHECK (char_length(name) <= 255),
  data json NOT NULL CHECK (jsonb_typeof(data::jsonb) = 'object'),
  description text NOT NULL,
  -- A record of kind label; empty for none.
  label_id text NOT NULL CHECK (char_length(label_id) <= 255),
  created_by text NOT NULL CHECK (char_length(created_by) <= 255),
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT record_versions_record FOREIGN KEY (organisation_id, record_id)
    REFERENCES records (organisation_id, id) ON DELETE CASCADE,
  CONSTRAINT record_versions_number_taken UNIQUE (organisation_id, record_id, number)
);
CREATE UNIQUE INDEX record_versions_label_taken ON record_versions (organisation_id, record_id, label_id)
  WHERE label_id <> '';

-- How many records there are of a kind and status, in a workspace or (empty) in the organisation itself.
CREATE TRIGGER records_counted_in AFTER INSERT ON records REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION keep_list_totals('coalesce(workspace_id, '''')', 'kind || '' '' || status');
CREATE TRIGGER records_counted_anew AFTER UPDATE ON records REFERENCING NEW TABLE AS added OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION keep_list_totals('coalesce(workspace_id, '''')', 'kind || '' '' || status');
CREATE TRIGGER records_counted_out AFTER DELETE ON records REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION keep_list_totals('coalesce(workspace_id, '''')', 'kind || '' '' || status');
