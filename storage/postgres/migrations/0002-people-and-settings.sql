-- Users, members of workspaces, invites, group mappings, settings. PostgreSQL 15.

-- Numbers of the last changes that touched these; 0 when none did.
ALTER TABLE organisation_counters
  ADD COLUMN workspaces_change bigint NOT NULL DEFAULT 0 CHECK (workspaces_change >= 0),
  ADD COLUMN people_change bigint NOT NULL DEFAULT 0 CHECK (people_change >= 0),
  ADD COLUMN settings_change bigint NOT NULL DEFAULT 0 CHECK (settings_change >= 0);
-- Which of the changes until now touched workspaces is not known: the last one may have.
UPDATE organisation_counters SET workspaces_change = changes;

CREATE TABLE users (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  organisation_id text NOT NULL,
  -- Lower-case.
  email text NOT NULL CHECK (char_length(email) BETWEEN 1 AND 255),
  first_name text NOT NULL CHECK (char_length(first_name) <= 255),
  last_name text NOT NULL CHECK (char_length(last_name) <= 255),
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  CONSTRAINT users_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id),
  CONSTRAINT users_email_taken UNIQUE (organisation_id, email),
  CONSTRAINT users_of_organisation UNIQUE (organisation_id, id)
);
CREATE INDEX users_by_age ON users (organisation_id, created_at, id);
CREATE INDEX users_by_role ON users (organisation_id, role, created_at, id);

-- No foreign key to workspaces: a workspace may live in the configuration file.
CREATE TABLE members (
  organisation_id text NOT NULL,
  workspace_id text NOT NULL CHECK (char_length(workspace_id) BETWEEN 1 AND 255),
  user_id text NOT NULL,
  role text NOT NULL CHECK (role IN ('manager', 'member')),
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  CONSTRAINT members_taken PRIMARY KEY (organisation_id, workspace_id, user_id),
  CONSTRAINT members_user FOREIGN KEY (organisation_id, user_id)
    REFERENCES users (organisation_id, id) ON DELETE CASCADE
);
CREATE INDEX members_by_age ON members (organisation_id, workspace_id, created_at, user_id);
CREATE INDEX members_by_role ON members (organisation_id, workspace_id, role, created_at, user_id);
CREATE INDEX members_by_user ON members (organisation_id, user_id, workspace_id);

-- The token of the link is stored nowhere.
CREATE TABLE invites (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  organisation_id text NOT NULL,
  -- Lower-case.
  email text NOT NULL CHECK (char_length(email) BETWEEN 1 AND 255),
  role text NOT NULL CHECK (role IN ('admin', 'member')),
  workspaces jsonb NOT NULL CHECK (jsonb_array_length(workspaces) <= 100),
  key_scopes text[] NOT NULL,
  status text NOT NULL CHECK (status IN ('pending', 'cancelled', 'accepted', 'expired')),
  token_hash text NOT NULL CHECK (char_length(token_hash) BETWEEN 1 AND 255),
  invited_by text NOT NULL,
  expires_at timestamp with time zone NOT NULL,
  accepted_at timestamp with time zone,
  created_at timestamp with time zone NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  CONSTRAINT invites_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id),
  CONSTRAINT invites_token_taken UNIQUE (token_hash)
);
CREATE UNIQUE INDEX invites_pending_email_taken ON invites (organisation_id, email) WHERE status = 'pending';
CREATE INDEX invites_by_age ON invites (organisation_id, created_at, id);
CREATE INDEX invites_by_status ON invites (organisation_id, status, created_at, id);
CREATE INDEX invites_by_role ON invites (organisation_id, role, created_at, id);
CREATE INDEX invites_by_email ON invites (organisation_id, email);
CREATE INDEX invites_by_end ON invites (organisation_id, expires_at) WHERE status = 'pending';

-- A group is known by its id or by its name.
CREATE TABLE group_mappings (
  id text PRIMARY KEY CHECK (char_length(id) BETWEEN 1 AND 255),
  organisation_id text NOT NULL,
  workspace_id text NOT NULL CHECK (char_length(workspace_id) BETWEEN 1 AND 255),
  role text NOT NULL CHECK (role IN ('manager', 'member')),
  group_id text NOT NULL CHECK (char_length(group_id) <= 255),
  group_name text NOT NULL CHECK (char_length(group_name) <= 255),
  created_at timestamp with time zone NOT NULL,
  CONSTRAINT group_mappings_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id),
  CONSTRAINT group_mappings_named_once CHECK ((group_id = '') <> (group_name = '')),
  CONSTRAINT group_mappings_group_taken UNIQUE (organisation_id, workspace_id, group_id, group_name)
);
CREATE INDEX group_mappings_by_age ON group_mappings (organisation_id, created_at, id);
CREATE INDEX group_mappings_by_group ON group_mappings (organisation_id, group_id, created_at, id);
CREATE INDEX group_mappings_by_role ON group_mappings (organisation_id, role, created_at, id);

CREATE TABLE organisation_settings (
  organisation_id text PRIMARY KEY,
  security jsonb NOT NULL,
  overridable text[] NOT NULL,
  defaults jsonb NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  CONSTRAINT organisation_settings_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id)
);

CREATE TABLE workspace_settings (
  organisation_id text NOT NULL,
  workspace_id text NOT NULL CHECK (char_length(workspace_id) BETWEEN 1 AND 255),
  overrides jsonb NOT NULL,
  updated_at timestamp with time zone NOT NULL,
  version integer NOT NULL CHECK (version >= 1),
  PRIMARY KEY (organisation_id, workspace_id),
  CONSTRAINT workspace_settings_organisation FOREIGN KEY (organisation_id) REFERENCES organisations (id)
);

-- What ends, for the job that marks it.
CREATE INDEX api_keys_by_end ON api_keys (organisation_id, expires_at)
  WHERE expires_at IS NOT NULL AND status <> 'expired';
CREATE INDEX api_key_secrets_by_end ON api_key_secrets (organisation_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX api_keys_by_user ON api_keys (organisation_id, user_id, created_at, id) WHERE user_id <> '';
