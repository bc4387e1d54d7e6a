import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createGuardedFetch } from '../../../adapters/guarded-fetch/guarded-fetch.ts';
import { systemClock } from '../../../core/ports/clock.ts';
import { secretContext } from '../../../core/ports/secret-managers.ts';
import { withoutStore } from '../../../core/organisation/without-store.ts';
import { compileSchema } from '../../../core/config/ajv.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../../tests/kit/http-kit.ts';
import { TestClock, testKey, testScope } from '../../../tests/kit/plugin-kit.ts';
import { testSecrets } from '../../../tests/kit/test-secrets.ts';
import auth from '../../auth/index.ts';
import { judge, subject } from '../checks/subject.test-support.ts';
import guardrails from '../index.ts';
import { serviceChecks, ServicesSchema, withOperatorSettings } from './index.ts';

const lasso = serviceChecks.find(({ id }) => id === 'lasso.classify');
assert.ok(lasso);
const { log } = testScope().scope;

/** A service that passes everything, and a gateway that may ask it. */
async function guarded(t: TestContext, options: TestGatewayOptions = {}, operator?: object) {
  const service = await startUpstream(t, (_, response) =>
    response.end(JSON.stringify({ deputies: {}, violations_detected: false })),
  );
  const services = operator === undefined ? undefined : { lasso: { base_url: service.url, ...operator } };
  const gateway = await startTestGateway(t, {
    plugins: [
      { plugin: auth, options: {} },
      { plugin: guardrails, options: services === undefined ? {} : { services } },
      providerPlugin({ default: 'mock' }),
    ],
    keys: { wk_a: testKey() },
    guardedFetch: createGuardedFetch({ log, clock: systemClock, trustedHosts: [service.host] }),
    ...options,
  });
  const ask = (guardrail: unknown) =>
    send(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-service-api-key': 'wk_a',
        'x-service-config': JSON.stringify({ provider: 'mock', input_guardrails: [guardrail] }),
      },
      body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] }),
    });
  const sent = () => service.requests.map(({ headers }) => headers['lasso-api-key']);
  return { ask, sent, service };
}

describe('what the operator says of a service', () => {
  test('is what its checks begin with', async (t) => {
    const { ask, sent } = await guarded(t, {}, { credentials: { apiKey: 'of-the-operator' } });
    const answer = await ask({ 'lasso.classify': {}, deny: true });
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(sent(), ['of-the-operator']);
    assert.ok(!answer.text.includes('of-the-operator'));
  });

  test('gives no credentials to an address of somebody else, nor beside others', () => {
    const operator = { lasso: { base_url: 'https://a.example.com', credentials: { apiKey: 'mine' } } };
    const given = (parameters: Parameters<typeof withOperatorSettings>[0]['parameters']) =>
      withOperatorSettings({ id: 'lasso.classify', parameters }, operator);
    assert.deepEqual(given({ baseURL: 'https://b.example.com' }), { baseURL: 'https://b.example.com' });
    assert.deepEqual(given({ credentials: { apiKey: 'theirs' } }), {
      baseURL: 'https://a.example.com',
      credentials: { apiKey: 'theirs' },
    });
    assert.deepEqual(withOperatorSettings({ id: 'exa.online', parameters: {} }, operator), {});
  });

  test('has a schema: services, credentials and members that do not exist are refused', () => {
    const issues = (value: unknown) =>
      compileSchema(ServicesSchema, { all: true })(value).map(({ path }) => path);
    assert.deepEqual(issues({ azure: { credentials: { pii: { resourceName: 'x', apiKey: 'y' } } } }), []);
    assert.deepEqual(issues({ lassoo: {} }), ['/lassoo']);
    assert.deepEqual(issues({ lasso: { credentials: { key: 'x' } } }).length > 0, true);
    assert.deepEqual(issues({ lasso: { base_url: 'x' } }), ['/lasso/base_url']);
  });
});

test('without credentials a check cannot judge, and says what is missing', async (t) => {
  const { ask, sent } = await guarded(t, {}, {});
  const answer = await ask({ 'lasso.classify': {}, deny: true });
  assert.equal(answer.status, 446);
  assert.match(answer.text, /the check has no credentials.apiKey; give them to the check, or to the plugin/);
  assert.deepEqual(sent(), []);
});

test('credentials of a stored guardrail are opened for the service alone', async (t) => {
  const id = 'guardrail-1';
  const field = 'checks.1.credentials';
  const record = {
    kind: 'guardrail' as const,
    id,
    organisationId: 'org-1',
    workspaceId: undefined,
    slug: 'checked',
    name: 'Checked',
    status: 'active' as const,
    parentId: '',
    data: {
      checks: ['default.notNull', 'lasso.classify'].map((check) => ({
        id: check,
        name: check,
        isEnabled: true,
        parameters: {},
      })),
      actions: { deny: true },
    },
    secrets: {
      [field]: testSecrets.seal(JSON.stringify({ apiKey: 'sealed-key' }), secretContext(id, field)),
    },
    createdBy: '',
    updatedBy: '',
    createdAt: 0,
    updatedAt: 0,
    version: 1,
  };
  const { ask, sent } = await guarded(
    t,
    {
      directory: {
        ...withoutStore,
        standing: () => 'current',
        record: ((kind: string, _: unknown, name: string) =>
          kind === 'guardrail' && name === 'checked' ? record : undefined) as never,
      },
    },
    {},
  );
  const answer = await ask('checked');
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(sent(), ['sealed-key']);
  assert.ok(!answer.text.includes('sealed-key'));
});

describe('a credential that stands elsewhere', () => {
  const reference = (more: object = {}) => ({
    slug: 'lasso-key',
    data: {
      allowAllWorkspaces: true,
      allowedWorkspaces: [],
      allowedHosts: ['server.lasso.security'],
      ...more,
    },
  });
  const scopeOf = (found: object | undefined) => {
    const sent: unknown[] = [];
    const { scope } = testScope();
    return {
      sent,
      scope: {
        ...scope,
        clock: new TestClock(),
        directory: { ...scope.directory, record: (() => found) as never },
        secretManagers: { refusal: () => undefined, value: () => 'from-the-vault' },
        guardedFetch: {
          fetch: ({ url, headers }: { url: string; headers?: readonly string[] }) => {
            sent.push([url, headers?.[(headers.indexOf('lasso-api-key') ?? 0) + 1]]);
            const body = Buffer.from('{"violations_detected":false}');
            return { answer: Promise.resolve({ status: 200, headers: [], body }), abort() {} };
          },
        },
      },
    };
  };
  const parameters = { credentials: { apiKey: { secret_reference: 'lasso-key' } } };
  const of = subject({ text: 'hi', caller: testKey() });

  test('is read for its service', async () => {
    const { scope, sent } = scopeOf(reference());
    assert.equal((await judge(lasso, parameters, of, scope)).verdict, 'passed');
    assert.deepEqual(sent, [['https://server.lasso.security/gateway/v2/classify', 'from-the-vault']]);
  });

  for (const [name, found, more, message] of [
    ['is not there', undefined, {}, /there is no secret reference "lasso-key"/],
    ['is for others', reference({ allowAllWorkspaces: false }), {}, /is not for this workspace/],
    [
      'may not go there',
      reference(),
      { baseURL: 'https://evil.example.com' },
      /may not be sent to https:\/\/evil\.example\.com; add the host to its allowed_hosts/,
    ],
  ] as const)
    test(`that ${name} is not sent`, async () => {
      const { scope, sent } = scopeOf(found);
      await assert.rejects(judge(lasso, { ...parameters, ...more }, of, scope), message);
      assert.deepEqual(sent, []);
    });
});

test('private addresses are asked only where the operator trusts them', async (t) => {
  const { ask, service } = await guarded(t, {
    guardedFetch: createGuardedFetch({ log, clock: systemClock, trustedHosts: [] }),
  });
  const check = { 'lasso.classify': { credentials: { apiKey: 'x' }, baseURL: service.url }, deny: true };
  const answer = await ask(check);
  assert.equal(answer.status, 446);
  assert.match(answer.text, /could not judge it/);
  assert.equal(service.requests.length, 0);
});
