import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { Browser } from '../../../tests/kit/browser.ts';
import { type Facade, pageOf, refusedPage, requestOf, startFacade, waiting } from './facade.test-support.ts';

type Changed = Record<string, string | undefined>;

test('PKCE with S256 is not left out, and not weakened', async (t) => {
  const facade = await startFacade(t);
  const clientId = await facade.register();
  const weakened: Changed[] = [
    { code_challenge: undefined, code_challenge_method: undefined },
    { code_challenge: undefined },
    { code_challenge_method: undefined },
    { code_challenge_method: 'plain' },
    { code_challenge_method: 's256' },
    { code_challenge: 'short' },
    { code_challenge: 'v'.repeat(44) },
  ];
  for (const changed of weakened)
    await refusedPage(facade, clientId, changed, /PKCE|code_challenge is missing/);
  await refusedPage(facade, clientId, { response_type: 'token' }, /response_type/);
  const signedIn = await facade.signIn({}, { clientId });
  for (const code_verifier of ['w'.repeat(43), signedIn.verifier.toUpperCase(), 'v']) {
    const { status, json } = await facade.exchange(signedIn, { code_verifier });
    assert.deepEqual([status, json.error], [400, 'invalid_grant']);
  }
  const none = await facade.exchange(signedIn, { code_verifier: '' });
  assert.deepEqual([none.status, none.json.error], [400, 'invalid_request']);
  assert.equal((await facade.exchange(signedIn)).status, 200);
});

describe('a code', () => {
  const refused = async (answer: ReturnType<Facade['exchange']>, error = 'invalid_grant') => {
    const { status, json } = await answer;
    assert.deepEqual([status, json.error, json.access_token], [400, error, undefined]);
  };
  const tokenRequests = ({ provider }: Facade) =>
    provider.requests.filter((one) => one === 'POST /token').length;

  test('is good once', async (t) => {
    const facade = await startFacade(t);
    const signedIn = await facade.signIn();
    const answers = await Promise.all([1, 2, 3, 4].map(() => facade.exchange(signedIn)));
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 400, 400, 400]);
    await refused(facade.exchange(signedIn));
    assert.equal(tokenRequests(facade), 1, 'the provider sees it once');
  });

  test('is of no use to another application, with another redirect URI, or for another server', async (t) => {
    const facade = await startFacade(t);
    const signedIn = await facade.signIn();
    const other = await facade.register({ client_name: 'Other' });
    await refused(facade.exchange(signedIn, { client_id: other }));
    await refused(facade.exchange(signedIn, { redirect_uri: 'http://127.0.0.1:34568/callback' }));
    await refused(facade.exchange(signedIn, { redirect_uri: '' }));
    assert.equal(tokenRequests(facade), 0);
    const elsewhere = facade.exchange(signedIn, { resource: `${facade.gateway.url}/crm/mcp` });
    await refused(elsewhere, 'invalid_target');
    const again = await facade.signIn();
    const { json } = await facade.exchange(again);
    assert.deepEqual(await facade.list(json.access_token, '/crm/mcp'), [401, 'token_invalid']);
  });

  test('is good for two minutes, and nothing else is a code', async (t) => {
    const facade = await startFacade(t);
    const signedIn = await facade.signIn();
    const { json } = await facade.exchange(await facade.signIn({}, { clientId: signedIn.clientId }));
    const page = await pageOf(new Browser().open(facade.authorizeUrl(signedIn.clientId, signedIn.verifier)));
    const request = requestOf(page);
    const { code } = signedIn;
    for (const changed of [
      json.refresh_token ?? '',
      request,
      signedIn.clientId,
      `${code.slice(0, -2)}${code.endsWith('AA') ? 'BB' : 'AA'}`,
      code.slice(1),
      'x',
      'x'.repeat(30_000),
    ]) {
      const { status } = await facade.exchange(signedIn, { code: changed });
      assert.equal(status, 400, changed.slice(0, 20));
    }
    facade.time.passed += 120_000;
    await refused(facade.exchange(signedIn));
    assert.equal(tokenRequests(facade), 1);
  });
});

describe('a refresh token', () => {
  test('is of no use to another application, for another server, or with more rights', async (t) => {
    const facade = await startFacade(t);
    const signedIn = await facade.signIn();
    const { json } = await facade.exchange(signedIn);
    const renew = (changed: Record<string, string>) =>
      facade.token({
        ...{ grant_type: 'refresh_token', client_id: signedIn.clientId },
        ...{ refresh_token: json.refresh_token ?? '', ...changed },
      });
    const refusals: [Record<string, string>, string][] = [
      [{ client_id: await facade.register() }, 'invalid_grant'],
      [{ resource: `${facade.gateway.url}/crm/mcp` }, 'invalid_target'],
      [{ scope: 'mcp.invoke admin' }, 'invalid_scope'],
      [{ refresh_token: signedIn.code }, 'invalid_grant'],
      [{ grant_type: 'client_credentials' }, 'unsupported_grant_type'],
      [{ grant_type: 'password', username: 'ada', password: 'any' }, 'unsupported_grant_type'],
    ];
    for (const [changed, error] of refusals) {
      const answer = await renew(changed);
      assert.deepEqual([answer.status, answer.json.error], [400, error], JSON.stringify(changed));
    }
    const unknown = await renew({ client_id: 'no-such-client' });
    assert.deepEqual([unknown.status, unknown.json.error], [401, 'invalid_client']);
    const twice = new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: json.refresh_token ?? '',
    });
    for (const id of [signedIn.clientId, await facade.register()]) twice.append('client_id', id);
    assert.equal((await facade.post('token', twice)).json.error, 'invalid_request');
    assert.equal((await renew({})).status, 200);
  });
});

describe('the consent of the user', () => {
  /** The page that asks about an application, in this browser. */
  const asked = (facade: Facade, browser: Browser, clientId: string, changed: Changed = {}) =>
    pageOf(browser.open(facade.authorizeUrl(clientId, 'v'.repeat(43), changed)));
  const decide = (facade: Facade, browser: Browser, request: string, init: RequestInit = {}) =>
    pageOf(
      browser.open(facade.at('authorize'), {
        method: 'POST',
        body: new URLSearchParams({ request, decision: 'allow' }),
        ...init,
      }),
    );

  test('to one application is none to another, nor to the same one the next time', async (t) => {
    const facade = await startFacade(t);
    const browser = new Browser(waiting);
    const { clientId } = await facade.signIn({}, { browser });
    const before = facade.provider.requests.length;
    const evil = await facade.register({
      client_name: 'Agent',
      redirect_uris: ['https://evil.example.com/cb'],
    });
    const page = await asked(facade, browser, evil, { redirect_uri: 'https://evil.example.com/cb' });
    assert.match(page.html, /<dd>evil\.example\.com<\/dd>/);
    assert.match(page.html, /<form/);
    for (const changed of [{}, { prompt: 'none' }, { state: 'other' }])
      assert.match((await asked(facade, browser, clientId, changed)).html, /<form/, JSON.stringify(changed));
    assert.equal(facade.provider.requests.length, before, 'the provider would have asked nothing');
  });

  test('is given by the button of that page alone', async (t) => {
    const facade = await startFacade(t);
    const clientId = await facade.register();
    const browser = new Browser(waiting);
    const request = requestOf(await asked(facade, browser, clientId));
    const evil = requestOf(await asked(facade, new Browser(), clientId));
    const strangers: [string, Promise<{ status: number }>][] = [
      ['without cookies', decide(facade, new Browser(waiting), request)],
      ['the page of another browser', decide(facade, browser, evil)],
      ['altered', decide(facade, browser, `${request.slice(0, -2)}AA`)],
      ['nothing', decide(facade, browser, '')],
      ['a registration', decide(facade, browser, clientId)],
      [
        'a form of another site',
        decide(facade, browser, request, { headers: { origin: 'https://evil.example.com' } }),
      ],
      ['a form without an origin', decide(facade, browser, request, { headers: { origin: 'null' } })],
    ];
    for (const [who, page] of strangers) assert.equal((await page).status, 400, who);
    const link = `${facade.authorizeUrl(clientId, 'v')}&decision=allow&request=${request}`;
    assert.match((await pageOf(browser.open(link))).html, /<form/, 'a link decides nothing');
    assert.deepEqual(facade.provider.requests, []);
    facade.time.passed += 600_000;
    assert.equal((await decide(facade, browser, request)).status, 400, 'too late');
  });

  test('cannot be asked for in a frame, and the page runs nothing', async (t) => {
    const facade = await startFacade(t);
    const page = await asked(facade, new Browser(), await facade.register());
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe-inline|script-src/);
    assert.equal(page.headers.get('x-frame-options'), 'DENY');
    assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
    const error = await fetch(facade.at('authorize'));
    assert.equal(error.headers.get('x-frame-options'), 'DENY', 'pages of refusals, too');
  });

  test('names nobody by what the application has written', async (t) => {
    const facade = await startFacade(t);
    const name = `"><img src=x onerror=alert(1)>&lt;\u202eeliforp\u0000 ${'long '.repeat(100)}`;
    const clientId = await facade.register({ client_name: name, logo_uri: 'https://evil.example.com/x.png' });
    const { html } = await asked(facade, new Browser(), clientId);
    assert.ok(!html.includes('<img') && !html.includes('evil.example.com'), html);
    assert.ok(!html.includes('\u202e') && !html.includes('\u0000'));
    assert.match(html, /&#34;&#62;&#60;img src=x onerror=alert\(1\)&#62;&#38;lt;/);
    assert.ok(!html.includes('long '.repeat(30)), 'and no more than 100 characters');
    assert.match(html, /it is not checked/);
  });
});

describe('the return from the provider', () => {
  /** The address at which the provider sends the browser back, which does not open it. */
  async function returning(facade: Facade, browser: Browser): Promise<URL> {
    const end = await browser.agree(facade.authorizeUrl(await facade.register(), 'v'.repeat(43)));
    assert.ok('left' in end);
    return end.left;
  }
  const begin = async (t: TestContext) => {
    const facade = await startFacade(t);
    const browser = new Browser(facade.at('callback'));
    const back = await returning(facade, browser);
    const follow = new Browser(waiting);
    return { facade, back, own: browser.copy(waiting), follow };
  };
  const changed = (url: URL, name: string, value: string | undefined): string => {
    const copy = new URL(url);
    if (value === undefined) copy.searchParams.delete(name);
    else copy.searchParams.set(name, value);
    return copy.href;
  };

  test('is for the browser that began, with the state as it left, from the provider that was asked', async (t) => {
    const { facade, back, own, follow } = await begin(t);
    const state = back.searchParams.get('state') ?? '';
    const request = requestOf(await pageOf(own.open(facade.authorizeUrl(await facade.register(), 'v'))));
    const other = await returning(facade, new Browser(facade.at('callback')));
    const attempts: [string, Promise<{ status: number }>][] = [
      ['another browser', pageOf(follow.open(back))],
      ['no state', pageOf(own.open(changed(back, 'state', undefined)))],
      ['an altered state', pageOf(own.open(changed(back, 'state', `${state.slice(0, -2)}AA`)))],
      ['the request of a page', pageOf(own.open(changed(back, 'state', request)))],
      [
        'the state of another walk',
        pageOf(own.open(changed(back, 'state', other.searchParams.get('state') ?? ''))),
      ],
      ['another issuer', pageOf(own.open(changed(back, 'iss', 'https://evil.example.com')))],
      ['no issuer', pageOf(own.open(changed(back, 'iss', undefined)))],
      ['two states', pageOf(own.open(`${back.href}&state=${state}`))],
    ];
    for (const [what, page] of attempts) assert.equal((await page).status, 400, what);
  });

  test('is followed once', async (t) => {
    const { back, own } = await begin(t);
    const end = await own.open(back);
    assert.ok('left' in end);
    assert.equal(end.left.searchParams.get('state'), 'state of the application');
    assert.ok(!end.left.href.includes(back.searchParams.get('code') ?? '-'), 'not the code of the provider');
    assert.equal((await pageOf(own.open(back))).status, 400);
  });

  test('is too late after ten minutes', async (t) => {
    const { facade, back, own } = await begin(t);
    facade.time.passed += 600_000;
    assert.equal((await pageOf(own.open(back))).status, 400);
  });
});
