import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadConfig } from '../../core/config/load-config.ts';
import { formatProblem } from '../../core/config/problem.ts';
import { validateOptions } from '../../core/config/check-value.ts';
import mcp from './index.ts';
import { OptionsSchema } from './options.ts';

/** The faults of a server as a file names it, defaults filled in as they are at a start. */
async function faultsOf(server: string): Promise<readonly string[]> {
  const text = `version: 1
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, { mcp: { servers: { tools: ${server} } } }]
`;
  const loaded = await loadConfig('g.yaml', { env: {}, readFile: () => Promise.resolve(Buffer.from(text)) });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const entry = loaded.config.pipelines[0]?.plugins[1];
  assert.ok(entry);
  const place = { pointer: entry.optionsPointer, source: loaded.source };
  const { value, problems } = validateOptions(OptionsSchema, entry.options, place);
  if (problems.length > 0) return problems.map(formatProblem);
  return ((await mcp.check?.(value as never)) ?? []).map(({ path, message }) => `${path} ${message}`);
}

test('servers of a file: each has a url or a command, and only what belongs to it', async () => {
  assert.deepEqual(await faultsOf('{ url: "https://tools.example.com/mcp" }'), []);
  assert.deepEqual(await faultsOf('{ url: "https://tools.example.com/sse", transport: sse }'), []);
  assert.deepEqual(await faultsOf('{ command: tools }'), []);
  assert.deepEqual(await faultsOf('{ command: tools, args: [a], max_processes: 2 }'), []);
  assert.deepEqual(await faultsOf('{}'), ['/servers/tools needs one of url, command and openapi']);
  assert.deepEqual(await faultsOf('{ url: "https://a.example.com", args: [a] }'), [
    '/servers/tools/args is for servers with a command; leave it out',
  ]);
  assert.deepEqual(await faultsOf('{ command: tools, transport: http }'), [
    '/servers/tools/transport is for servers with a url; leave it out',
  ]);
  assert.deepEqual(await faultsOf('{ command: tools, shared: true }'), []);
  assert.deepEqual(await faultsOf('{ url: "https://a.example.com", shared: true }'), [
    '/servers/tools/shared is for servers with a command; leave it out',
  ]);
  const api = 'document: api.yaml, base_url: "https://api.example.com"';
  assert.deepEqual(await faultsOf(`{ openapi: { ${api}, credential: { provider: tickets } } }`), []);
  assert.deepEqual(await faultsOf(`{ openapi: { ${api}, credential: {} } }`), [
    '/servers/tools/openapi/credential needs one of provider and mcp_integration',
  ]);
  assert.deepEqual(await faultsOf('{ openapi: { document: api.yaml, credential: { provider: tickets } } }'), [
    '/servers/tools/openapi needs base_url beside credential: a stored secret is sent to its own origin alone',
  ]);
});
