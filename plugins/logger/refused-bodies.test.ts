import assert from 'node:assert/strict';
import net from 'node:net';
import { test, type TestContext } from 'node:test';
import type { BodyRow, RequestRow } from '../../core/ports/request-row.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { TestJournal, testKey } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import rateLimit from '../rate-limit/index.ts';
import logger from './index.ts';

const chat = (content: string) => ({
  path: '/v1/chat/completions',
  headers: { 'x-service-api-key': 'wk_one' },
  body: { model: 'm', messages: [{ role: 'user', content }] },
});

/** A gateway that lets one request a minute pass, and its log. */
async function begin(t: TestContext, options: Readonly<Record<string, unknown>> = {}) {
  const upstream = await startUpstream(t, (_request, response) => response.end('{}'));
  const journal = new TestJournal();
  const gateway = await startTestGateway(t, {
    plugins: [
      auth,
      { plugin: rateLimit, options: { requests_per_minute: 1 } },
      providerPlugin({ default: 'up' }),
      { plugin: logger, options },
    ],
    keys: { wk_one: testKey() },
    providers: { up: { base_url: upstream.url, api_key: 'held' } },
    journal,
  });
  const sent = (): readonly string[] => journal.rows<BodyRow>('bodies').map(({ request }) => request);
  return { gateway, upstream, sent, rows: () => journal.rows<RequestRow>('requests') };
}

test('a request that a limit refuses keeps its body in the log', async (t) => {
  const { gateway, upstream, sent, rows } = await begin(t);
  assert.equal((await send(gateway.url, chat('first'))).status, 200);
  assert.equal((await send(gateway.url, chat('second'))).status, 429);
  await gateway.untilSettled(2);
  assert.equal(upstream.requests.length, 1);
  const [, second] = sent().map((one) => JSON.stringify(one));
  assert.match(second ?? '', /second/);
  assert.deepEqual(
    rows().map(({ status }) => status),
    [200, 429],
  );
});

test('but for what is longer than what is kept, and where no bodies are', async (t) => {
  const { gateway, sent } = await begin(t);
  await send(gateway.url, chat('first'));
  assert.equal((await send(gateway.url, chat('x'.repeat(300_000)))).status, 429);
  await gateway.untilSettled(2);
  assert.ok(!JSON.stringify(sent()).includes('xxxx'));
  const without = await begin(t, { bodies: false });
  await send(without.gateway.url, chat('first'));
  assert.equal((await send(without.gateway.url, chat('second'))).status, 429);
  await without.gateway.untilSettled(2);
  assert.deepEqual(without.sent(), []);
});

test('a client that holds its body back is refused all the same', async (t) => {
  const { gateway } = await begin(t);
  await send(gateway.url, chat('first'));
  const socket = net.connect(gateway.port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write(
    'POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-service-api-key: wk_one\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{',
  );
  const text = await new Promise<string>((resolve) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString()));
  });
  assert.match(text, /^HTTP\/1\.1 429 /);
});
