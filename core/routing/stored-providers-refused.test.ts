import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StoredRecord } from '../ports/records.ts';
import { refusal, started } from './stored-providers.test-support.ts';
import { integration, provider } from './stored-records.test-support.ts';

describe('a provider of the store that may not be used', () => {
  const access = { enabled: false, usageLimits: [], rateLimits: [] };
  const ofAll = { workspaceId: undefined };
  const rows: readonly [string, readonly StoredRecord[], number, string, RegExp][] = [
    [
      'has expired',
      [integration({ key: 'k' }), provider({ expiresAt: 1000 })],
      403,
      'provider_disabled',
      /expired at 1970-01-01T00:00:01/,
    ],
    [
      'is archived',
      [integration({ key: 'k' }), provider({}, { status: 'archived' })],
      400,
      'provider_unknown',
      /There is no provider slug "@mine"/,
    ],
    [
      'has an archived integration',
      [integration({ key: 'k' }, {}, { status: 'archived' }), provider()],
      403,
      'provider_disabled',
      /no active integration/,
    ],
    [
      'is of an integration of nobody',
      [integration({ key: 'k' }, { globalAccess: access }, ofAll), provider()],
      403,
      'provider_disabled',
      /not enabled for this workspace/,
    ],
    [
      'is of an integration of others',
      [integration({ key: 'k' }, { workspaces: { 'ws-1': access } }, ofAll), provider()],
      403,
      'provider_disabled',
      /not enabled for this workspace/,
    ],
    [
      'is of an unknown kind',
      [integration({ key: 'k' }, { aiProviderId: 'gone' }), provider()],
      403,
      'provider_disabled',
      /no provider "gone"/,
    ],
    [
      'has a private address',
      [integration({ key: 'k' }, { configurations: { base_url: 'http://169.254.169.254/v1' } }), provider()],
      400,
      'custom_host_refused',
      /private/,
    ],
    [
      'has an address in a field of its address',
      [integration({ key: 'k' }, { configurations: { aws_region: 'x.example.com/#' } }), provider()],
      403,
      'provider_disabled',
      /aws_region/,
    ],
    [
      'has settings that are none',
      [integration({ key: 'k' }, { configurations: { dialect: 'latin' } }), provider()],
      403,
      'provider_disabled',
      /dialect/,
    ],
  ];
  for (const [name, records, status, code, said] of rows) {
    test(name, async (t) => {
      const { ask, upstream } = await started(t, records);
      const found = refusal(await ask({ 'x-service-provider': '@mine' }));
      assert.deepEqual([found.status, found.code, upstream.requests.length], [status, code, 0]);
      assert.match(found.message, said);
      assert.doesNotMatch(found.message, /ws-\d|org-\d/);
    });
  }

  test('is enabled for a workspace by name, or by being its own', async (t) => {
    const enabled = { ...access, enabled: true };
    const { ask, directory } = await started(t, [
      integration({ key: 'k' }, { globalAccess: access, workspaces: { 'ws-1': enabled } }, ofAll),
      provider(),
    ]);
    assert.equal((await ask({ 'x-service-provider': '@mine' })).status, 200);
    directory.put(integration({ key: 'k' }, { globalAccess: access }));
    assert.equal((await ask({ 'x-service-provider': '@mine' })).status, 200);
  });
});
