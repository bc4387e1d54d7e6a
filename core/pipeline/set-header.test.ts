import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import type { RequestContext } from './context.ts';
import { definePlugin, type Hooks } from './plugin.ts';
import { jsonAnswer } from './settle.ts';

/** A gateway whose plugin does this in its hooks, and the headers that the provider got last. */
async function setting(t: TestContext, hooks: Hooks) {
  let seen: Readonly<Record<string, unknown>> = {};
  const upstream = await startUpstream(t, ({ headers }, response) => {
    seen = headers;
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const setter = definePlugin({ name: 'setter', create: () => hooks });
  const providers = {
    up: { base_url: upstream.url },
    other: { base_url: 'mock:', credentials: 'none' as const },
  };
  const plugins = [setter, providerPlugin({ default: 'up' })];
  const gateway = await startTestGateway(t, { plugins, providers });
  return {
    ask: async (headers: Readonly<Record<string, string>> = {}) => {
      const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
      const { status, text } = await send(gateway.url, { path: '/v1/chat/completions', headers, body });
      return { status, text, seen };
    },
  };
}

const inRequest = (run: (context: RequestContext) => void): Hooks => ({
  request: (context) => void run(context),
});

test('a header that a plugin sets takes the place of those of the client, and another hook and the provider read it', async (t) => {
  const read: unknown[] = [];
  const { ask } = await setting(
    t,
    inRequest((context) => {
      context.setHeader('X-End-User', 'jo');
      context.setHeader('x-gone', undefined);
      read.push(context.header('x-end-user'), context.header('x-gone'), context.headers.includes('kim'));
    }),
  );
  const { seen } = await ask({ 'x-end-user': 'kim', 'x-gone': 'here' });
  assert.deepEqual(read, ['jo', undefined, false]);
  assert.deepEqual([seen['x-end-user'], seen['x-gone']], ['jo', undefined]);
});

test('a header of the gateway steers the request, and does not reach the provider', async (t) => {
  const { ask } = await setting(
    t,
    inRequest((context) => {
      assert.equal(context.service('provider'), undefined);
      context.setHeader('x-service-provider', 'other');
      assert.equal(context.service('provider'), 'other');
    }),
  );
  const { status, text } = await ask();
  assert.equal(status, 200);
  assert.match(text, /mock provider/);
});

for (const [name, value, sentence] of [
  ['no name', 'x', /"no name" is no name of a header/],
  ['content-length', '3', /The gateway itself sets the header content-length/],
  ['Transfer-Encoding', 'chunked', /The gateway itself sets the header Transfer-Encoding/],
  ['x-a', 'one\r\nx-b: two', /Invalid character in header content/],
] as const) {
  test(`${name}: ${JSON.stringify(value)} is refused`, async (t) => {
    let thrown: unknown;
    const { ask } = await setting(
      t,
      inRequest((context) => {
        try {
          context.setHeader(name, value);
        } catch (error) {
          thrown = error;
        }
      }),
    );
    await ask();
    assert.match(String(thrown), sentence);
  });
}

test('once there is an attempt it throws', async (t) => {
  let thrown: unknown;
  const { ask } = await setting(t, {
    attempt(context) {
      try {
        context.setHeader('x-late', 'y');
      } catch (error) {
        thrown = error;
      }
      return jsonAnswer(200, {});
    },
  });
  assert.equal((await ask()).status, 200);
  assert.match(String(thrown), /call `setHeader` in an `admit` or `request` hook/);
});
