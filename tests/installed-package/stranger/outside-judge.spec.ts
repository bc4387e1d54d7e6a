import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { startGateway } from 'weir-gateway/testing';

const plugin = new URL('./outside-judge.ts', import.meta.url);

test('asks outside, and is open or closed while nobody answers', async (t) => {
  const judge = createServer((request, response) => {
    request.setEncoding('utf8').once('data', (text: string) => {
      response.writeHead(text.includes('rude') ? 403 : 204).end();
    });
  });
  judge.listen(0, '127.0.0.1');
  await once(judge, 'listening');
  const url = `http://127.0.0.1:${(judge.address() as AddressInfo).port}/`;
  const gateway = await startGateway({ plugin, options: { url, fail: 'closed' }, t });
  assert.equal((await gateway.ask({ prompt: 'Be kind' })).text, 'It is a fine day.');
  for (const stream of [false, true])
    assert.match((await gateway.ask({ wire: 'messages', stream, prompt: 'Be rude' })).error ?? '', /refused/);
  judge.closeAllConnections();
  judge.close();
  const closed = await gateway.ask();
  assert.match(closed.error ?? '', /could not be judged/);
  assert.deepEqual(closed.provider, []);
  await gateway.reload({ options: { url, fail: 'open' } });
  assert.equal((await gateway.ask()).status, 200);
  assert.equal(await gateway.metric('outside_judge_total', { outcome: 'away' }), 2);
});

test('an address that is none is told with its place', async () => {
  await assert.rejects(
    startGateway({ plugin, options: { url: 'judge', fail: 'open' } }),
    /this is no address/,
  );
});
