import assert from 'node:assert/strict';
import { Script } from 'node:vm';
import { describe, test, type TestContext } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { BrowserSessions } from '../access/browser-session.ts';
import { testSecrets } from '../../tests/kit/test-secrets.ts';
import { systemClock as clock } from '../ports/clock.ts';
import { Dependencies, type Dependency } from './dependencies.ts';
import { createOperations, createOperationsAccess } from './operations.ts';
import { createHomePages, createInvitePage } from './home-page.ts';
import { startTestGateway, testConfig, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { sha256, testKey } from '../../tests/kit/plugin-kit.ts';
import { eventually } from '../../tests/kit/process-kit.ts';

interface Setup extends TestGatewayOptions {
  readonly dependencies?: readonly Dependency[];
  readonly draining?: boolean;
  /** Why it cannot serve. */
  readonly unready?: readonly string[];
  readonly remote?: string;
}

const sessions = new BrowserSessions({ secrets: testSecrets, clock });

/** A gateway whose operational pages are the real ones. */
async function operating(t: TestContext, setup: Setup = {}) {
  const { server } = testConfig(setup);
  const metrics = createMetrics();
  metrics.counter({ name: 'weir_test_total', help: 'A test.', labels: [] })({}).inc(3);
  const refusal = createOperationsAccess(
    server,
    {
      keyByHash: (hash) =>
        hash === sha256('owner-key')
          ? testKey({ kind: 'owner' })
          : hash === sha256('service-key')
            ? testKey()
            : undefined,
    },
    sessions,
  );
  const dependencies = new Dependencies(setup.dependencies ?? [], { clock, metrics });
  t.after(() => dependencies.close());
  const gateway = await startTestGateway(t, {
    ...setup,
    plugins: [],
    operations: createOperations({
      metrics,
      dependencies,
      status: () => ({ generation: 'abc' }),
      unready: () => setup.unready ?? [],
      reference: {
        document: () => ({ body: '{"openapi":"3.1.1"}', headers: { etag: '"one"' } }),
        reading: () => ({ body: '<p>', headers: { etag: '"two"', 'content-type': 'text/html' } }),
      },
      home: () => createHomePages(server, { hasConsole: true }),
      invitePage: createInvitePage(server),
      draining: () => setup.draining ?? false,
      refusal: (request) => {
        if (setup.remote === undefined) return refusal(request);
        const socket = { remoteAddress: setup.remote };
        return refusal({
          headers: request.headers,
          rawHeaders: request.rawHeaders,
          socket,
        } as typeof request);
      },
    }),
  });
  return gateway;
}

const works: Dependency = { name: 'journal', check: () => Promise.resolve() };

describe('operational pages', () => {
  test('/healthz', async (t) => {
    const gateway = await operating(t);
    const answer = await send(gateway.url, { path: '/healthz' });
    assert.deepEqual([answer.status, answer.json()], [200, { status: 'ok' }]);
    assert.equal(gateway.settled.length, 0, 'it is no request of the pipeline');
  });

  test('/readyz is 200 while a store is away, and says which one', async (t) => {
    const fails: Dependency = { name: 'analytics', check: () => Promise.reject(new Error('no connection')) };
    const { url } = await operating(t, { dependencies: [works, fails] });
    const answer = await send(url, { path: '/readyz' });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json(), {
      status: 'ready',
      degraded: ['analytics'],
      dependencies: { journal: 'ok', analytics: 'no connection' },
    });
    const { text } = await send(url, { path: '/metrics' });
    assert.match(text, /^weir_dependency_up\{dependency="journal"\} 1$/m);
    assert.match(text, /^weir_dependency_up\{dependency="analytics"\} 0$/m);
  });

  test('/readyz when all is well, when it cannot serve, and while draining', async (t) => {
    const ready = await operating(t, { dependencies: [works] });
    const answer = await send(ready.url, { path: '/readyz' });
    const dependencies = { journal: 'ok' };
    assert.deepEqual(
      [answer.status, answer.json()],
      [200, { status: 'ready', degraded: [], dependencies: { journal: 'ok' } }],
    );
    const unready = ['Keys are not known yet.'];
    const unable = await operating(t, { dependencies: [works], unready });
    const refused = await send(unable.url, { path: '/readyz' });
    assert.deepEqual(
      [refused.status, refused.json()],
      [503, { status: 'not ready', reasons: unready, degraded: [], dependencies }],
    );
    const leaving = await operating(t, { dependencies: [works], draining: true, unready });
    const last = await send(leaving.url, { path: '/readyz' });
    assert.deepEqual([last.status, last.json().status], [503, 'draining']);
  });

  test('/readyz does not wait for a dependency that says nothing: a balancer would think that it hangs', async (t) => {
    let asked = 0;
    const silent: Dependency = {
      name: 'analytics',
      check: () => {
        asked += 1;
        return new Promise(() => undefined);
      },
    };
    const { url } = await operating(t, { dependencies: [works, silent] });
    const first = await send(url, { path: '/readyz' });
    assert.deepEqual(
      [first.status, first.json().dependencies],
      [200, { journal: 'ok', analytics: 'no answer yet' }],
    );
    for (let look = 0; look < 3; look += 1) await send(url, { path: '/readyz' });
    assert.equal(asked, 1, 'one question at a time');
    await eventually(async () => {
      const { analytics } = (await send(url, { path: '/readyz' })).json().dependencies;
      return analytics === 'no answer within 2000 ms' || undefined;
    });
  });

  test('a dependency that hangs now and was well a moment ago is not called away before its time is over', async (t) => {
    let answers = true;
    const check = (): Promise<void> => (answers ? Promise.resolve() : new Promise(() => undefined));
    const { url } = await operating(t, { dependencies: [{ name: 'analytics', check }] });
    const analytics = async (): Promise<unknown> =>
      (await send(url, { path: '/readyz' })).json().dependencies.analytics;
    assert.equal(await analytics(), 'ok');
    answers = false;
    assert.equal(await analytics(), 'ok');
    await eventually(async () => (await analytics()) === 'no answer within 2000 ms' || undefined);
    answers = true;
    await eventually(async () => (await analytics()) === 'ok' || undefined);
  });

  test('/status and /metrics', async (t) => {
    const { url } = await operating(t);
    assert.deepEqual((await send(url, { path: '/status' })).json(), { generation: 'abc' });
    const metrics = await send(url, { path: '/metrics' });
    assert.match(metrics.headers['content-type'] ?? '', /^text\/plain/);
    assert.match(metrics.text, /^weir_test_total 3$/m);
  });

  test('/openapi.json and /docs, and not again for who has them', async (t) => {
    const { url } = await operating(t);
    for (const [path, text, etag] of [
      ['/openapi.json', '{"openapi":"3.1.1"}', '"one"'],
      ['/docs', '<p>', '"two"'],
    ] as const) {
      const answer = await send(url, { path });
      assert.deepEqual([answer.status, answer.text, answer.headers['etag']], [200, text, etag]);
      for (const known of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
        const again = await send(url, { path, headers: { 'if-none-match': known } });
        assert.deepEqual([again.status, again.text, again.headers['etag']], [304, '', etag]);
      }
      const other = await send(url, { path, headers: { 'if-none-match': '"x"' } });
      assert.deepEqual([other.status, other.text], [200, text]);
    }
  });

  test('/invite is a page that runs its own script alone and sends its token nowhere else', async (t) => {
    const { url } = await operating(t, { remote: '203.0.113.7' });
    const { status, text, headers } = await send(url, { path: '/invite' });
    assert.equal(status, 200, 'whoever is invited has no key yet');
    assert.match(text, /data-accept="\/v1\/invites\/accept"/);
    const script = /<script>([^]*)<\/script>/.exec(text)?.[1] ?? '';
    const policy = String(headers['content-security-policy']);
    assert.ok(policy.includes(`script-src 'sha256-${sha256(script)}'`), policy);
    assert.match(policy, /connect-src 'self'/);
    assert.equal(headers['referrer-policy'], 'no-referrer');
    assert.doesNotThrow(() => new Script(script));
  });

  test('/ is a page for a browser, and JSON for others', async (t) => {
    const gateway = await operating(t);
    const page = await send(gateway.url, { path: '/', headers: { accept: 'text/html,*/*' } });
    assert.deepEqual([page.status, page.headers['content-type']], [200, 'text/html; charset=utf-8']);
    assert.match(page.text, /<code>\/v1<\/code>[\s\S]*href="\/docs"/);
    assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
    const other = await send(gateway.url, { path: '/' });
    assert.deepEqual(other.json(), {
      service: 'weir',
      base_url: '/v1',
      console: '/console',
      reference: '/docs',
      openapi: '/openapi.json',
      alive: '/healthz',
      ready: '/readyz',
    });
    assert.equal(other.headers['vary'], 'accept');
    // Nothing but a look at it is meant for the page.
    assert.notEqual((await send(gateway.url, { path: '/', method: 'POST' })).status, 200);
  });

  test('HEAD has no body, another method no page, and a query changes nothing', async (t) => {
    const { url } = await operating(t);
    const head = await send(url, { path: '/healthz', method: 'HEAD' });
    assert.deepEqual([head.status, head.text], [200, '']);
    assert.equal((await send(url, { path: '/healthz', method: 'POST' })).status, 404);
    assert.equal((await send(url, { path: '/healthz?x=1' })).status, 200);
    assert.equal((await send(url, { path: 'http://any.example/healthz' })).status, 200);
  });

  test('OPTIONS of a guarded page says whether the caller may read it, and refuses nobody', async (t) => {
    const { url } = await operating(t, { server: { operations: 'key' } });
    for (const [key, allow] of [
      ['owner-key', 'GET, HEAD, OPTIONS'],
      ['service-key', 'OPTIONS'],
      ['', 'OPTIONS'],
    ] as const) {
      const headers = { 'x-service-api-key': key };
      const answer = await send(url, { method: 'OPTIONS', path: '/status', headers });
      assert.deepEqual([answer.status, answer.headers['allow'], answer.text], [204, allow, ''], key);
    }
  });

  test('they are reserved un-prefixed only', async (t) => {
    const gateway = await operating(t);
    const answer = await send(gateway.url, { path: '/v1/healthz' });
    assert.equal(answer.status, 500);
    assert.match(answer.json().error.message, /gateway failed|answered/);
  });
});

/** What a browser sends whose user signed in with this key. */
function browserOf(key: string): Record<string, string> {
  const { headers, session } = sessions.begin(key, 'http://127.0.0.1', 3_600_000);
  return { cookie: headers[1]?.split(';')[0] ?? '', 'x-service-csrf': session.csrf };
}

describe('who may read the pages for operators', () => {
  const owner = { 'x-service-api-key': 'owner-key' };
  const cases: readonly [
    mode: 'open' | 'loopback' | 'key',
    remote: string | undefined,
    headers: Record<string, string>,
    status: number,
  ][] = [
    ['open', '203.0.113.7', {}, 200],
    ['loopback', undefined, {}, 200],
    ['loopback', undefined, { host: 'localhost:8787' }, 200],
    ['loopback', undefined, { host: '[::1]:8787' }, 200],
    ['loopback', undefined, { host: 'pages.example' }, 401],
    ['loopback', undefined, { host: '127.0.0.1.pages.example' }, 401],
    ['loopback', undefined, { host: 'notlocalhost' }, 401],
    ['loopback', undefined, { 'x-forwarded-for': '127.0.0.1' }, 401],
    ['loopback', undefined, { 'x-forwarded-host': 'pages.example' }, 401],
    ['loopback', undefined, { forwarded: 'for=127.0.0.1' }, 401],
    ['loopback', undefined, { 'x-real-ip': '203.0.113.7' }, 401],
    ['loopback', undefined, { via: '1.1 proxy' }, 401],
    ['loopback', '127.8.9.1', {}, 200],
    ['loopback', '::1', {}, 200],
    ['loopback', '::ffff:127.0.0.1', {}, 200],
    ['loopback', '203.0.113.7', {}, 401],
    ['loopback', '::ffff:203.0.113.7', {}, 401],
    ['loopback', '2001:db8::1', {}, 401],
    ['loopback', '203.0.113.7', owner, 200],
    ['key', '127.0.0.1', {}, 401],
    ['key', '127.0.0.1', owner, 200],
    ['key', '127.0.0.1', { 'x-portkey-api-key': 'owner-key' }, 200],
    ['key', '127.0.0.1', { authorization: 'Bearer owner-key' }, 200],
    ['key', '127.0.0.1', { authorization: 'Basic owner-key' }, 401],
    ['key', '127.0.0.1', { 'x-service-api-key': 'service-key' }, 401],
    ['key', '127.0.0.1', { 'x-service-api-key': 'unknown' }, 401],
    ['key', '127.0.0.1', browserOf('owner-key'), 200],
    ['key', '127.0.0.1', { ...browserOf('owner-key'), 'x-service-csrf': 'guess' }, 401],
    ['key', '127.0.0.1', browserOf('service-key'), 401],
  ];
  for (const [mode, remote, headers, status] of cases) {
    test(`${mode}, from ${remote ?? 'here'}, with ${JSON.stringify(headers).slice(0, 60)}: ${status}`, async (t) => {
      const { url } = await operating(t, {
        server: { operations: mode },
        ...(remote === undefined ? {} : { remote }),
      });
      for (const path of ['/status', '/metrics', '/openapi.json', '/docs']) {
        const answer = await send(url, { path, headers });
        assert.equal(answer.status, status);
        if (status !== 401) continue;
        assert.equal(answer.json().error.code, 'key_missing');
        assert.match(
          answer.json().error.message,
          new RegExp(`x-service-api-key.*server.operations: ${mode}`),
        );
      }
      assert.equal((await send(url, { path: '/healthz' })).status, 200);
      assert.equal((await send(url, { path: '/readyz' })).status, 200);
    });
  }
});
