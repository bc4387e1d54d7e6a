// One process of a program serves the sessions of two tenants, through a whole gateway.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { testTransport } from '../../adapters/transport/transport.test-support.ts';
import { realClock, recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import auth from '../../plugins/auth/index.ts';
import mcp from '../../plugins/mcp/index.ts';
import { startTestGateway } from '../kit/gateway-kit.ts';
import { eventually } from '../kit/process-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { defaultRuntime, launcher } from '../kit/runtimes.ts';

const program = fileURLToPath(new URL('../kit/stdio-mcp.ts', import.meta.url));

test('two tenants share one process: each gets its own answers and progress alone, and both outlive its end', async (t) => {
  const transport = testTransport();
  t.after(() => transport.close());
  const { program: command, args } = launcher(defaultRuntime);
  const scenes = { command, args: [...args, program], shared: true };
  const tenants = ['ann', 'bob'];
  const keys = tenants.map((id) => [
    id,
    testKey({ id, organisationId: `org-${id}`, workspaceId: `ws-${id}`, scopes: ['mcp.invoke'] }),
  ]);
  const gateway = await startTestGateway(t, {
    plugins: [auth, { plugin: mcp, options: { servers: { scenes } } }],
    mcp: createMcpClients({ log: recordingLog([]), clock: realClock, transport, trustedHosts: [] }),
    keys: Object.fromEntries(keys) as Record<string, ReturnType<typeof testKey>>,
  });
  const connect = async (tenant: string) => {
    const client = new Client({ name: tenant, version: '1' });
    const heard: unknown[] = [];
    client.fallbackNotificationHandler = (one) => Promise.resolve(void heard.push(one));
    const requestInit = { headers: { authorization: `Bearer ${tenant}` } };
    const way = new StreamableHTTPClientTransport(new URL(`${gateway.url}/scenes/mcp`), { requestInit });
    await client.connect(way);
    t.after(() => client.close());
    const call = async (name: string, given: Record<string, unknown> = {}) => {
      const result = await client.callTool({ name, arguments: given });
      return (result.content as { text: string }[])[0]?.text ?? '';
    };
    return { tenant, client, call, heard };
  };
  const sessions = await Promise.all(tenants.map(connect));
  const [ann, bob] = sessions;
  assert.ok(ann !== undefined && bob !== undefined);
  const pid = await ann.call('pid');
  assert.equal(await bob.call('pid'), pid);

  // Clients of one library count their ids alike.
  await Promise.all(
    sessions.flatMap(({ tenant, client, call }) =>
      Array.from({ length: 20 }, async (_, index) => {
        const text = `of ${tenant} ${index}`;
        assert.equal(await call('echo', { text }), text);
        const progress: number[] = [];
        await client.callTool({ name: 'count', arguments: { to: index } }, undefined, {
          onprogress: (report) => progress.push(report.progress),
        });
        assert.deepEqual(
          progress,
          Array.from({ length: index }, (_none, step) => step + 1),
        );
      }),
    ),
  );
  await ann.call('say', { text: 'of ann alone' });
  assert.ok(!JSON.stringify(bob.heard).includes('of ann alone'));

  const waits = ann.call('wait', { name: 'a' });
  const failed = assert.rejects(waits, /ended by SIGKILL and is started again/);
  await eventually(async () => (await bob.call('events')).includes('a:waits') || undefined);
  process.kill(Number(pid), 'SIGKILL');
  await failed;
  const next = await bob.call('pid');
  assert.notEqual(next, pid);
  assert.equal(await ann.call('pid'), next);
});
