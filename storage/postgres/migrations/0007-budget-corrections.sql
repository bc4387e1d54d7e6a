-- Since when requests are counted in the period of a budget (milliseconds since 1970; null for not known), and how often
-- the count was corrected by what rows of requests say.
ALTER TABLE budget_usage ADD COLUMN since bigint;
ALTER TABLE budget_usage ADD COLUMN corrections integer NOT NULL DEFAULT 0;
