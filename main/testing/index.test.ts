import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { startGateway, type TestGateway, wires } from './index.ts';

const redact = `import { definePlugin, redactor, Type } from 'weir-gateway/plugin';
export default definePlugin({
  name: 'redact',
  schema: Type.Object({ pattern: Type.String() }),
  capabilities: { reads: ['response.text'], changes: ['response.text'], stream: 'window' },
  create(options, scope) {
    const redaction = redactor([{ pattern: options.pattern, replacement: '###' }]);
    if (typeof redaction === 'string') throw new Error(redaction);
    const counted = scope.metrics.counter({ name: 'redact_answers_total', help: 'Answers.', labels: ['how'] });
    return {
      response: (context) => { counted({ how: 'whole' }).inc(); void redaction.response(context); },
      stream: (context) => { counted({ how: 'stream' }).inc(); return redaction.stream(context); },
    };
  },
});
`;

const limited = `import { definePlugin, GatewayError } from 'weir-gateway/plugin';
export default definePlugin({
  name: 'limited',
  create: (_options, { counters, cache }) => ({
    async request(context) {
      const window = { key: 'all', limit: 1, windowMs: 60_000 };
      const policy = context.header('x-policy');
      const { allowed } = await counters.take([window], 1, policy);
      await cache.set('seen', Buffer.from('yes'), 1000);
      const seen = await cache.get('seen');
      context.addResponseHeader('x-seen', String(seen !== undefined));
      if (!allowed) throw new GatewayError('rate_limited', 'Too many.');
    },
  }),
});
`;

describe('a gateway for tests of plugins', () => {
  let folder: string;
  let gateway: TestGateway;
  const fileOf = (name: string): string => path.join(folder, name);
  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'weir-testing-test-'));
    await writeFile(fileOf('redact.ts'), redact);
    await writeFile(fileOf('limited.ts'), limited);
    gateway = await startGateway({ plugin: fileOf('redact.ts'), options: { pattern: 'secret[0-9]{2}' } });
  });
  after(async () => {
    await gateway?.close();
    await rm(folder, { recursive: true, force: true });
  });

  for (const wire of wires)
    for (const stream of [false, true])
      test(`asks over ${wire}, ${stream ? 'streamed' : 'whole'}, and reads as a strict client does`, async () => {
        const answer = ['Take se', 'cre', 't42', ' or leave.'];
        const reply = await gateway.ask({ wire, stream, answer });
        assert.deepEqual([reply.status, reply.problems, reply.error], [200, [], undefined]);
        assert.equal(reply.text, 'Take ### or leave.');
        assert.equal(reply.row['id'], reply.headers['x-service-request-id']);
        assert.deepEqual(
          reply.provider.map((one) => [one.wire, JSON.stringify(one.body).includes('Hello')]),
          [[wire, true]],
        );
      });

  test('another wire of the provider is translated; thoughts and calls come through; bytes may be cut anywhere', async () => {
    const answer = {
      text: 'secret11',
      reasoning: ['a secr', 'et22'],
      calls: [{ name: 'look', arguments: ['{"at":"sec', 'ret33"}'] }],
      chunkBytes: 3,
    };
    for (const wire of ['chat', 'messages', 'responses', 'gemini'] as const)
      for (const provider of ['chat', 'messages'] as const) {
        const reply = await gateway.ask({ wire, provider, stream: true, answer });
        assert.deepEqual(reply.problems, [], `${wire} over ${provider}`);
        assert.deepEqual(
          [reply.text, reply.reasoning, reply.calls],
          ['###', 'a ###', [{ name: 'look', arguments: '{"at":"###"}' }]],
        );
      }
  });

  test('errors of the provider and broken streams are told', async () => {
    const refused = await gateway.ask({ answer: { status: 503 }, wire: 'messages' });
    assert.equal(refused.status, 503);
    assert.match(refused.error ?? '', /error/);
    const broken = await gateway.ask({ answer: { text: ['a', 'b', 'c'], breaksAfter: 3 }, stream: true });
    assert.ok(broken.error !== undefined || broken.problems.length > 0);
  });

  test('tells the metrics of the plugin, and of requests side by side', async () => {
    const before = await gateway.metric('redact_answers_total', { how: 'whole' });
    await Promise.all([1, 2, 3].map((n) => gateway.ask({ answer: n === 3 ? 'other' : 'same' })));
    assert.equal(await gateway.metric('redact_answers_total', { how: 'whole' }), before + 3);
  });

  test('reloads options and code; what is wrong is told, and what served serves on', async () => {
    await gateway.reload({ options: { pattern: 'fine' } });
    assert.equal((await gateway.ask({ answer: 'so fine' })).text, 'so ###');
    await assert.rejects(gateway.reload({ options: { patern: 'x' } }), /did you mean "pattern"/);
    assert.equal((await gateway.ask({ answer: 'so fine' })).text, 'so ###');
    await writeFile(fileOf('redact.ts'), redact.replace("'###'", "'new'"));
    await gateway.reload({ options: { pattern: 'fine' } });
    assert.equal((await gateway.ask({ answer: 'so fine' })).text, 'so new');
  });

  test('a plugin that cannot be loaded is told with its place', async () => {
    await assert.rejects(
      startGateway({ plugin: fileOf('gone.ts') }),
      /plugin file ".*gone\.ts" does not exist/,
    );
  });

  test('stores may be away', async (t) => {
    const here = await startGateway({ plugin: fileOf('limited.ts'), t });
    assert.equal((await here.ask()).headers['x-seen'], 'true');
    assert.match((await here.ask()).error ?? '', /Too many/);
    const away = await startGateway({ plugin: fileOf('limited.ts'), stores: 'away', t });
    assert.equal((await away.ask({ headers: { 'x-policy': 'open' } })).status, 200);
    const closed = await away.ask({ headers: { 'x-policy': 'closed' } });
    assert.match(closed.error ?? '', /cannot be checked now/);
    assert.equal((await away.ask({ headers: { 'x-policy': 'open' } })).headers['x-seen'], 'false');
  });
});
