import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { callerKey, callerKeyHeader } from '../../core/pipeline/keys.ts';
import type { DirectoryStanding, KeyRecord } from '../../core/ports/directory.ts';
import {
  optionErrors,
  sha256,
  TestContext,
  testKey,
  testScope,
  testStart,
} from '../../tests/kit/plugin-kit.ts';
import auth, { type KeyOptions } from './index.ts';

const secret = 'wk_0123456789abcdef';
const plain = 'a-key-of-our-own-choice';

async function authenticate(
  headers: Record<string, string>,
  { keys = [{ name: 'team', key: secret }], prefix }: { keys?: KeyOptions[]; prefix?: string } = {},
) {
  const { scope } = testScope({
    keys: { 'bootstrap-owner-key': testKey({ id: 'owner', kind: 'owner' }) },
    ...(prefix ? { keyPrefix: prefix } : {}),
  });
  const hooks = await auth.create({ keys }, scope);
  const context = new TestContext({ headers });
  await hooks.request?.(context);
  return context;
}

const bearer = (value: string) => ({ authorization: `Bearer ${value}` });
const service = (value: string) => ({ 'x-service-api-key': value });

describe('auth: who is let in', () => {
  const cases: [string, Record<string, string>, string, 'service' | 'authorization'][] = [
    ['service header', service(secret), 'team', 'service'],
    ['bearer with the prefix', bearer(secret), 'team', 'authorization'],
    ['bearer, lower-case scheme', { authorization: `bearer ${secret}` }, 'team', 'authorization'],
    ['bearer that is a known key without the prefix', bearer(plain), 'plain', 'authorization'],
    [
      'service header beside a provider key',
      { ...service(secret), ...bearer('sk-provider') },
      'team',
      'service',
    ],
    ['our key in both headers', { ...service(secret), ...bearer(secret) }, 'team', 'authorization'],
    [
      'two of our keys: the service header rules',
      { ...service(plain), ...bearer(secret) },
      'plain',
      'authorization',
    ],
    ['a key of the directory', service('bootstrap-owner-key'), 'owner', 'service'],
    [
      'a key of the directory without the prefix as bearer',
      bearer('bootstrap-owner-key'),
      'owner',
      'authorization',
    ],
    ['x-api-key, as Anthropic SDKs send theirs', { 'x-api-key': secret }, 'team', 'service'],
    ['x-goog-api-key, as Google SDKs do', { 'x-goog-api-key': secret }, 'team', 'service'],
    ['api-key, as Azure SDKs do', { 'api-key': secret, ...bearer('sk-provider') }, 'team', 'service'],
    [
      'the service header wins over those of SDKs',
      { ...service(plain), 'x-api-key': secret },
      'plain',
      'service',
    ],
    ['an empty service header is none', { ...service(''), ...bearer(secret) }, 'team', 'authorization'],
  ];
  const keys = [
    { name: 'team', key: secret },
    { name: 'plain', key: plain },
  ];
  for (const [name, headers, id, where] of cases) {
    test(name, async () => {
      const context = await authenticate(headers, { keys });
      assert.equal(context.get(callerKey)?.id, id);
      assert.equal(context.get(callerKeyHeader), where);
      assert.equal(context.facts.apiKeyId, id);
    });
  }

  test('fills in whom the request belongs to, with the defaults of the directory', async () => {
    const defaults = await authenticate(service(secret));
    assert.equal(defaults.facts.organisationId, 'default-org');
    assert.equal(defaults.facts.workspaceId, 'default-ws');
    const keys = [{ name: 'team', id: 'k-7', key: secret, organisation_id: 'acme', workspace_id: 'lab' }];
    const own = await authenticate(service(secret), { keys });
    assert.deepEqual(
      [own.facts.organisationId, own.facts.workspaceId, own.facts.apiKeyId],
      ['acme', 'lab', 'k-7'],
    );
  });

  for (const [form, key_sha256] of [
    ['base64', sha256(secret)],
    ['hex', Buffer.from(sha256(secret), 'base64').toString('hex').toUpperCase()],
  ] as const) {
    test(`a key given as its SHA-256 in ${form}`, async () => {
      const context = await authenticate(service(secret), { keys: [{ name: 'hashed', key_sha256 }] });
      assert.equal(context.get(callerKey)?.id, 'hashed');
    });
  }

  test('scopes: an owner key holds all, others may proxy and nothing else unless they say so', async () => {
    const scopesOf = async (key: Partial<KeyOptions>) =>
      (await authenticate(service(secret), { keys: [{ name: 'k', key: secret, ...key }] })).get(callerKey)
        ?.scopes;
    assert.deepEqual(await scopesOf({ kind: 'owner' }), ['*']);
    assert.deepEqual(await scopesOf({}), ['completions.write']);
    assert.deepEqual(await scopesOf({ kind: 'owner', scopes: ['logs.view'] }), ['logs.view']);
  });
});

describe('auth: who is refused', () => {
  const cases: [string, Record<string, string>, string][] = [
    ['nothing', {}, 'key_missing'],
    ['a provider key alone', bearer('sk-provider-key'), 'key_missing'],
    ['another scheme', { authorization: 'Basic d2tfMDEyMzQ1Njc4OWFiY2RlZg==' }, 'key_missing'],
    ['an empty bearer', { authorization: 'Bearer  ' }, 'key_missing'],
    ['an unknown service key', service('wk_unknown_unknown'), 'key_invalid'],
    ['an unknown bearer with the prefix', bearer('wk_unknown_unknown'), 'key_invalid'],
    [
      'an unknown service key, though the bearer is good',
      { ...service('wrong-wrong-wrong'), ...bearer(secret) },
      'key_invalid',
    ],
    ['an unknown key with the prefix in x-api-key', { 'x-api-key': 'wk_unknown_unknown' }, 'key_invalid'],
    ["a provider's key in x-api-key", { 'x-api-key': 'sk-ant-provider' }, 'key_missing'],
    ['a key without the prefix in x-api-key', { 'x-api-key': plain }, 'key_missing'],
    ['a key with something behind it', service(`${secret}x`), 'key_invalid'],
    ['the hash instead of the key', service(sha256(secret)), 'key_invalid'],
  ];
  for (const [name, headers, code] of cases) {
    test(name, async () => {
      await assert.rejects(authenticate(headers), (error: GatewayError) => {
        assert.equal(error.code, code);
        assert.equal(error.status, 401);
        assert.deepEqual(error.headers, ['www-authenticate', 'Bearer']);
        for (const value of Object.values(headers)) {
          const sent = value.replace(/^\w+ +/, '');
          if (sent) assert.ok(!error.message.includes(sent), 'the message repeats what was sent');
        }
        return true;
      });
    });
  }

  test('a refusal for a missing key names both ways, with the configured prefix', async () => {
    await assert.rejects(authenticate({}), /"x-service-api-key: KEY".*"Authorization: Bearer KEY"/);
    await assert.rejects(authenticate(bearer('sk-1234')), /service keys begin with "wk_"/);
  });

  test('the prefix can be chosen', async () => {
    await assert.rejects(authenticate(bearer('zz-unknown'), { prefix: 'zz-' }), { code: 'key_invalid' });
    await assert.rejects(authenticate(bearer('wk_unknown'), { prefix: 'zz-' }), { code: 'key_missing' });
  });

  test('a key ends at the very millisecond that it names, and the log still knows whose it was', async () => {
    const at = (ms: number) => [
      { name: 'old', key: secret, expires_at: new Date(testStart + ms).toISOString() },
    ];
    assert.equal((await authenticate(service(secret), { keys: at(1) })).get(callerKey)?.id, 'old');
    await assert.rejects(authenticate(service(secret), { keys: at(0) }), (error: GatewayError) => {
      assert.equal(error.code, 'key_expired');
      assert.match(error.message, /"old" expired at 2026-11-21T09:00:00.000Z/);
      return true;
    });
    const { scope } = testScope();
    const hooks = await auth.create({ keys: at(-1) }, scope);
    const context = new TestContext({ headers: service(secret) });
    assert.throws(() => hooks.request?.(context), { code: 'key_expired' });
    assert.equal(context.facts.apiKeyId, 'old');
    assert.equal(context.get(callerKey), undefined);
  });
});

describe('auth: keys whose time is over for another reason', () => {
  const refusalOf = async (key: Partial<KeyRecord>, archived = '') => {
    const keys = { 'a-secret-of-the-store': testKey(key) };
    const { scope } = testScope({ keys });
    const directory = { ...scope.directory, isArchived: (id: string) => id === archived };
    const hooks = await auth.create({}, { ...scope, directory });
    const context = new TestContext({ headers: service('a-secret-of-the-store') });
    try {
      await hooks.request?.(context);
    } catch (error) {
      assert.ok(GatewayError.is(error));
      assert.equal(context.facts.apiKeyId, 'key-1', 'the log knows whose request was refused');
      return { code: error.code, status: error.status, message: error.message };
    }
    return undefined;
  };

  test('the secret before a rotation ends with the time of transition', async () => {
    assert.equal(await refusalOf({ expiresAt: testStart + 1, isReplaced: true }), undefined);
    assert.deepEqual(await refusalOf({ expiresAt: testStart, isReplaced: true }), {
      code: 'key_expired',
      status: 401,
      message:
        'This secret of the service key "first key" was replaced, and has ended at 2026-11-21T09:00:00.000Z. Use the new one; where nobody has it, POST /api-keys/key-1/rotate answers one.',
    });
  });

  test('keys of an archived workspace are refused, those of the organisation are not', async () => {
    for (const kind of ['workspace-service', 'workspace-user'] as const) {
      assert.deepEqual(await refusalOf({ kind }, 'ws-1'), {
        code: 'workspace_archived',
        status: 403,
        message:
          'The workspace of the service key "first key" is archived, and its keys with it. Use a key of another workspace.',
      });
      assert.equal(await refusalOf({ kind }, 'ws-2'), undefined);
    }
    for (const kind of ['owner', 'organisation-service'] as const)
      assert.equal(await refusalOf({ kind }, 'ws-1'), undefined);
  });
});

describe('auth: options', () => {
  const good: [string, unknown][] = [
    ['none', {}],
    [
      'a key',
      { keys: [{ name: 'a', key: secret, scopes: ['logs.view', '*'], expires_at: '2030-01-01T00:00:00Z' }] },
    ],
    ['a hash', { keys: [{ name: 'a', key_sha256: sha256(secret), kind: 'organisation-service' }] }],
  ];
  for (const [name, options] of good)
    test(`accepts ${name}`, () => assert.equal(optionErrors(auth, options), ''));

  const bad: [string, unknown, RegExp][] = [
    ['a short key', { keys: [{ name: 'a', key: 'x'.repeat(15) }] }, /\/keys\/0\/key .*16/],
    ['a key with a space', { keys: [{ name: 'a', key: 'x'.repeat(16) + ' ' }] }, /\/keys\/0\/key .*pattern/],
    ['neither key nor hash', { keys: [{ name: 'a' }] }, /\/keys\/0 .*oneOf/],
    [
      'both key and hash',
      { keys: [{ name: 'a', key: secret, key_sha256: sha256(secret) }] },
      /\/keys\/0 .*oneOf/,
    ],
    ['a key without a name', { keys: [{ key: secret }] }, /'name'/],
    ['an unknown kind', { keys: [{ name: 'a', key: secret, kind: 'god' }] }, /\/keys\/0\/kind/],
    [
      'a date without a time zone',
      { keys: [{ name: 'a', key: secret, expires_at: '2030-01-01T00:00:00' }] },
      /date-time/,
    ],
    ['an unknown option', { keyz: [] }, /additional/],
  ];
  for (const [name, options, message] of bad) {
    test(`refuses ${name}`, () => assert.match(optionErrors(auth, options), message));
  }

  const clashes: [string, KeyOptions[], RegExp][] = [
    [
      'the same secret twice',
      [
        { name: 'a', key: secret },
        { name: 'b', key_sha256: sha256(secret) },
      ],
      /keys\[1\].*"b" and "a" have the same secret/,
    ],
    [
      'the same id twice',
      [
        { name: 'a', key: secret },
        { name: 'a', key: plain },
      ],
      /keys\[1\].*second key has the id "a"/,
    ],
  ];
  for (const [name, keys, message] of clashes) {
    test(`refuses ${name}`, () => {
      assert.throws(
        () => auth.create({ keys }, testScope().scope),
        (error: GatewayError) => {
          assert.match(error.message, message);
          assert.ok(!error.message.includes(secret));
          return true;
        },
      );
    });
  }
});

test('auth: a reload with other keys knows only those', async () => {
  const { scope } = testScope();
  const before = await auth.create({ keys: [{ name: 'old', key: secret }] }, scope);
  const after = await auth.create({ keys: [{ name: 'new', key: plain }] }, scope);
  const context = new TestContext({ headers: service(secret) });
  assert.throws(() => after.request?.(context), { code: 'key_invalid' });
  assert.doesNotThrow(() => before.request?.(new TestContext({ headers: service(secret) })));
});

describe('auth: while the store of keys cannot be read', () => {
  const refusal = async (standing: DirectoryStanding, headers: Record<string, string>) => {
    const { scope } = testScope({});
    const directory = { ...scope.directory, standing: () => standing };
    const hooks = await auth.create({ keys: [{ name: 'team', key: secret }] }, { ...scope, directory });
    try {
      await hooks.request?.(new TestContext({ headers }));
      return 'admitted';
    } catch (error) {
      assert.ok(GatewayError.is(error));
      return [error.status, error.code, error.headers[0]];
    }
  };
  const unknown = 'wk_not_known_here';

  test('a key that is not known may exist: the refusal can be tried again', async () => {
    for (const standing of ['behind', 'unknown'] as const) {
      for (const headers of [service(unknown), bearer(unknown), { 'x-api-key': unknown }, bearer('plain')])
        assert.deepEqual(await refusal(standing, headers), [503, 'store_unavailable', 'retry-after']);
      assert.equal(await refusal(standing, service(secret)), 'admitted');
      assert.deepEqual(await refusal(standing, {}), [401, 'key_missing', 'www-authenticate']);
    }
    assert.deepEqual(await refusal('current', service(unknown)), [401, 'key_invalid', 'www-authenticate']);
  });
});
