import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import type { RequestFacts } from './facts.ts';
import { definePlugin } from './plugin.ts';
import { jsonAnswer } from './settle.ts';

const answering = definePlugin({
  name: 'answering',
  capabilities: { answers: true },
  create: () => ({ request: () => jsonAnswer(200, {}) }),
});

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const traceparent = `00-${traceId}-${parentId}-01`;

/** Sends requests one after the other, and tells what became known of each. */
async function asking(t: TestContext) {
  const gateway = await startTestGateway(t, { plugins: [answering] });
  let count = 0;
  return async (headers: Readonly<Record<string, string>>, path = '/v1/models?a=b') => {
    const answer = await send(gateway.url, { path, headers });
    const settled = await gateway.untilSettled(++count);
    return { answer, id: settled.id, facts: settled.facts };
  };
}

type Trace = Pick<RequestFacts, 'traceId' | 'spanId' | 'parentSpanId' | 'spanName'>;
const own = (id: string): string => id.replaceAll('-', '').slice(0, 16);

for (const prefix of ['x-service', 'x-portkey']) {
  const cases: readonly [string, Readonly<Record<string, string>>, (id: string) => Trace][] = [
    ['nothing', {}, (id) => ({ traceId: id, spanId: '', parentSpanId: '', spanName: '' })],
    [
      'traceparent',
      { traceparent },
      (id) => ({ traceId, spanId: own(id), parentSpanId: parentId, spanName: 'GET /v1/models' }),
    ],
    [
      'a traceparent that is none',
      { traceparent: traceparent.toUpperCase() },
      (id) => ({ traceId: id, spanId: '', parentSpanId: '', spanName: '' }),
    ],
    [
      'the trace id wins',
      { traceparent, [`${prefix}-trace-id`]: 't' },
      (id) => ({ traceId: 't', spanId: own(id), parentSpanId: parentId, spanName: 'GET /v1/models' }),
    ],
    [
      'the span id wins',
      { traceparent, [`${prefix}-span-id`]: 's' },
      () => ({ traceId, spanId: 's', parentSpanId: parentId, spanName: 'GET /v1/models' }),
    ],
    [
      'the parent span id wins',
      { traceparent, [`${prefix}-parent-span-id`]: 'p' },
      (id) => ({ traceId, spanId: own(id), parentSpanId: 'p', spanName: 'GET /v1/models' }),
    ],
    [
      'the span name wins',
      { traceparent, [`${prefix}-span-name`]: 'n' },
      (id) => ({ traceId, spanId: own(id), parentSpanId: parentId, spanName: 'n' }),
    ],
    [
      'all four without traceparent',
      {
        [`${prefix}-trace-id`]: 't',
        [`${prefix}-span-id`]: 's',
        [`${prefix}-parent-span-id`]: 'p',
        [`${prefix}-span-name`]: 'n',
      },
      () => ({ traceId: 't', spanId: 's', parentSpanId: 'p', spanName: 'n' }),
    ],
    [
      'empty ones say nothing',
      { traceparent, [`${prefix}-trace-id`]: '', [`${prefix}-span-id`]: '' },
      (id) => ({ traceId, spanId: own(id), parentSpanId: parentId, spanName: 'GET /v1/models' }),
    ],
  ];
  test(`traces under ${prefix}`, async (t) => {
    const ask = await asking(t);
    for (const [name, headers, expected] of cases) {
      const { answer, id, facts } = await ask(headers);
      const { traceId: trace, spanId, parentSpanId, spanName } = facts;
      assert.deepEqual({ traceId: trace, spanId, parentSpanId, spanName }, expected(id), name);
      assert.equal(answer.headers['x-service-trace-id'], trace, name);
    }
  });

  test(`each identifier that is too long under ${prefix}`, async (t) => {
    const ask = await asking(t);
    for (const name of ['trace-id', 'span-id', 'parent-span-id', 'span-name']) {
      assert.equal((await ask({ [`${prefix}-${name}`]: 'x'.repeat(255) })).answer.status, 200);
      const { answer } = await ask({ [`${prefix}-${name}`]: 'x'.repeat(256) });
      assert.equal(answer.status, 400);
      const { code, param, message } = answer.json().error;
      assert.deepEqual([code, param], ['invalid_header', name]);
      assert.match(message, new RegExp(`The ${name} header is longer than 255`));
    }
  });

  test(`baggage beside metadata under ${prefix}`, async (t) => {
    const ask = await asking(t);
    const metadata = async (headers: Readonly<Record<string, string>>) => (await ask(headers)).facts.metadata;
    const said = (value: object) => ({ [`${prefix}-metadata`]: JSON.stringify(value) });
    assert.deepEqual(await metadata({ baggage: 'team=blue;p=1,user=a%20b' }), { team: 'blue', user: 'a b' });
    assert.deepEqual(await metadata({ baggage: 'team=blue,x=1', ...said({ team: 'red', n: 3 }) }), {
      team: 'red',
      n: '3',
      x: '1',
    });
    assert.deepEqual(await metadata({ baggage: `a=${'x'.repeat(129)},${'k'.repeat(129)}=1,b=2` }), {
      b: '2',
    });
    assert.deepEqual(await metadata({ baggage: 'nonsense' }), {});
    const { answer } = await ask({ [`${prefix}-metadata`]: '{"__proto__":"a"}' });
    assert.equal(answer.status, 400);
    assert.match(answer.json().error.message, /"__proto__"/);
    const many = Object.fromEntries(Array.from({ length: 63 }, (_, i) => [`k${i}`, '1']));
    const full = await metadata({ baggage: 'k0=2,first=1,second=1', ...said(many) });
    assert.deepEqual(full, { ...many, first: '1' });
  });
}

test('a name that is made of a long path is cut', async (t) => {
  const ask = await asking(t);
  const { facts } = await ask({ traceparent }, `/v1/${'x'.repeat(400)}`);
  assert.equal(facts.spanName.length, 255);
});

test('the baggage of two headers is one list', async (t) => {
  const gateway = await startTestGateway(t, { plugins: [answering] });
  await fetch(`${gateway.url}/v1/models`, {
    headers: [
      ['baggage', 'a=1'],
      ['baggage', 'b=2'],
    ],
  });
  assert.deepEqual((await gateway.untilSettled()).facts.metadata, { a: '1', b: '2' });
});
