import { definePlugin } from '../../core/pipeline/plugin.ts';
import { OptionsSchema } from './options.ts';

/** Serves MCP servers: `/{slug}/mcp` each, `/mcp` all that the caller may use. */
export default definePlugin({
  name: 'mcp',
  description:
    'Serves the MCP servers of the administration API and of its options under `/{slug}/mcp` (Streamable HTTP) and `/{slug}/sse` (the older transport), and all that a key may use together under `/mcp`. Put it behind `auth`, `policies` and `guardrails`.',
  schema: OptionsSchema,
  capabilities: { needs: ['key'], timeoutMs: 0 },
  create() {
    return {};
  },
});
