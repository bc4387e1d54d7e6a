import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startMcpServer, type McpServer } from '../kit/mcp-server.ts';
import { launcher, type Runtime } from '../kit/runtimes.ts';

const program = fileURLToPath(new URL('mcp-handshake.ts', import.meta.url));
const execute = promisify(execFile);

/** A handshake with an MCP server. The program ends by itself: nothing is left open. */
export function describeMcp(runtime: Runtime): void {
  describe('an MCP server', () => {
    let server: McpServer;
    before(async () => {
      server = await startMcpServer({ session: 's', streams: true });
    });
    after(() => server.close());

    async function heard(url: string, transport: string): Promise<unknown> {
      const { program: runner, args } = launcher(runtime);
      const { stdout } = await execute(runner, [...args, program, url, transport], { timeout: 60_000 });
      return JSON.parse(stdout);
    }

    for (const transport of ['http', 'sse'] as const) {
      test(`over ${transport}`, async () => {
        assert.deepEqual(await heard(transport === 'http' ? server.url : server.sseUrl, transport), {
          serverName: 'scripted',
          serverVersion: '1.2.3',
          protocolVersion: '2025-06-18',
          capabilityFlags: { tools: {} },
          offers: [
            {
              type: 'tool',
              name: 'echo',
              described: { inputSchema: { type: 'object' } },
              digest: 'sha256:71274ee79a5da54aedce503529a137b4cb511898165a872eadbb46b05aa912a8',
            },
          ],
        });
        assert.ok(server.requests.every(({ headers }) => headers['x-token'] === 'a'));
        if (transport === 'http') assert.equal(server.requests.at(-1)?.method, 'DELETE');
      });
    }

    test('that speaks another transport', async () => {
      assert.match(
        String(await heard(server.url, 'sse')),
        /The handshake with "127[^"]+" failed: .*status 405/,
      );
    });
  });
}
