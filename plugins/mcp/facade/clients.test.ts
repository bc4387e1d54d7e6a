import assert from 'node:assert/strict';
import net, { type AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { GuardedFetch, GuardedRequest } from '../../../core/ports/transport.ts';
import { Browser } from '../../../tests/kit/browser.ts';
import { pageOf, refusedPage, startFacade, waiting } from './facade.test-support.ts';

describe('a redirect URI', () => {
  const registered = [
    'https://app.example.com/cb',
    waiting,
    'http://[::1]/cb?kept=1',
    'com.example.app:/oauth/cb',
  ];

  test('that the application has not registered is shown a page, and sent nothing', async (t) => {
    const facade = await startFacade(t);
    const clientId = await facade.register({ redirect_uris: registered });
    for (const redirect_uri of [
      'https://evil.example.com/cb',
      'https://app.example.com/cb/more',
      'https://app.example.com/c',
      'https://app.example.com/cb?next=https://evil.example.com',
      'https://app.example.com/cb?',
      'https://app.example.com/CB',
      'HTTPS://app.example.com/cb',
      'https://app.example.com:443/cb',
      'https://app.example.com:8443/cb',
      'https://app.example.com/cb#fragment',
      'https://app.example.com/cb#',
      'https://app.example.com/x/../cb',
      'https://app.example.com/x/%2e%2e/cb',
      'https://app.example.com//cb',
      'https://app.example.com/cb%00',
      'https://app.example.com.evil.example/cb',
      'https://app.example.com@evil.example/cb',
      'https://user@app.example.com/cb',
      'https://evil.example\\@app.example.com/cb',
      'http://app.example.com/cb',
      '//app.example.com/cb',
      '/cb',
      'https://localhost:34567/callback',
      'http://127.0.0.1.evil.example:34567/callback',
      'http://127.0.0.1:34567@evil.example/callback',
      'http://evil.example#@127.0.0.1:34567/callback',
      'http://localhost:34567/callback',
      'http://127.0.0.2:34567/callback',
      'http://127.0.0.1:34567/callback/',
      'http://127.0.0.1:34567/other/../callback',
      'http://127.0.0.1:34567/callback?more',
      'http://127.0.0.1:99999/callback',
      'http://user@127.0.0.1:34567/callback',
      'http://[::1]/cb?kept=2',
      'com.example.app:/oauth/cb/more',
      'com.example.app2:/oauth/cb',
      'javascript:alert(1)',
      'data:text/html,hello',
    ])
      await refusedPage(facade, clientId, { redirect_uri }, /not registered/);
    await refusedPage(facade, clientId, { redirect_uri: undefined }, /redirect_uri is missing/);
    const twice = `${facade.authorizeUrl(clientId, 'v')}&redirect_uri=https%3A%2F%2Fevil.example%2F`;
    assert.match((await pageOf(new Browser().open(twice))).html, /more than once/);
    for (const redirect_uri of [...registered, 'http://127.0.0.1:1/callback', 'http://[::1]:8080/cb?kept=1'])
      assert.equal(
        (await pageOf(new Browser().open(facade.authorizeUrl(clientId, 'v', { redirect_uri })))).status,
        200,
        redirect_uri,
      );
  });

  test('that no application can safely have is not registered', async (t) => {
    const { post } = await startFacade(t);
    const refused = async (redirect_uris: unknown, more: object = {}) => {
      const { status, json } = await post('register', { redirect_uris, ...more });
      assert.equal(status, 400, inspect(redirect_uris).slice(0, 200));
      assert.equal(json.client_id, undefined);
      return json.error;
    };
    for (const uri of [
      'http://app.example.com/cb',
      'http://10.0.0.1/cb',
      'https://app.example.com/cb#x',
      'https://user:password@app.example.com/cb',
      'https://app.example.com/a/../cb',
      'https://app.exämple.com/cb',
      'https://app.example.com/cb\r\nset-cookie: a=b',
      'https://app.example.com/"><script>',
      'https://',
      'app.example.com/cb',
      'javascript:alert(document.domain)',
      'data:text/html,hello',
      'vbscript:x',
      'file:///etc/passwd',
      'blob:https://app.example.com/1',
      'intent://scan/#Intent;end',
    ])
      assert.equal(await refused([waiting, uri]), 'invalid_redirect_uri', uri);
    for (const value of [
      undefined,
      [],
      waiting,
      [1],
      [''],
      Array(11).fill(waiting),
      [`${waiting}${'x'.repeat(1100)}`],
    ])
      assert.equal(await refused(value), 'invalid_client_metadata');
    const long = [1, 2, 3].map((one) => `https://app.example.com/${one}${'x'.repeat(900)}`);
    assert.equal(await refused(long), 'invalid_redirect_uri', 'too long together');
    assert.equal((await post('register', '{"redirect_uris": [')).status, 400);
    assert.equal((await post('register', '[]')).status, 400);
    const large = await post(
      'register',
      JSON.stringify({ redirect_uris: [waiting], more: 'x'.repeat(33_000) }),
    );
    assert.deepEqual([large.status, large.json.error], [413, 'invalid_request']);
  });

  test('is restricted to those of the operator, also for applications that registered before', async (t) => {
    const { post } = await startFacade(t, {
      client: { redirect_uris: ['https://app.example.com/*', 'http://127.0.0.1/cb', 'cursor://one/cb'] },
    });
    const status = async (uri: string) => (await post('register', { redirect_uris: [uri] })).status;
    for (const uri of ['https://app.example.com/any/where', 'http://127.0.0.1:4000/cb', 'cursor://one/cb'])
      assert.equal(await status(uri), 201, uri);
    for (const uri of [
      'https://app.example.com',
      'https://app.example.com.evil.example/',
      'https://app.example.com@evil.example/',
      'http://127.0.0.1:4000/cb/more',
      'http://localhost/cb',
      'cursor://one/cb2',
    ])
      assert.equal(await status(uri), 400, uri);
  });
});

test('a flood of registrations holds nothing, and no application is forgotten for it', async (t) => {
  const facade = await startFacade(t);
  const { register, signIn, exchange, list } = facade;
  const first = await register();
  const ids = new Set<string>();
  for (let round = 0; round < 20; round++)
    for (const id of await Promise.all(Array.from({ length: 25 }, () => register()))) ids.add(id);
  assert.equal(ids.size, 500);
  const { json } = await exchange(await signIn({}, { clientId: first }));
  assert.deepEqual(await list(json.access_token), [200, undefined]);
  const altered = `${first.slice(0, -4)}${first.endsWith('AAAA') ? 'BBBB' : 'AAAA'}`;
  await refusedPage(facade, altered, {}, /not known here/);
});

const documentUrl = 'https://app.example.com/oauth/client.json';
const document = { client_id: documentUrl, client_name: 'App', redirect_uris: [waiting] };

describe('an application with a client-id metadata document', () => {
  /** The network has this document at every address; everything else is as it is. */
  const documents = (value: unknown, asked: string[] = []) => ({
    fetch: (request: Parameters<GuardedFetch['fetch']>[0]) => {
      asked.push(request.url);
      return {
        answer: Promise.resolve({ status: 200, headers: [], body: Buffer.from(JSON.stringify(value)) }),
        abort: () => undefined,
      };
    },
  });
  const start = async (t: Parameters<typeof startFacade>[0], value: unknown, hosts = ['app.example.com']) => {
    const asked: string[] = [];
    const facade = await startFacade(t, {
      client: { document_hosts: hosts },
      documents: documents(value, asked),
    });
    return { ...facade, asked };
  };

  test('needs no registration, and the page says whose it is', async (t) => {
    const { signIn, exchange, list, authorizeUrl, asked } = await start(t, document);
    const page = await new Browser().open(authorizeUrl(documentUrl, 'v'));
    assert.ok('page' in page);
    assert.match(page.page.html, /describes itself at app\.example\.com/);
    const { json } = await exchange(await signIn({}, { clientId: documentUrl }));
    assert.deepEqual(await list(json.access_token), [200, undefined]);
    assert.deepEqual(asked, [documentUrl], 'read once');
  });

  test('is refused when its host is not allowed, or the document is of another address or redirects elsewhere', async (t) => {
    const refused = async (value: unknown, url = documentUrl, hosts?: string[]) => {
      const { authorizeUrl, asked } = await start(t, value, hosts);
      const end = await new Browser().open(authorizeUrl(url, 'v'));
      assert.ok('page' in end && end.page.status === 400, JSON.stringify(end));
      return asked.length;
    };
    assert.equal(await refused(document, documentUrl, ['other.example.com']), 0);
    for (const url of [
      'https://app.example.com/',
      'https://app.example.com/a/../oauth/client.json',
      'https://user@app.example.com/oauth/client.json',
      'https://app.example.com/oauth/client.json#x',
      'http://app.example.com/oauth/client.json',
      'https://app.example.com:99999/oauth/client.json',
    ])
      assert.equal(await refused(document, url), 0, url);
    assert.equal(await refused({ ...document, client_id: `${documentUrl}2` }), 1);
    assert.equal(await refused({ ...document, redirect_uris: ['https://elsewhere.example.com/'] }), 1);
    assert.equal(await refused({ ...document, redirect_uris: ['javascript:alert(1)', waiting] }), 1);
    assert.equal(await refused('no document'), 1);
  });
});

describe('a client-id metadata document', () => {
  test('at a private address is not fetched', async (t) => {
    let connections = 0;
    const server = net.createServer((socket) => {
      connections += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    const facade = await startFacade(t, { client: { document_hosts: ['*'] } });
    for (const url of [
      `https://127.0.0.1:${port}/client.json`,
      `https://localhost:${port}/client.json`,
      'https://169.254.169.254/latest/meta-data',
      'https://10.0.0.1/client.json',
      'https://0.0.0.0/client.json',
    ])
      await refusedPage(facade, url, {}, /not known here/);
    assert.equal(connections, 0);
    const token = await facade.token({
      ...{ grant_type: 'authorization_code', client_id: `https://127.0.0.1:${port}/client.json` },
      ...{ code: 'x', code_verifier: 'v' },
    });
    assert.deepEqual([token.status, token.json.error, connections], [401, 'invalid_client', 0]);
  });

  /** A network in which every https address answers so. */
  function documents(answer: () => Promise<{ status: number; body: string }>) {
    const asked: GuardedRequest[] = [];
    const network: GuardedFetch = {
      fetch(request) {
        asked.push(request);
        const received = answer().then(({ status, body }) => ({
          ...{ status, headers: ['location', documentUrl] },
          body: Buffer.from(body),
        }));
        return { answer: received, abort: () => undefined };
      },
    };
    return { asked, network };
  }

  test('that redirects, is too large, is late, or is none makes no application', async (t) => {
    const text = JSON.stringify(document);
    const answers: (() => Promise<{ status: number; body: string }>)[] = [
      () => Promise.resolve({ status: 302, body: text }),
      () => Promise.resolve({ status: 404, body: text }),
      () => Promise.resolve({ status: 200, body: `${text.slice(0, -1)}` }),
      () => Promise.resolve({ status: 200, body: '[]' }),
      () => Promise.resolve({ status: 200, body: JSON.stringify({ ...document, client_id: undefined }) }),
      () =>
        Promise.resolve({ status: 200, body: JSON.stringify({ ...document, client_id: `${documentUrl}/` }) }),
      () => Promise.reject(new GatewayError('fetch_failed', 'The answer is larger than 16384 bytes.')),
    ];
    for (const answer of answers) {
      const { asked, network } = documents(answer);
      const facade = await startFacade(t, { client: { document_hosts: ['*'] }, documents: network });
      await refusedPage(facade, documentUrl, {}, /not known here/);
      await refusedPage(facade, documentUrl, {}, /not known here/);
      assert.equal(asked.length, 1, 'a failure is kept for a while');
      assert.deepEqual([asked[0]?.maxRedirects, asked[0]?.maxBytes, asked[0]?.timeoutMs], [0, 16_384, 5000]);
    }
  });

  test('is fetched once for all who ask at the same time, and few are fetched at once', async (t) => {
    const open: (() => void)[] = [];
    const { asked, network } = documents(
      () =>
        new Promise((resolve) =>
          open.push(() => {
            resolve({ status: 404, body: '' });
          }),
        ),
    );
    const facade = await startFacade(t, { client: { document_hosts: ['*'] }, documents: network });
    const pages = Array.from({ length: 40 }, (_, index) =>
      fetch(facade.authorizeUrl(`https://app.example.com/${Math.floor(index / 2)}.json`, 'v')),
    );
    await Promise.race(pages.slice(-1));
    assert.equal(asked.length, 16);
    for (const end of open) end();
    for (const page of pages) assert.equal((await page).status, 400);
    assert.equal(asked.length, 16);
  });
});
