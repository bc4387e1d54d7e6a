-- Attempts at administration that were refused. They are kept apart from the audit chain, which is for ever, so that
-- old ones can be removed. `number` is that of the chain's last record when the attempt was stored: both are read in one order.
CREATE TABLE refused_attempts (
  organisation_id text NOT NULL,
  number bigint NOT NULL CHECK (number >= 0),
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
  seq bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (organisation_id, number, seq)
);
CREATE INDEX refused_attempts_by_time ON refused_attempts (organisation_id, at);
