import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readFeatures } from '../../core/access/features.ts';
import { noUsage } from '../../core/dialects/usage.ts';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { limitsOnStoreFailure } from '../../core/pipeline/keys.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RateLimit } from '../../core/ports/budgets.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import {
  TestContext,
  testKey,
  testOutcome,
  type TestRequest,
  testScope,
} from '../../tests/kit/plugin-kit.ts';
import policies, { type PoliciesOptions } from './index.ts';

const requests = (value: number, unit: RateLimit['unit'] = 'rpm') =>
  ({ type: 'requests', unit, value }) as const satisfies RateLimit;
const tokens = (value: number) => ({ type: 'tokens', unit: 'rpm', value }) as const satisfies RateLimit;

interface Setting {
  /** Limits by id of the workspace; a test may change them. */
  readonly workspaces?: Record<string, readonly RateLimit[]>;
  readonly options?: PoliciesOptions;
  readonly off?: boolean;
  readonly policies?: readonly StoredRecord<'rate_limit_policy'>[];
}

async function enforce({ workspaces = {}, options = {}, off, policies: records = [] }: Setting = {}) {
  const { scope, clock } = testScope({
    features: readFeatures(off === true ? { POLICY_ENABLED: 'OFF' } : {}),
  });
  const directory = {
    ...{ ...scope.directory, ...withoutStore },
    records: (kind: string) => (kind === 'rate_limit_policy' ? records : []) as never,
    rateLimitsOf: (organisationId: string, id: string) =>
      organisationId === 'org-1' ? workspaces[id] : undefined,
  };
  const hooks = await policies.create(options, { ...scope, directory });
  const send = async (key: KeyRecord, request: TestRequest = {}): Promise<TestContext> => {
    const context = new TestContext({ key, ...request });
    await hooks.request?.(context);
    return context;
  };
  const refused = async (key: KeyRecord, request: TestRequest = {}): Promise<GatewayError> => {
    try {
      await send(key, request);
    } catch (error) {
      assert.equal((error as GatewayError).code, 'rate_limited', String(error));
      return error as GatewayError;
    }
    return assert.fail('the request was not refused');
  };
  return { hooks, send, refused, clock, workspaces };
}

describe('the limits of a key', () => {
  test('are its own, and a refusal names it and the limit', async () => {
    const { send, refused, clock } = await enforce();
    const ours = testKey({ name: 'our "key"', rateLimits: [requests(2), requests(3, 'rph')] });
    await send(ours);
    await send(ours);
    const { message, headers } = await refused(ours);
    assert.match(
      message,
      /^The rate limit of the key "our \\"key\\"" \(2 requests per minute\) is used up\./,
    );
    assert.equal(headers[0], 'retry-after');
    await send(testKey({ id: 'other', rateLimits: [requests(2)] }));
    await send(testKey({ id: 'unlimited' }));
    clock.advance(60_000);
    await send(ours);
    clock.advance(60_000);
    assert.match((await refused(ours)).message, /3 requests per hour/);
  });

  test('count both of its secrets together, and go on when they are changed', async () => {
    const { send, refused } = await enforce();
    const key = testKey({ rateLimits: [requests(2)] });
    await send(key);
    await send({ ...key, isReplaced: true });
    await refused(key);
    await refused({ ...key, isReplaced: true });
    const raised = { ...key, rateLimits: [requests(3)] };
    await send(raised);
    await refused(raised);
    await send(testKey());
  });

  test('of one organisation are none of a key with the same id in another', async () => {
    const { send, refused } = await enforce();
    const key = testKey({ rateLimits: [requests(1)] });
    await send(key);
    await refused(key);
    await send({ ...key, organisationId: 'org-2' });
  });
});

describe('the limits of a workspace', () => {
  test('are shared by all of its keys, and by no others', async () => {
    const { send, refused } = await enforce({ workspaces: { 'ws-1': [requests(2)] } });
    await send(testKey({ id: 'a' }));
    await send(testKey({ id: 'b', rateLimits: [requests(50)] }));
    for (const id of ['a', 'b', 'c'])
      assert.match(
        (await refused(testKey({ id }))).message,
        /^The rate limit of the workspace "ws-1" \(2 requests per minute\) is used up\./,
      );
    await send(testKey({ id: 'd', workspaceId: 'ws-2' }));
  });

  test('hold beside those of the key: what one refuses counts in neither', async () => {
    const { send, refused } = await enforce({ workspaces: { 'ws-1': [requests(3)] } });
    const narrow = testKey({ id: 'narrow', rateLimits: [requests(1)] });
    await send(narrow);
    for (let count = 0; count < 5; count++) assert.match((await refused(narrow)).message, /of the key/);
    await send(testKey({ id: 'a' }));
    await send(testKey({ id: 'b' }));
    assert.match((await refused(testKey({ id: 'c' }))).message, /of the workspace/);
  });

  test('hold as they are at the moment', async () => {
    const { send, refused, workspaces } = await enforce({ workspaces: { 'ws-1': [requests(1)] } });
    const key = testKey({ rateLimits: [requests(9)] });
    await send(key);
    await refused(key);
    workspaces['ws-1'] = [requests(2)];
    await send(key);
    await refused(key);
    delete workspaces['ws-1'];
    await send(key);
  });
});

describe('limits of tokens', () => {
  const body = { model: 'm', max_tokens: 40, messages: [{ role: 'user', content: 'x'.repeat(160) }] };
  const limited = () => testKey({ rateLimits: [tokens(110)] });

  test('take what a request will probably use, and count what it has used', async () => {
    const { send, refused, hooks } = await enforce();
    const context = await send(limited(), { body });
    await refused(limited(), { body });
    context.facts.usage = { ...noUsage, totalTokens: 10 };
    await hooks.settled?.(context, testOutcome());
    await send(limited(), { body });
  });

  test('cost nothing for an answer from the cache', async () => {
    const { send, hooks } = await enforce({ workspaces: { 'ws-1': [tokens(100)] } });
    for (let count = 0; count < 5; count++) {
      const context = await send(testKey(), { body });
      context.facts.usage = { ...noUsage, totalTokens: 90 };
      context.facts.cacheStatus = 'HIT';
      await hooks.settled?.(context, testOutcome());
    }
  });
});

describe('limits and policies', () => {
  const policy: StoredRecord<'rate_limit_policy'> = {
    ...{ kind: 'rate_limit_policy', id: 'p-1', organisationId: 'org-1', workspaceId: 'ws-1', slug: 'p-1' },
    ...{ name: 'Everybody', status: 'active', parentId: '', secrets: {}, createdBy: '', updatedBy: '' },
    ...{ createdAt: 1, updatedAt: 1, version: 1 },
    data: {
      ...{ type: 'requests', unit: 'rpm', value: 2 },
      conditions: [{ key: 'workspace_id', value: 'ws-1' }],
      groupBy: [{ key: 'workspace_id' }],
    },
  };

  test('are one decision', async () => {
    const { send, refused } = await enforce({ policies: [policy] });
    const narrow = testKey({ id: 'narrow', rateLimits: [requests(1)] });
    await send(narrow);
    for (let count = 0; count < 3; count++) assert.match((await refused(narrow)).message, /of the key/);
    await send(testKey({ id: 'a' }));
    assert.match((await refused(testKey({ id: 'a' }))).message, /rate-limit policy "Everybody"/);
  });

  test('limits hold while policies are switched off', async () => {
    const { send, refused } = await enforce({ policies: [policy], off: true });
    for (let count = 0; count < 4; count++) await send(testKey({ id: 'a' }));
    const key = testKey({ rateLimits: [requests(1)] });
    await send(key);
    await refused(key);
  });
});

for (const said of ['local', 'open', 'closed', undefined] as const) {
  test(`limits behind the plugin hear what holds while the store is away: ${said ?? 'nothing said'}`, async () => {
    const { send } = await enforce({ options: said === undefined ? {} : { on_store_failure: said } });
    const context = await send(testKey());
    assert.equal(context.get(limitsOnStoreFailure) ?? 'local', said ?? 'local');
  });
}
