import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JWTPayload } from 'jose';
import { scopesByType } from '../../core/access/scopes.ts';
import { callerKeyHeader } from '../../core/pipeline/keys.ts';
import type { Directory } from '../../core/ports/directory.ts';
import { optionErrors, TestContext, testScope } from '../../tests/kit/plugin-kit.ts';
import auth from './index.ts';
import type { TokenOptions } from './token-options.ts';
import {
  bearer,
  guard,
  jwks,
  refusal,
  secret,
  seconds,
  service,
  tokenOf,
  type Setup,
} from './token-guard.test-support.ts';

const keyFor = async (claims: JWTPayload, setup: Setup = {}) =>
  (await (await guard(setup)).request(service(await tokenOf(claims)))).key;

describe('a token in the place of a service key', () => {
  test('makes its bearer a user of the default workspace', async () => {
    const token = await tokenOf();
    for (const [headers, where] of [
      [service(token), 'service'],
      [bearer(token), 'authorization'],
      [{ ...service(token), ...bearer(token) }, 'authorization'],
      [{ ...service(token), ...bearer('sk-provider') }, 'service'],
    ] as const) {
      const { context, key: found } = await (await guard()).request(headers);
      assert.equal(context.get(callerKeyHeader), where);
      assert.ok(found);
      const { id, scopes, ...rest } = found;
      assert.match(id, /^jwt:[\w-]{22}$/);
      assert.ok(scopes.includes('completions.write'));
      assert.deepEqual(rest, {
        name: 'ada@example.com',
        kind: 'workspace-user',
        userId: 'ada@example.com',
        isToken: true,
        organisationId: 'default-org',
        workspaceId: 'default-ws',
        expiresAt: (seconds + 3600) * 1000,
      });
      const { facts } = context;
      assert.deepEqual(
        [facts.apiKeyId, facts.userId, facts.workspaceId],
        [id, 'ada@example.com', 'default-ws'],
      );
    }
  });

  test('is known again by issuer and subject', async () => {
    const id = (await keyFor({}))?.id;
    assert.equal((await keyFor({ exp: seconds + 60, email_id: 'other@example.com' }))?.id, id);
    assert.notEqual((await keyFor({ sub: 'sub-2' }))?.id, id);
    assert.notEqual((await keyFor({ iss: 'https://other.example' }))?.id, id);
  });

  test('may see what workspace keys see, and do what its scopes say', async () => {
    const reading = [...scopesByType['workspace-user']].filter((one) => /\.(read|list)$/.test(one)).sort();
    const more = async (claims: JWTPayload, jwt: Partial<TokenOptions> = {}) => {
      const scopes = (await keyFor(claims, { jwt }))?.scopes ?? [];
      assert.equal(new Set(scopes).size, scopes.length);
      for (const scope of reading) assert.ok(scopes.includes(scope), scope);
      return scopes.filter((scope) => !reading.includes(scope)).sort();
    };
    assert.deepEqual(await more({}), ['completions.write']);
    assert.deepEqual(await more({}, { default_scopes: ['logs:view'] }), ['logs.view']);
    assert.deepEqual(await more({ scope: '' }), [], 'a claim that names none gives none');
    assert.deepEqual(await more({ scope: 'logs.view  analytics:view openid' }), [
      'analytics.view',
      'logs.view',
    ]);
    assert.deepEqual(await more({ scopes: ['portkey.completions.write', 'service.logs.write'] }), [
      'completions.write',
      'logs.write',
    ]);
    assert.deepEqual(await more({ scopes: ['portkey:completions:write', 'billing.logs.write'] }), [
      'completions.write',
    ]);
    assert.deepEqual(await more({ scopes: ['billing.logs.write'] }, { scope_prefixes: ['billing'] }), [
      'logs.write',
    ]);
    assert.deepEqual(
      await more({ scope: '* workspaces.create audit_logs.list organisation_users.create' }),
      [],
    );
    assert.deepEqual(await more({ permissions: ['logs.view'] }, { claims: { scopes: ['permissions'] } }), [
      'logs.view',
    ]);
  });

  test('scopes of the issuer mean what scope_map says, and those of the same name mean themselves', async () => {
    const jwt = { scope_map: { 'api://weir/tools': ['mcp:invoke', 'logs.view'] } };
    const { request, metrics } = await guard({ jwt });
    const scope = 'openid api://weir/tools completions.write';
    const scopes = (await request(service(await tokenOf({ scope })))).key?.scopes ?? [];
    for (const held of ['mcp.invoke', 'logs.view', 'completions.write'])
      assert.ok(scopes.includes(held), held);
    assert.equal(metrics.values.get('weir_token_scopes_ignored_total'), 1, 'openid');
    assert.ok(!(await keyFor({ scope: 'constructor' }, { jwt }))?.scopes.includes('mcp.invoke'));
  });

  test('says whom it is meant for', async () => {
    assert.deepEqual((await keyFor({ aud: 'a' }))?.audiences, ['a']);
    assert.deepEqual((await keyFor({ aud: ['a', 'b'] }))?.audiences, ['a', 'b']);
    assert.equal((await keyFor({}))?.audiences, undefined);
  });

  test('scopes that mean nothing are counted once for each token', async () => {
    const { request, metrics } = await guard();
    const token = await tokenOf({ scope: 'openid profile logs.view' });
    for (let count = 0; count < 3; count++) await request(service(token));
    assert.equal(metrics.values.get('weir_token_scopes_ignored_total'), 2);
  });

  test('brings its defaults along', async () => {
    const claim = { config_id: 'pc-main', metadata: { team: 'a' } };
    assert.deepEqual((await keyFor({ defaults: claim }))?.defaults, {
      configId: 'pc-main',
      metadata: { team: 'a' },
    });
    assert.equal(
      (await keyFor({ usage_limits: [{ credit_limit: 1 }], rate_limits: [] }))?.defaults,
      undefined,
    );
  });

  const directory: Partial<Directory> = {
    workspaceId: (organisation, named) =>
      organisation === 'default-org' && named === 'ws-lab'
        ? 'lab'
        : organisation === 'acme' && named === 'ws-1'
          ? 'one'
          : undefined,
    user: (organisation, named) =>
      organisation === 'default-org' && named === 'ada@example.com'
        ? { id: 'user-7', role: 'member' }
        : undefined,
    isArchived: (id) => id === 'one',
  };

  test('names its workspace, organisation and user', async () => {
    const placed = async (claims: JWTPayload) => {
      const found = await keyFor(claims, { directory });
      return [found?.organisationId, found?.workspaceId, found?.userId];
    };
    assert.deepEqual(await placed({}), ['default-org', 'default-ws', 'user-7']);
    assert.deepEqual(await placed({ workspace_slug: 'default-ws' }), ['default-org', 'default-ws', 'user-7']);
    assert.deepEqual(await placed({ portkey_workspace: 'ws-lab' }), ['default-org', 'lab', 'user-7']);
    assert.deepEqual(
      await placed({ portkey_oid: 'default-org', service_workspace: 'ws-lab', email_id: null }),
      ['default-org', 'lab', 'sub-1'],
    );
  });

  const refused: [string, JWTPayload, string, number, RegExp][] = [
    [
      'an unknown workspace',
      { workspace_slug: 'ws-x' },
      'token_invalid',
      401,
      /workspace "ws-x", which does not exist/,
    ],
    [
      'an unknown organisation',
      { organisation_id: 'x', workspace_slug: 'ws-lab' },
      'token_invalid',
      401,
      /"ws-lab" of the organisation "x", which/,
    ],
    [
      'another organisation, no workspace',
      { organisation_id: 'acme' },
      'token_invalid',
      401,
      /"acme" and no workspace/,
    ],
    [
      'an archived workspace',
      { organisation_id: 'acme', workspace_slug: 'ws-1' },
      'workspace_archived',
      403,
      /token of "ada@example\.com" names is archived/,
    ],
    [
      'a workspace that is no text',
      { workspace_slug: ['a'] },
      'token_invalid',
      401,
      /claim "workspace_slug" that is no text/,
    ],
    [
      'an endless user',
      { email_id: 'a'.repeat(256) },
      'token_invalid',
      401,
      /claim "email_id" that is no text of 1 to 255/,
    ],
    ['a user that no store holds', { email_id: 'a\0b' }, 'token_invalid', 401, /claim "email_id"/],
    ['scopes that are no list', { scope: { a: 1 } }, 'token_invalid', 401, /claim "scope" that is neither/],
    [
      'defaults that are no object',
      { defaults: 'x' },
      'token_invalid',
      401,
      /claim "defaults" that is no object/,
    ],
    ['a config that is no text', { defaults: { config_id: 1 } }, 'token_invalid', 401, /"config_id"/],
    [
      'metadata that are no texts',
      { defaults: { metadata: { a: 1 } } },
      'token_invalid',
      401,
      /"metadata" is no object/,
    ],
  ];
  for (const [name, claims, code, status, message] of refused) {
    test(`is refused with ${name}`, async () => {
      const { request } = await guard({ directory });
      const token = await tokenOf(claims);
      const error = await refusal(request(service(token)));
      assert.deepEqual([error.code, error.status], [code, status]);
      assert.match(error.message, message);
      assert.ok(!error.message.includes(token.split('.')[1] ?? ''));
    });
  }

  test('what is written like a token and is none', async () => {
    const { request } = await guard();
    assert.equal((await refusal(request(service('a.b.c')))).code, 'key_invalid');
    assert.equal((await refusal(request(bearer('eyJhbGciOiJub25lIn0.e30.')))).code, 'token_invalid');
    assert.equal((await refusal(request(bearer('eyJ.e30.AA')))).code, 'key_missing');
    assert.equal((await request(service(secret))).key?.id, 'key-1');
  });

  test('is a key like any other where no tokens are taken', async () => {
    const hooks = await auth.create({}, testScope().scope);
    const context = new TestContext({ headers: service(await tokenOf()) });
    assert.throws(() => hooks.request?.(context), { code: 'key_invalid' });
  });
});

describe('option jwt', () => {
  const good: [string, unknown][] = [
    ['an address', { jwks_url: 'https://id.example/keys' }],
    ['a set', { jwks }],
    [
      'everything',
      {
        jwks,
        issuer: 'a',
        audience: ['a', 'b'],
        algorithms: ['EdDSA'],
        clock_tolerance_s: 300,
        claims: { user: ['mail'] },
        scope_map: { 'api://weir/tools': ['mcp.invoke'] },
      },
    ],
  ];
  for (const [name, jwt] of good) test(`takes ${name}`, () => assert.equal(optionErrors(auth, { jwt }), ''));
  const bad: [string, unknown, RegExp][] = [
    ['neither address nor set', { issuer: 'a' }, /\/jwt .*oneOf/],
    ['both', { jwks, jwks_url: 'https://id.example/keys' }, /\/jwt .*oneOf/],
    ['an address with a password', { jwks_url: 'https://a:b@id.example/keys' }, /\/jwt\/jwks_url/],
    ['another scheme', { jwks_url: 'file:///keys' }, /\/jwt\/jwks_url/],
    ['no signature', { jwks, algorithms: ['none'] }, /\/jwt\/algorithms\/0/],
    ['a shared secret', { jwks, algorithms: ['HS256'] }, /\/jwt\/algorithms\/0/],
    ['an endless tolerance', { jwks, clock_tolerance_s: 301 }, /\/jwt\/clock_tolerance_s/],
    ['an unknown claim', { jwks, claims: { team: ['t'] } }, /\/jwt\/claims .*additional/],
    ['an unknown option', { jwks, url: 'x' }, /\/jwt .*additional/],
  ];
  for (const [name, jwt, message] of bad)
    test(`refuses ${name}`, () => assert.match(optionErrors(auth, { jwt }), message));

  test('refuses a set without a key, and scopes that a token cannot hold', async () => {
    await assert.rejects(
      guard({ jwt: { jwks: { keys: [{ kty: 'oct' }] } } }),
      /key set cannot be used: it holds no/,
    );
    for (const scope of ['workspaces.create', 'no.scope'])
      await assert.rejects(
        guard({ jwt: { default_scopes: [scope] } }),
        /jwt\.default_scopes\[0\].*cannot hold/,
      );
    await assert.rejects(
      guard({ jwt: { scope_map: { tools: ['mcp.invoke', 'workspaces.create'] } } }),
      /jwt\.scope_map\["tools"\]\[1\].*cannot hold/,
    );
  });
});

describe('a token while the store of workspaces cannot be read', () => {
  const asked = (claims: JWTPayload, directory: Partial<Directory>) =>
    tokenOf(claims).then(async (token) => (await guard({ directory })).request(service(token)));

  test('is served as far as its workspace is known, and refused for another attempt where it is not', async () => {
    const behind: Partial<Directory> = { standing: () => 'behind' };
    const unknown: Partial<Directory> = { standing: () => 'unknown' };
    assert.ok((await asked({}, behind)).key);
    const elsewhere = await refusal(asked({ workspace_slug: 'ws-of-later' }, behind));
    assert.deepEqual([elsewhere.code, elsewhere.headers[0]], ['store_unavailable', 'retry-after']);
    const nothing = await refusal(asked({}, unknown));
    assert.deepEqual([nothing.code, nothing.headers[0]], ['store_unavailable', 'retry-after']);
    const never = await refusal(asked({ workspace_slug: 'ws-of-later' }, {}));
    assert.equal(never.code, 'token_invalid');
  });
});
