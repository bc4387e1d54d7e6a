-- Organisations, workspaces, service keys, and the record of who changed them. PostgreSQL 15.

CREATE TABLE organisations (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  name text NOT NULL CHECK (char_length(name) <= 255),
  created_at timestamp with time zone NOT NULL
);

-- One row per organisation, locked by every transaction that writes in it: it numbers the changes and the audit chain.
-- It may be there before its organisation is.
CREATE TABLE organisation_counters (
  organisation_id text PRIMARY KEY,
  changes bigint NOT NULL DEFAULT 0 CHECK (changes >= 0),
  audits bigint NOT NULL DEFAULT 0 CHECK (audits >= 0),
  audit_hash text NOT NULL
);

CREATE TABLE workspaces (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  organisation_id text NOT NULL,
  slug text NOT NULL CHECK (char_length(slug) BETWEEN 1 AND 255),
  name text NOT NULL CHECK (char_length(name) <= 255),
  description text NOT NULL,
  icon text NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'archived')),
  is_default boolean NOT NULL,
  defaults jsonb NOT NULL,
  usage_limits jsonb NOT NULL,
  rate_limits jsonb NOT NULL,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  CONSTRAINT workspaces_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id),
  CONSTRAINT workspaces_slug_taken UNIQUE (organisation_id, slug),
  CONSTRAINT workspaces_name_taken UNIQUE (organisation_id, name)
);
CREATE INDEX workspaces_by_age ON workspaces (organisation_id, created_at, id);

-- No foreign key to workspaces: a workspace may live in the configuration file. A secret is stored nowhere.
CREATE TABLE api_keys (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  organisation_id text NOT NULL,
  workspace_id text,
  user_id text NOT NULL,
  name text NOT NULL CHECK (char_length(name) <= 255),
  description text NOT NULL,
  type text NOT NULL CHECK (type IN ('organisation-service', 'workspace-service', 'workspace-user')),
  status text NOT NULL CHECK (status IN ('active', 'exhausted', 'expired')),
  scopes text[] NOT NULL,
  rate_limits jsonb NOT NULL,
  usage_limits jsonb,
  defaults jsonb NOT NULL,
  alert_emails text[] NOT NULL,
  masked text NOT NULL CHECK (char_length(masked) <= 255),
  creation_mode text NOT NULL CHECK (creation_mode IN ('ui', 'api', 'auto')),
  expires_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  -- Number of the organisation's change that stored the row.
  change bigint NOT NULL,
  CONSTRAINT api_keys_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id),
  CONSTRAINT api_keys_workspace_of_type CHECK ((type = 'organisation-service') = (workspace_id IS NULL)),
  CONSTRAINT api_keys_name_taken UNIQUE NULLS NOT DISTINCT (organisation_id, workspace_id, type, name),
  CONSTRAINT api_keys_of_organisation UNIQUE (organisation_id, id)
);
CREATE INDEX api_keys_by_age ON api_keys (organisation_id, created_at, id);
CREATE INDEX api_keys_by_workspace ON api_keys (organisation_id, workspace_id, created_at, id);
CREATE INDEX api_keys_by_change ON api_keys (organisation_id, change);

-- Position 0 is the present secret, 1 the one before it, for a while after a rotation.
CREATE TABLE api_key_secrets (
  organisation_id text NOT NULL,
  api_key_id text NOT NULL,
  position smallint NOT NULL CHECK (position IN (0, 1)),
  hash text NOT NULL CHECK (char_length(hash) BETWEEN 1 AND 255),
  expires_at timestamp with time zone,
  PRIMARY KEY (organisation_id, api_key_id, position),
  CONSTRAINT api_key_secrets_key FOREIGN KEY (organisation_id, api_key_id)
    REFERENCES api_keys (organisation_id, id) ON DELETE CASCADE,
  CONSTRAINT api_key_secrets_hash_taken UNIQUE (hash)
);

-- Keys that are gone, for instances that have not looked yet.
CREATE TABLE api_key_removals (
  organisation_id text NOT NULL,
  api_key_id text NOT NULL,
  change bigint NOT NULL,
  removed_at timestamp with time zone NOT NULL,
  PRIMARY KEY (organisation_id, api_key_id)
);
CREATE INDEX api_key_removals_by_change ON api_key_removals (organisation_id, change);
CREATE INDEX api_key_removals_by_age ON api_key_removals (organisation_id, removed_at);

CREATE TABLE audit_logs (
  organisation_id text NOT NULL,
  number bigint NOT NULL CHECK (number >= 1),
  id text NOT NULL,
  workspace_id text NOT NULL,
  at timestamp with time zone NOT NULL,
  actor_type text NOT NULL CHECK (actor_type IN ('api_key', 'user', 'system')),
  actor_id text NOT NULL,
  actor_name text NOT NULL,
  action text NOT NULL,
  resource_type text NOT NULL,
  resource_id text NOT NULL,
  method text NOT NULL,
  uri text NOT NULL,
  request_id text NOT NULL,
  status integer NOT NULL,
  client_ip text NOT NULL,
  details text NOT NULL CHECK (octet_length(details) <= 16384),
  hash text NOT NULL CHECK (char_length(hash) = 64),
  PRIMARY KEY (organisation_id, number)
);
-- Each ends in the number, so that the newest of a filter are read without sorting.
CREATE INDEX audit_logs_by_time ON audit_logs (organisation_id, at);
CREATE INDEX audit_logs_by_workspace ON audit_logs (organisation_id, workspace_id, number);
CREATE INDEX audit_logs_by_actor ON audit_logs (organisation_id, actor_id, number);
CREATE INDEX audit_logs_by_action ON audit_logs (organisation_id, action, number);
CREATE INDEX audit_logs_by_resource_type ON audit_logs (organisation_id, resource_type, number);
CREATE INDEX audit_logs_by_method ON audit_logs (organisation_id, method, number);
CREATE INDEX audit_logs_by_status ON audit_logs (organisation_id, status, number);
CREATE INDEX audit_logs_by_client_ip ON audit_logs (organisation_id, client_ip, number);
CREATE INDEX audit_logs_by_request ON audit_logs (organisation_id, request_id);
-- A path may be longer than an index entry.
CREATE INDEX audit_logs_by_uri ON audit_logs (organisation_id, md5(uri), number);

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'audit_logs is append-only: % is refused', TG_OP
    USING ERRCODE = 'insufficient_privilege', HINT = 'Entries of the audit log are never changed nor removed.';
END
$$;
CREATE TRIGGER audit_logs_append_only BEFORE UPDATE OR DELETE ON audit_logs
  FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_logs_never_emptied BEFORE TRUNCATE ON audit_logs
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
