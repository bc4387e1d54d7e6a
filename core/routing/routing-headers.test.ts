import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { jsonAnswer } from '../pipeline/settle.ts';
import { Exchange } from '../pipeline/exchange.ts';
import { definePlugin } from '../pipeline/plugin.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { readRoutingHeaders } from './forward-headers.ts';

type RoutingHeaders = ReturnType<typeof readRoutingHeaders>;

const nothing: RoutingHeaders = { requestTimeoutMs: undefined, forwardHeaders: [], sensitiveHeaders: [] };

/** Answers with what the request's headers say of its routing. */
const reading = definePlugin({
  name: 'reading',
  capabilities: { answers: true },
  create: () => ({
    request(context) {
      assert.ok(context instanceof Exchange);
      const { requestTimeoutMs, forwardHeaders, sensitiveHeaders } = readRoutingHeaders(context);
      return jsonAnswer(200, { requestTimeoutMs, forwardHeaders, sensitiveHeaders });
    },
  }),
});
const start = (t: TestContext) => startTestGateway(t, { plugins: [reading] });

const many = (count: number): string => Array.from({ length: count }, (_, i) => `x-${i}`).join(',');

const valid: readonly [header: string, value: string, read: Partial<RoutingHeaders>][] = [
  ['request-timeout', '1', { requestTimeoutMs: 1 }],
  ['request-timeout', '86400000', { requestTimeoutMs: 86_400_000 }],
  ['request-timeout', ' 2500 ', { requestTimeoutMs: 2500 }],
  ['request-timeout', '', {}],
  ['forward-headers', 'X-User', { forwardHeaders: ['x-user'] }],
  ['forward-headers', ' X-User ,x-tenant,, x-user', { forwardHeaders: ['x-user', 'x-tenant'] }],
  ['forward-headers', '', {}],
  ['forward-headers', many(64), { forwardHeaders: many(64).split(',') }],
  ['sensitive-headers', 'X-Secret, x-other', { sensitiveHeaders: ['x-secret', 'x-other'] }],
  ['sensitive-headers', 'Authorization', { sensitiveHeaders: ['authorization'] }],
  ['sensitive-headers', '', {}],
];

const invalid: readonly [header: string, value: string, message: RegExp][] = [
  ['request-timeout', '0', /whole milliseconds, 1 to 86400000/],
  ['request-timeout', '86400001', /86400000/],
  ['request-timeout', '99999999999999999999', /whole milliseconds/],
  ['request-timeout', '-5', /whole milliseconds/],
  ['request-timeout', '1.5', /whole milliseconds/],
  ['request-timeout', '1e3', /whole milliseconds/],
  ['request-timeout', '0x10', /whole milliseconds/],
  ['request-timeout', '5s', /whole milliseconds/],
  ['request-timeout', '1, 2', /whole milliseconds/],
  ['forward-headers', 'x-user, Authorization', /Take "authorization" out of it: credentials/],
  ['forward-headers', 'cookie', /Take "cookie"/],
  ['forward-headers', 'x-goog-api-key', /credentials/],
  ['forward-headers', 'Connection', /one connection/],
  ['forward-headers', 'host', /sets it anew/],
  ['forward-headers', 'metadata-flavor', /metadata services/],
  ['forward-headers', 'x-service-forward-headers', /gateway itself/],
  ['forward-headers', 'x-user,X-Portkey-Forward-Headers', /gateway itself/],
  ['forward-headers', 'forward-headers', /gateway itself/],
  ['forward-headers', 'a b', /"a b" is no name of a header/],
  ['forward-headers', many(65), /64 headers at the most/],
  ['sensitive-headers', 'x-a;x-b', /"x-a;x-b" is no name of a header/],
  ['sensitive-headers', many(65), /64 headers at the most/],
];

for (const prefix of ['x-service', 'x-portkey']) {
  describe(`under ${prefix}`, () => {
    test('what may be said', async (t) => {
      const { url } = await start(t);
      for (const [header, value, read] of valid) {
        const answer = await send(url, { headers: { [`${prefix}-${header}`]: value } });
        const expected: unknown = JSON.parse(JSON.stringify({ ...nothing, ...read }));
        assert.deepEqual(answer.json(), expected, `${header}: ${value}`);
      }
    });

    test('what is refused, by the name of its header', async (t) => {
      const { url } = await start(t);
      for (const [header, value, message] of invalid) {
        const answer = await send(url, { headers: { [`${prefix}-${header}`]: value } });
        assert.equal(answer.status, 400, `${header}: ${value}`);
        const { error } = answer.json();
        assert.deepEqual([error.code, error.param], ['invalid_header', header], `${header}: ${value}`);
        assert.match(error.message, message);
        assert.match(error.message, new RegExp(`^The ${header} header `));
      }
    });
  });
}

test('all at once, and our own prefix before an alias', async (t) => {
  const { url } = await start(t);
  const headers = {
    'x-service-request-timeout': '5',
    'x-portkey-request-timeout': 'junk',
    'x-portkey-forward-headers': 'x-a',
    'x-service-sensitive-headers': 'x-b',
  };
  assert.deepEqual((await send(url, { headers })).json(), {
    requestTimeoutMs: 5,
    forwardHeaders: ['x-a'],
    sensitiveHeaders: ['x-b'],
  });
});

test('a request that says nothing of it costs no object', async (t) => {
  const seen: RoutingHeaders[] = [];
  const { url } = await startTestGateway(t, {
    plugins: [
      definePlugin({
        name: 'seeing',
        capabilities: { answers: true },
        create: () => ({
          request(context) {
            assert.ok(context instanceof Exchange);
            seen.push(readRoutingHeaders(context));
            return jsonAnswer(200, {});
          },
        }),
      }),
    ],
  });
  for (const name of ['x-service-span-id', 'x-other']) await send(url, { headers: { [name]: '1' } });
  assert.deepEqual(seen[0], nothing);
  assert.equal(seen[0], seen[1]);
});
