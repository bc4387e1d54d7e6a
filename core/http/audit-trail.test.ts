import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { TestContext, testKey } from '../../tests/kit/plugin-kit.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { matchedRoute } from '../pipeline/keys.ts';
import { defineRoute, Type } from '../pipeline/plugin.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { auditEntry, maskSecrets } from './audit-trail.ts';

describe('maskSecrets', () => {
  const cases: readonly [name: string, value: unknown, expected: unknown][] = [
    ['in snake case', { api_key: 's', name: 'n' }, { api_key: '***', name: 'n' }],
    ['in camel case', { apiKey: 's', clientSecret: 1 }, { apiKey: '***', clientSecret: '***' }],
    ['at any depth', { a: [{ b: { password: 's' } }] }, { a: [{ b: { password: '***' } }] }],
    ['whole, whatever it is', { secrets: [{ a: 's' }], token: { a: 's' } }, { secrets: '***', token: '***' }],
    [
      'not beside it',
      { keyboard: 'k', notes: ['n'], n: null, t: true },
      { keyboard: 'k', notes: ['n'], n: null, t: true },
    ],
    ['integers beyond 2^53 keep their digits', { n: 9223372036854775807n }, { n: '9223372036854775807' }],
    ['texts become storable', ['a\0b', '\ud800'], ['a\ufffdb', '\ufffd']],
  ];
  for (const [name, value, expected] of cases) {
    test(name, () => assert.equal(JSON.stringify(maskSecrets(value)), JSON.stringify(expected)));
  }

  test('a member called __proto__ stays a member', () => {
    const text = '{"__proto__":{"password":"s"}}';
    assert.equal(JSON.stringify(maskSecrets(JSON.parse(text))), '{"__proto__":{"password":"***"}}');
  });

  test('what is nested too deeply is left out', () => {
    const text = `${'['.repeat(5000)}"s"${']'.repeat(5000)}`;
    const masked = JSON.stringify(maskSecrets(JSON.parse(text)));
    assert.ok(masked.length < 100 && masked.includes('…'), masked);
  });
});

describe('auditEntry', () => {
  const route = defineRoute({
    id: 'api_keys.rotate',
    method: 'POST',
    path: '/x',
    summary: '',
    scope: 'x.y',
    audit: 'rotate',
    reply: Type.Object({}),
    handle: () => ({}),
  });
  const subject = { organisationId: 'org-1', workspaceId: 'ws-1', resourceId: 'r', status: 200 };

  test('of a stranger names nobody and holds nothing of what they send', () => {
    const entry = auditEntry(new TestContext({}), route, undefined, subject);
    assert.deepEqual([entry.actorId, entry.actorName, entry.resourceType], ['', '', 'api_keys']);
    assert.deepEqual(JSON.parse(entry.details), {});
  });

  const actors: readonly [Partial<KeyRecord>, expected: readonly string[]][] = [
    [{ kind: 'owner' }, ['api_key', 'key-1', 'first key', '']],
    [{ kind: 'workspace-service', userId: 'u' }, ['api_key', 'key-1', 'first key', '']],
    [{ kind: 'workspace-user', userId: '' }, ['api_key', 'key-1', 'first key', '']],
    [{ kind: 'workspace-user', userId: 'u' }, ['user', 'u', 'first key', 'key-1']],
    [
      { kind: 'workspace-user', userId: 'u', isToken: true, id: 'jwt:1' },
      ['user', 'u', 'first key', 'jwt:1'],
    ],
  ];
  for (const [overrides, expected] of actors) {
    test(`of ${JSON.stringify(overrides)} names who did it`, () => {
      const entry = auditEntry(new TestContext({}), route, testKey(overrides), subject);
      const { api_key_id: keyId = '' } = JSON.parse(entry.details);
      assert.deepEqual([entry.actorType, entry.actorId, entry.actorName, keyId], expected);
    });
  }

  test('says why something was refused, and nothing of what goes to a provider', async () => {
    const context = new TestContext({ body: { prompt: 'private' } });
    await context.body.load();
    const error = new GatewayError('scope_missing', 'no');
    const action = { id: 'tokens.verify', audit: 'verify' };
    const entry = auditEntry(context, action, undefined, { ...subject, error });
    assert.deepEqual(JSON.parse(entry.details).error, { code: 'scope_missing', message: 'no' });
    assert.ok(!entry.details.includes('private'));
    context.set(matchedRoute, route);
    assert.ok(!auditEntry(context, route, undefined, subject).details.includes('private'));
    assert.ok(auditEntry(context, route, testKey({}), subject).details.includes('private'));
  });

  test('never has details over 16 KiB, or details that are no JSON', async () => {
    const text = fc.string({ unit: 'binary', maxLength: 30_000 });
    await fc.assert(
      fc.asyncProperty(text, text, text, async (query, header, body) => {
        const context = new TestContext({
          query: `?q=${encodeURIComponent(Buffer.from(query).toString())}`,
          headers: { 'x-a': header },
          body: { body, api_key: 's3cret' },
        });
        context.set(matchedRoute, route);
        await context.body.load();
        const error = new GatewayError('internal', body);
        const key = testKey({ kind: 'workspace-user', userId: 'u', id: body });
        const { details } = auditEntry(context, route, key, { ...subject, error });
        assert.ok(Buffer.byteLength(details) <= 16_384);
        assert.equal(typeof JSON.parse(details), 'object');
        assert.ok(!details.includes('s3cret'));
      }),
      { numRuns: 50, examples: [['"'.repeat(20_000), '\u{ffff}'.repeat(20_000), '\u0001'.repeat(20_000)]] },
    );
  });
});
