-- The MCP server that a request was for, and the tool that it called there.
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS mcp_server LowCardinality(String) AFTER model;
ALTER TABLE requests{{on_cluster}} ADD COLUMN IF NOT EXISTS mcp_tool LowCardinality(String) AFTER mcp_server;
