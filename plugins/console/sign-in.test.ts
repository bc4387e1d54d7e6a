import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createGuardedFetch } from '../../adapters/guarded-fetch/guarded-fetch.ts';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createOauthClients } from '../../adapters/oauth/create-oauth-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import {
  type AuthorizationServerOptions,
  startAuthorizationServer,
} from '../../tests/kit/authorization-server.ts';
import { Browser } from '../../tests/kit/browser.ts';
import { startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import auth from '../auth/index.ts';
import management from '../management/index.ts';
import consolePlugin from './index.ts';

const resource = 'https://weir.example/console';
const publicHost = 'weir.example.com';
/** The port of the loopback address of a native application may differ. */
const client = {
  client_id: 'weir-console',
  client_secret: 'held by the gateway',
  application_type: 'native',
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  redirect_uris: ['http://127.0.0.1/console/callback', `https://${publicHost}/console/callback`],
  post_logout_redirect_uris: ['http://127.0.0.1/console', `https://${publicHost}/console`],
};
const hourMs = 3_600_000;

interface Setup {
  readonly provider?: AuthorizationServerOptions;
  /** Of `console.sign_in`. */
  readonly signIn?: Readonly<Record<string, unknown>>;
  readonly server?: TestGatewayOptions['server'];
}

/** A gateway whose console signs in at a real provider. */
async function start(t: TestContext, { signIn = {}, server = {}, ...setup }: Setup = {}) {
  const provider = await startAuthorizationServer({
    clients: [client],
    scopes: ['logs.list'],
    resources: [resource],
    tokensAreJwt: true,
    ...setup.provider,
  });
  t.after(() => provider.close());
  const time = { passed: 0 };
  const clock = {
    ...realClock,
    now: () => realClock.now() + time.passed,
    monotonic: () => realClock.monotonic() + time.passed,
  };
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const trustedHosts = [provider.host];
  const network = createGuardedFetch({ log, clock: realClock, trustedHosts });
  /** What the gateway asks is never answered. */
  const silence = { is: false };
  const guardedFetch: GuardedFetch = {
    fetch: (request) =>
      silence.is ? { abort: () => undefined, answer: new Promise(() => undefined) } : network.fetch(request),
  };
  const jwt = { jwks_url: `${provider.issuer}/jwks`, issuer: provider.issuer, audience: resource };
  const { client_id, client_secret } = client;
  const { url } = await startTestGateway(t, {
    clock,
    server,
    guardedFetch,
    mcp: createMcpClients({
      ...{ log, transport, trustedHosts, clock: realClock },
      oauth: createOauthClients({ fetch: guardedFetch, clock }),
    }),
    keys: { wk_ben: testKey({ id: 'ben', scopes: ['logs.list'] }) },
    pipelines: [
      {
        name: 'admin',
        match: { routes: 'contributed' },
        plugins: [{ plugin: auth, options: { jwt } }, management],
      },
      {
        name: 'console',
        match: { path: '/console/**' },
        plugins: [
          {
            plugin: consolePlugin,
            options: {
              sign_in: {
                ...{ issuer: provider.issuer, client_id, client_secret, resource },
                ...{ scope: 'openid offline_access logs.list', ...signIn },
              },
            },
          },
        ],
      },
    ],
  });
  const session = async (browser: Browser, init: RequestInit = {}): Promise<Record<string, unknown>> => {
    const end = await browser.open(`${url}/console/session`, init);
    assert.ok('page' in end && end.page.status === 200, JSON.stringify(end));
    return JSON.parse(end.page.html) as Record<string, unknown>;
  };
  return {
    ...{ provider, time, silence, url },
    /** Signs in, and says at which address the browser arrives. */
    async signIn(browser: Browser, place = '/console/logs'): Promise<string> {
      const end = await browser.open(`${url}/console/sign-in?to=${encodeURIComponent(place)}`);
      return 'left' in end ? end.left.href : end.page.url;
    },
    isSignedIn: async (browser: Browser): Promise<boolean> => (await session(browser)).session !== null,
    signOut: (browser: Browser) => session(browser, { method: 'DELETE' }),
    signInWithKey: (browser: Browser) =>
      session(browser, {
        method: 'POST',
        body: '{"credential":"wk_ben"}',
        headers: { 'content-type': 'application/json' },
      }),
    refreshes: (): number =>
      provider.tokenRequests.filter((one) => one.get('grant_type') === 'refresh_token').length,
  };
}

describe('signing out of a session that the provider made', () => {
  test('leads to its page with client and way back; then it asks for the credentials again', async (t) => {
    const { url, provider, signIn, signOut, isSignedIn } = await start(t);
    const browser = new Browser(`${url}/console?`, `${url}/console/logs`);
    assert.equal(await signIn(browser), `${url}/console/logs`);
    assert.equal(await isSignedIn(browser), true);
    const { session, next, ...more } = await signOut(browser);
    assert.deepEqual([session, more], [null, {}]);
    assert.equal(await isSignedIn(browser), false);
    const page = new URL(String(next));
    assert.equal(page.origin + page.pathname, `${provider.issuer}/session/end`);
    assert.deepEqual(Object.fromEntries(page.searchParams), {
      client_id: 'weir-console',
      post_logout_redirect_uri: `${url}/console`,
    });
    await signIn(browser);
    assert.deepEqual(provider.logins, ['ann'], 'the session at the provider goes on until its page is left');
    await signOut(browser);
    const asked = await browser.open(page);
    assert.ok('page' in asked);
    const back = await browser.submit(asked.page, { logout: 'yes' });
    assert.ok('page' in back);
    assert.equal(back.page.url, `${url}/console`);
    await signIn(browser);
    assert.deepEqual(provider.logins, ['ann', 'ann']);
  });

  test('comes back to the public address', async (t) => {
    const { url } = await start(t, { server: { public_url: `https://${publicHost}/` } });
    const ask = async (method: string, path: string, cookies: readonly string[] = []) => {
      const cookie = cookies.map((one) => one.split(';')[0]).join('; ');
      const headers = { host: publicHost, ...(cookie !== '' && { cookie }) };
      const { status, headers: told, text } = await send(url, { method, path, headers });
      return { status, text, location: String(told.location), cookies: told['set-cookie'] ?? [] };
    };
    const left = await ask('GET', '/console/sign-in');
    const end = await new Browser(`https://${publicHost}`).open(left.location);
    assert.ok('left' in end, JSON.stringify(end));
    const begun = await ask('GET', end.left.pathname + end.left.search, left.cookies);
    assert.equal(begun.status, 303, begun.text);
    assert.equal(begun.location, `https://${publicHost}/console`);
    assert.ok(begun.cookies.every((one) => one.startsWith('__Host-') && one.endsWith('; Secure')));
    const over = await ask('DELETE', '/console/session', begun.cookies);
    const { next } = JSON.parse(over.text) as { next: string };
    const way = new URL(next).searchParams.get('post_logout_redirect_uri');
    assert.equal(way, `https://${publicHost}/console`);
    assert.equal(over.cookies.filter((one) => one.includes('Max-Age=0')).length, 2);
  });

  test('stays here with the setting off, and the next sign-in asks for nothing', async (t) => {
    const { provider, signIn, signOut, isSignedIn } = await start(t, { signIn: { end_session: false } });
    const browser = new Browser();
    await signIn(browser);
    assert.deepEqual(await signOut(browser), { session: null });
    assert.equal(await isSignedIn(browser), false);
    await signIn(browser);
    assert.deepEqual(provider.logins, ['ann']);
  });

  test('stays here when the provider names no such page', async (t) => {
    const { signIn, signOut, isSignedIn } = await start(t, { provider: { endsSessions: false } });
    const browser = new Browser();
    await signIn(browser);
    assert.deepEqual(await signOut(browser), { session: null });
    assert.equal(await isSignedIn(browser), false);
  });

  for (const [what, leave] of [
    ['is gone', (of: Awaited<ReturnType<typeof start>>) => of.provider.close()],
    ['is silent', (of: Awaited<ReturnType<typeof start>>) => (of.silence.is = true)],
  ] as const)
    test(`ends it here also when the provider ${what}, which is told`, async (t) => {
      const started = await start(t);
      const { time, signIn, signOut, isSignedIn } = started;
      const browser = new Browser();
      await signIn(browser);
      leave(started);
      // What it has said of itself is no longer believed.
      time.passed += 11 * 60_000;
      const began = Date.now();
      assert.deepEqual(await signOut(browser), { session: null, provider_away: true });
      assert.ok(Date.now() - began < 8_000);
      assert.equal(await isSignedIn(browser), false);
    });

  test('revokes the refresh token: a copy of the cookies renews nothing', async (t) => {
    const { provider, time, signIn, signOut, isSignedIn } = await start(t);
    const browser = new Browser();
    await signIn(browser);
    const thief = browser.copy();
    await signOut(browser);
    await eventually(
      () => provider.requests.includes('POST /token/revocation') || undefined,
      () => 'a revocation',
    );
    time.passed += 2 * hourMs;
    assert.equal(await isSignedIn(thief), false);
  });

  test('with a key leads nowhere, and a key leaves nothing of the sign-in before', async (t) => {
    const { time, signIn, signOut, signInWithKey, isSignedIn, refreshes } = await start(t);
    const browser = new Browser();
    await signIn(browser);
    await signInWithKey(browser);
    const copy = browser.copy();
    assert.deepEqual(await signOut(browser), { session: null });
    // The session of the key ends, and the user of the provider does not come back in its place.
    time.passed += 13 * hourMs;
    assert.equal(await isSignedIn(copy), false);
    assert.equal(refreshes(), 0);
  });
});

describe('a session that the provider made', () => {
  test('ends after session_hours, however often it is renewed', async (t) => {
    const { time, signIn, isSignedIn, refreshes } = await start(t, { signIn: { session_hours: 3 } });
    const browser = new Browser();
    await signIn(browser);
    for (const passed of [1.5, 2.9]) {
      time.passed = passed * hourMs;
      assert.equal(await isSignedIn(browser), true, `${passed} hours`);
    }
    assert.equal(refreshes(), 2);
    const copy = browser.copy();
    time.passed = 3.1 * hourMs;
    assert.equal(await isSignedIn(copy), false);
    assert.equal(refreshes(), 2);
  });

  test('is renewed once for two pages that are opened at the same time', async (t) => {
    const { time, signIn, isSignedIn, refreshes } = await start(t);
    const browser = new Browser();
    await signIn(browser);
    time.passed = 2 * hourMs;
    assert.deepEqual(await Promise.all([isSignedIn(browser), isSignedIn(browser.copy())]), [true, true]);
    assert.equal(refreshes(), 1);
    time.passed = 4 * hourMs;
    assert.equal(await isSignedIn(browser), true);
  });
});

describe('the way to the provider and back', () => {
  test('ends in the console, and at no other address', async (t) => {
    const { url, signIn } = await start(t);
    for (const place of [
      '/v1/logs',
      '//evil.example',
      '/console/../v1/logs',
      '/console/..%2e/%2e%2e/v1/logs',
      '/console/%2e%2e/v1/logs',
      'https://evil.example',
    ])
      assert.match(new URL(await signIn(new Browser(), place)).pathname, /^\/console(?:\/|$)/, place);
    const browser = new Browser(`${url}/console/logs`);
    assert.equal(
      await signIn(browser, '/console/logs?status=500&a=../b'),
      `${url}/console/logs?status=500&a=../b`,
    );
  });

  test('takes the answer of the provider alone, which names itself', async (t) => {
    const { url, provider } = await start(t);
    const browser = new Browser(`${url}/console/callback`);
    const end = await browser.open(`${url}/console/sign-in`);
    assert.ok('left' in end);
    for (const issuer of ['https://evil.example', undefined]) {
      const back = new URL(end.left);
      if (issuer === undefined) back.searchParams.delete('iss');
      else back.searchParams.set('iss', issuer);
      const told = await browser.copy().open(back);
      assert.ok('page' in told);
      assert.equal(told.page.status, 400);
      assert.match(told.page.html, /another identity provider/);
    }
    assert.equal(provider.tokenRequests.length, 0);
    assert.equal(end.left.searchParams.get('iss'), provider.issuer);
    const page = await browser.copy(`${url}/console`).open(end.left);
    assert.ok('left' in page);
  });

  test('asks the provider once what it is, however many begin', async (t) => {
    const { provider, signIn } = await start(t);
    await Promise.all(Array.from({ length: 5 }, () => signIn(new Browser(provider.issuer))));
    const asked = provider.requests.filter((one) => one.includes('/.well-known/oauth-authorization-server'));
    assert.equal(asked.length, 1);
  });
});
