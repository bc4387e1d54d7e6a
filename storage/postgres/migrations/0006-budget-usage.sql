-- What is used of budgets, by all gateways together. `used` counts from `epoch` on (milliseconds since 1970), in whole
-- units: requests, tokens, or billionths of a US dollar. The marks say which alerts have been claimed.
CREATE TABLE budget_usage (
  key text PRIMARY KEY,
  organisation_id text NOT NULL,
  epoch bigint NOT NULL CHECK (epoch >= 0),
  used bigint NOT NULL CHECK (used >= 0),
  threshold_mark text NOT NULL DEFAULT '',
  exhausted_mark text NOT NULL DEFAULT '',
  updated_at timestamp with time zone NOT NULL
);
CREATE INDEX budget_usage_by_time ON budget_usage (updated_at);
