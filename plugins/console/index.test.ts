import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Answer } from '../../core/pipeline/plugin.ts';
import auth from '../auth/index.ts';
import management from '../management/index.ts';
import { startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { TestContext as TestRequestContext, testKey } from '../../tests/kit/plugin-kit.ts';
import consolePlugin, { ConsoleFiles } from './index.ts';

async function serving(t: TestContext, server: TestGatewayOptions['server'] = {}) {
  const { url } = await startTestGateway(t, {
    server,
    keys: { wk_ann: testKey({ id: 'ann', scopes: ['logs.list'] }) },
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: [auth, management] },
      { name: 'console', match: { path: '/console/**' }, plugins: [consolePlugin] },
    ],
  });
  const post = (body: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${url}/console/session`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json', ...headers },
    });
  return { url, post };
}

describe('the session of a browser', () => {
  test('begins with a credential, is judged by it at each request, and ends', async (t) => {
    const { url, post } = await serving(t);
    const begun = await post('{"credential":" wk_ann "}');
    const { session } = (await begun.json()) as { session: { csrf: string; expires_at: string } };
    const [cookie = ''] = begun.headers.getSetCookie()[0]?.split(';') ?? [];
    assert.equal(begun.headers.get('cache-control'), 'no-store');
    const me = await fetch(`${url}/v1/me`, { headers: { cookie, 'x-service-csrf': session.csrf } });
    const caller = (await me.json()) as { id: string; scopes: string[] };
    assert.equal(caller.id, 'ann');
    assert.deepEqual(caller.scopes, ['logs.list']);
    const shown = await fetch(`${url}/console/session`, { headers: { cookie } });
    assert.deepEqual(await shown.json(), { session });
    const ended = await fetch(`${url}/console/session`, { method: 'DELETE', headers: { cookie } });
    assert.match(ended.headers.getSetCookie()[0] ?? '', /Max-Age=0/);
  });

  test('is not begun or ended by a page of another origin', async (t) => {
    const { url, post } = await serving(t);
    const origin = 'https://evil.example';
    assert.equal((await post('{"credential":"wk_ann"}', { origin })).status, 403);
    assert.equal((await post('{"credential":"wk_ann"}', { 'content-type': 'text/plain' })).status, 400);
    const ended = await fetch(`${url}/console/session`, { method: 'DELETE', headers: { origin } });
    assert.equal(ended.status, 403);
    assert.deepEqual(ended.headers.getSetCookie(), []);
  });

  test('of a made-up cookie is none, and says so', async (t) => {
    const { url } = await serving(t);
    const cookie = 'weir-console=v1.abc.def.ghi';
    const shown = await fetch(`${url}/console/session`, { headers: { cookie } });
    assert.deepEqual(await shown.json(), { session: null });
    const me = await fetch(`${url}/v1/me`, { headers: { cookie, 'x-service-csrf': 'x' } });
    assert.equal(me.status, 401);
    assert.match(await me.text(), /Sign in again/);
  });

  test('with TLS is that of a cookie which no other host of the domain can set', async (t) => {
    const host = 'weir.example.com';
    const { url } = await serving(t, { public_url: `https://${host}` });
    const ask = (path: string, headers: Record<string, string>, method = 'GET', body?: unknown) =>
      send(url, { path, method, headers: { host, 'content-type': 'application/json', ...headers }, body });
    const begun = await ask('/console/session', {}, 'POST', { credential: 'wk_ann' });
    const { csrf } = begun.json().session;
    const [own = ''] = begun.headers['set-cookie']?.[0]?.split(';') ?? [];
    const planted = own.replace('__Host-', '');
    for (const [cookie, status] of [
      [own, 200],
      [planted, 401],
    ] as const) {
      assert.equal((await ask('/v1/me', { cookie, 'x-service-csrf': csrf })).status, status, cookie);
      const { session } = (await ask('/console/session', { cookie })).json();
      assert.equal(session !== null, status === 200, cookie);
    }
  });

  test('wants a body that fits', async (t) => {
    const { post } = await serving(t);
    for (const body of [
      '',
      '{}',
      '{"credential":7}',
      `{"credential":"${'x'.repeat(9000)}"}`,
      'x'.repeat(20_000),
    ]) {
      const answer = await post(body);
      assert.equal(answer.status, 400, body.slice(0, 20));
      assert.match(await answer.text(), /credential/);
    }
    assert.equal((await post(`{"credential":"${'x'.repeat(4000)}"}`)).status, 400);
  });
});

function textOf(answer: Answer | undefined): string {
  return Buffer.isBuffer(answer?.body) ? answer.body.toString() : '';
}

describe('the files of the console', () => {
  async function built(t: TestContext): Promise<ConsoleFiles> {
    const folder = await mkdtemp(path.join(tmpdir(), 'weir-console-'));
    t.after(() => rm(folder, { recursive: true, force: true }));
    await mkdir(path.join(folder, 'assets'));
    await writeFile(
      path.join(folder, 'index.html'),
      '<script nonce="%NONCE%"></script><script>"%FACTS%"</script>',
    );
    await writeFile(path.join(folder, 'assets', 'index-AbC.js'), 'plain');
    await writeFile(path.join(folder, 'assets', 'index-AbC.js.br'), 'small');
    await writeFile(path.join(folder, 'secret.txt'), 'not an asset');
    return new ConsoleFiles(pathToFileURL(`${folder}/`));
  }
  const get = (place: string, headers: Record<string, string> = {}) =>
    new TestRequestContext({ method: 'GET', path: place, headers });

  test('are compressed for browsers that can read them, and kept for ever', async (t) => {
    const files = await built(t);
    const small = await files.asset(get('/console/assets/index-AbC.js', { 'accept-encoding': 'gzip, br' }));
    assert.equal(textOf(small), 'small');
    assert.ok(small?.headers.includes('br') && small.headers.some((one) => one.includes('immutable')));
    const plain = await files.asset(get('/console/assets/index-AbC.js'));
    assert.equal(textOf(plain), 'plain');
  });

  test('are those of one folder: no path leads out of it', async (t) => {
    const files = await built(t);
    for (const place of [
      '/console/assets/../secret.txt',
      '/console/assets/..%2fsecret.txt',
      '/console/secret.txt',
    ])
      assert.equal(await files.asset(get(place)), undefined, place);
    assert.equal((await files.asset(get('/console/assets/gone.js')))?.status, 404);
  });

  test('of the page have a new nonce each time, and facts that cannot end the script', async (t) => {
    const files = await built(t);
    const facts = { signIn: '</script><script>alert(1)</script>' };
    const [one, two] = [await files.page(facts), await files.page(facts)];
    assert.notEqual(textOf(one), textOf(two));
    assert.equal(textOf(one).split('<script').length - 1, 2);
    const nonce = /nonce="([^"]+)"/.exec(textOf(one))?.[1] ?? '';
    assert.ok(one.headers.some((header) => header.includes(`script-src 'nonce-${nonce}' 'strict-dynamic'`)));
  });

  test('that are not built yet are waited for', async () => {
    const page = await new ConsoleFiles(new URL('file:///nowhere/at/all/')).page({});
    assert.equal(page.status, 503);
    assert.match(textOf(page), /not built yet/);
  });
});
