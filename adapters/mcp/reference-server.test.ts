import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../tests/kit/process-kit.ts';
import { startReferenceMcpServer, type ReferenceMcpServer } from '../../tests/kit/reference-mcp-server.ts';
import { countingClock, failure, testClients } from './mcp.test-support.ts';

for (const transport of ['http', 'sse'] as const) {
  describe(`the protocol's reference server over ${transport}`, () => {
    let server: ReferenceMcpServer;
    before(async () => {
      server = await startReferenceMcpServer(transport);
    });
    after(() => server.stop());

    test('it tells what it offers', async () => {
      const clock = countingClock();
      const clients = testClients(server.host, { clock });
      const said = await clients.describe({ url: server.url, transport, headers: [] });
      assert.equal(said.serverName, 'mcp-servers/everything');
      assert.match(said.serverVersion, /^\d+\.\d+\.\d+$/);
      assert.equal(said.protocolVersion, '2025-11-25');
      assert.deepEqual(said.capabilityFlags['tools'], { listChanged: true });
      const of = (type: string) => said.offers.filter((offer) => offer.type === type);
      const echo = of('tool').find(({ name }) => name === 'echo');
      assert.deepEqual(Object.keys(echo?.described ?? {}).slice(0, 3), [
        'title',
        'description',
        'inputSchema',
      ]);
      assert.ok(of('prompt').some(({ name }) => name === 'simple-prompt'));
      assert.ok(of('resource').every(({ described }) => typeof described['uri'] === 'string'));
      assert.ok(
        of('resource_template').every(({ described }) => typeof described['uriTemplate'] === 'string'),
      );
      assert.ok(of('resource').length > 0 && of('resource_template').length > 0);
      assert.equal(clock.pending.size, 0);
    });

    test('it is greeted, and sees that the conversation has ended', async () => {
      const seen = server.output().length;
      const clients = testClients(server.host);
      const said = await clients.greet({ url: server.url, transport, headers: [] });
      assert.deepEqual(said, { serverName: 'mcp-servers/everything' });
      const farewell = transport === 'http' ? /Transport closed for session/ : /Client Disconnected/;
      await eventually(
        () => farewell.test(server.output().slice(seen)) || undefined,
        () => `its farewell in ${server.output().slice(seen)}`,
      );
    });

    test('at another path there is none', async () => {
      const address = { url: `http://${server.host}/nowhere`, transport, headers: [] };
      const error = await failure(testClients(server.host).greet(address));
      assert.deepEqual([error.code, error.extra], ['mcp_failed', { status: 404 }]);
    });
  });
}

test('the other transport than the one that is spoken', async (t) => {
  const server = await startReferenceMcpServer('http');
  t.after(() => server.stop());
  const address = { url: server.url, transport: 'sse', headers: [] } as const;
  const error = await failure(testClients(server.host).greet(address));
  assert.deepEqual([error.code, error.extra], ['mcp_failed', { status: 400 }]);
});
