import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { createGuardedFetch } from '../../adapters/guarded-fetch/guarded-fetch.ts';
import { forged, sign, signingKey, startKeyServer } from '../../adapters/tokens/issuer.test-support.ts';
import { systemClock } from '../../core/ports/clock.ts';
import type { AuditEntry, Resources, ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import { readFeatures } from '../../core/access/features.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import { testScope } from '../../tests/kit/plugin-kit.ts';
import management from '../management/index.ts';
import policies from '../policies/index.ts';
import auth from './index.ts';

const key = await signingKey('RS256', 'main');
const inAnHour = Math.floor(Date.now() / 1000) + 3600;
const tokenOf = (claims: Record<string, unknown> = {}) =>
  sign(key, { exp: inAnHour, iss: 'id', sub: 'ada', email_id: 'ada@example.com', ...claims });

/** A gateway that takes tokens, in front of a provider and of a store that keeps the audit trail alone. */
async function start(t: TestContext, environment: Record<string, string> = {}) {
  const issuer = await startKeyServer(t, key);
  const provider = await startUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"id":"answer"}');
  });
  const entries: AuditEntry[] = [];
  const audit = { appendRefused: (entry: AuditEntry) => Promise.resolve(void entries.push(entry)) };
  const workspaces = { find: () => Promise.resolve(undefined) };
  const resources: Partial<Resources> = {
    read: (work) => work({ workspaces } as unknown as ResourcesReader),
    write: (_, work) => work({ audit } as unknown as ResourcesWriter),
  };
  const guarded = { plugin: auth, options: { jwt: { jwks_url: issuer.url } } };
  const gateway = await startTestGateway(t, {
    providers: { up: { base_url: provider.url, api_key: 'held' } },
    guardedFetch: createGuardedFetch({
      log: testScope().scope.log,
      clock: systemClock,
      trustedHosts: [issuer.host],
    }),
    resources: resources as Resources,
    features: readFeatures(environment),
    server: { trusted_proxies: ['loopback'] },
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: [guarded, management] },
      { match: { path: '/**' }, plugins: [guarded, policies, providerPlugin({ default: 'up' })] },
    ],
  });
  const chat = (headers: Record<string, string>) =>
    send(gateway.url, {
      method: 'POST',
      path: '/v1/chat/completions',
      headers,
      body: { model: 'm', messages: [{ role: 'user', content: 'a prompt' }] },
    });
  const untilAudited = async (count: number): Promise<readonly AuditEntry[]> => {
    while (entries.length < count) await new Promise((resolve) => setTimeout(resolve, 20));
    return entries;
  };
  return { gateway, issuer, provider, chat, entries, untilAudited };
}

test('a token sends requests, lists what is administered, and creates no workspace', async (t) => {
  const { gateway, issuer, provider, chat, untilAudited } = await start(t);
  const token = await tokenOf();
  for (const [name, value] of [
    ['authorization', `Bearer ${token}`],
    ['x-portkey-api-key', token],
  ] as const) {
    const answer = await chat({ [name]: value });
    assert.deepEqual([answer.status, answer.json()], [200, { id: 'answer' }], answer.text);
  }
  for (const { headers } of provider.requests) {
    assert.equal(headers.authorization, 'Bearer held');
    assert.ok(!JSON.stringify(headers).includes(token), 'the token stays here');
  }
  const headers = { 'x-service-api-key': token };
  const list = await send(gateway.url, { method: 'GET', path: '/v1/admin/workspaces', headers });
  assert.deepEqual([list.status, list.json()], [200, { object: 'list', total: 0, data: [] }], list.text);
  const create = { method: 'POST', path: '/v1/admin/workspaces', headers, body: { name: 'Mine' } };
  const refused = await send(gateway.url, create);
  assert.equal(refused.status, 403);
  assert.match(refused.json().data.message, /"ada@example\.com" lacks the scope "workspaces\.create"/);
  assert.equal(issuer.asked, 2, 'once for each pipeline');

  const [entry] = await untilAudited(1);
  assert.ok(entry);
  assert.deepEqual(
    [entry.actorType, entry.actorId, entry.actorName, entry.action, entry.resourceType, entry.status],
    ['user', 'ada@example.com', 'ada@example.com', 'create', 'workspaces', 403],
  );
  const details = JSON.parse(entry.details);
  assert.match(details.api_key_id, /^jwt:/);
  assert.equal(details.error.code, 'scope_missing');
});

test('a token that is refused is written down, wherever it was sent', async (t) => {
  const { gateway, chat, untilAudited } = await start(t);
  const wrong = forged(await tokenOf());
  const headers = { 'x-forwarded-for': '1.1.1.1, 203.0.113.7' };
  const asked = await chat({ ...headers, authorization: `Bearer ${wrong}` });
  assert.equal(asked.status, 401);
  assert.equal(asked.json().error.code, 'token_invalid');
  const admin = await send(gateway.url, {
    method: 'GET',
    path: '/v1/admin/workspaces',
    headers: { ...headers, 'x-service-api-key': wrong },
  });
  assert.deepEqual([admin.status, admin.json().data.errorCode], [401, 'AB05']);
  const entries = await untilAudited(2);
  for (const entry of entries) {
    assert.deepEqual(
      [entry.organisationId, entry.actorId, entry.action, entry.resourceType, entry.status, entry.clientIp],
      ['default-org', '', 'verify', 'tokens', 401, '203.0.113.7'],
    );
    assert.match(JSON.parse(entry.details).error.message, /signature that is not of the key/);
    assert.ok(!entry.details.includes(wrong) && !entry.details.includes('a prompt'), entry.details);
  }
  assert.deepEqual(entries.map(({ uri }) => uri).sort(), ['/v1/admin/workspaces', '/v1/chat/completions']);
});

test('a request to a provider without the scope for it is written down, without its body', async (t) => {
  const { chat, provider, untilAudited } = await start(t);
  const answer = await chat({ authorization: `Bearer ${await tokenOf({ scope: 'logs.view' })}` });
  assert.deepEqual([answer.status, answer.json().error.code], [403, 'scope_missing'], answer.text);
  const [entry] = await untilAudited(1);
  assert.deepEqual(
    [entry?.actorId, entry?.action, entry?.resourceType, entry?.status, entry?.uri, provider.requests.length],
    ['ada@example.com', 'send', 'requests', 403, '/v1/chat/completions', 0],
  );
  assert.ok(!entry?.details.includes('a prompt'));
});

test('nothing is written down while the audit trail is switched off', async (t) => {
  const { gateway, chat, entries } = await start(t, { AUDIT_LOGS_ENABLED: 'OFF' });
  assert.equal((await chat({ authorization: `Bearer ${forged(await tokenOf())}` })).status, 401);
  await gateway.untilSettled();
  await gateway.server.close(0);
  assert.deepEqual(entries, []);
});

test('while no keys can be read, tokens are refused with 503 and keys of other kinds are not', async (t) => {
  const { issuer, chat } = await start(t);
  issuer.answer = 500;
  const answer = await chat({ authorization: `Bearer ${await tokenOf()}` });
  assert.deepEqual([answer.status, answer.json().error.code], [503, 'token_keys_unavailable']);
  assert.equal(answer.headers['retry-after'], '5');
  assert.equal((await chat({})).json().error.code, 'key_missing');
});

test('limits in the claims of a token hold for its bearer, whichever token they show', async (t) => {
  const { chat } = await start(t);
  const ask = async (claims: Record<string, unknown>) => {
    const answer = await chat({ authorization: `Bearer ${await tokenOf(claims)}` });
    return [answer.status, answer.json().error?.code];
  };
  const budget = (limit: number) => ({ usage_limits: [{ type: 'requests', credit_limit: limit }] });
  assert.deepEqual(await ask(budget(1)), [200, undefined]);
  assert.deepEqual(await ask(budget(1)), [412, 'budget_exhausted']);
  assert.deepEqual(await ask({ ...budget(2), jti: 'another token' }), [200, undefined]);
  assert.deepEqual(await ask(budget(2)), [412, 'budget_exhausted']);
  assert.deepEqual(await ask({ sub: 'bob', ...budget(1) }), [200, undefined]);
  const rate = { sub: 'eve', rate_limits: [{ type: 'requests', unit: 'rpm', value: 1 }] };
  assert.deepEqual(await ask(rate), [200, undefined]);
  assert.deepEqual(await ask(rate), [429, 'rate_limited']);
  for (const claims of [{}, { usage_limits: null, rate_limits: [] }, { usage_limits: {} }])
    assert.deepEqual(await ask(claims), [200, undefined]);
});

test('a limit that cannot be read refuses the token, and names the claim', async (t) => {
  const { chat } = await start(t);
  const cases: [object, RegExp][] = [
    [{ usage_limits: { credit_limit: -1 } }, /"usage_limits" that cannot be read \(\/credit_limit\)/],
    [{ usage_limits: 'all' }, /"usage_limits" that cannot be read/],
    [{ usage_limits: { credit_limit: 5, alert_threshold: 5 } }, /must be below credit_limit/],
    [
      { rate_limits: [{ type: 'requests', unit: 'rpy', value: 1 }] },
      /"rate_limits" that cannot be read \(\/0\/unit\)/,
    ],
  ];
  for (const [claims, message] of cases) {
    const answer = await chat({ authorization: `Bearer ${await tokenOf({ ...claims })}` });
    assert.deepEqual([answer.status, answer.json().error.code], [401, 'token_invalid']);
    assert.match(answer.json().error.message, message);
  }
});
