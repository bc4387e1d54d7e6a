import assert from 'node:assert/strict';
import { describe, test, type TestContext as NodeTestContext } from 'node:test';
import { readFeatures } from '../../core/access/features.ts';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { withoutStore } from '../../core/organisation/without-store.ts';
import { toolCallGates } from '../../core/pipeline/tool-calls.ts';
import type { Limiter, LimitReservation } from '../../core/ports/counters.ts';
import type { OwnedUsageLimit } from '../../core/ports/budgets.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type {
  RateLimitPolicyData,
  RecordKinds,
  UsageLimitPolicyData,
} from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { TestContext, testKey, testOutcome, testScope } from '../../tests/kit/plugin-kit.ts';
import { callThroughGates, toolsPlugin } from '../../tests/kit/tool-calls-kit.ts';
import auth from '../auth/index.ts';
import policies, { type PoliciesOptions } from './index.ts';

let made = 0;

function record<K extends keyof RecordKinds>(kind: K, data: RecordKinds[K]): StoredRecord<K> {
  const id = `policy-${++made}`;
  return {
    ...{ kind, id, organisationId: 'org-1', workspaceId: 'ws-1', slug: id, name: id },
    ...{ status: 'active', parentId: '', secrets: {}, createdBy: 'ann', updatedBy: 'ann' },
    ...{ createdAt: 1, updatedAt: 1, version: 1, data },
  };
}

const rules = {
  conditions: [{ key: 'workspace_id', value: '*' }],
  groupBy: [{ key: 'api_key' }],
} as const;

/** One call per minute for each key; override what the test is about. */
const rate = (data: Partial<RateLimitPolicyData> = {}) =>
  record('rate_limit_policy', {
    ...{ ...rules, target: 'mcp_tools', type: 'requests', unit: 'rpm', value: 1 },
    ...data,
  });

const usage = (data: Partial<UsageLimitPolicyData> = {}) =>
  record('usage_limit_policy', {
    ...{ ...rules, target: 'mcp_tools', type: 'requests', creditLimit: 1 },
    ...{ alertThreshold: undefined, periodicReset: undefined },
    ...{ periodicResetDays: undefined, nextResetAt: undefined },
    ...data,
  });

type PolicyRecord = ReturnType<typeof rate> | ReturnType<typeof usage>;

interface Setting {
  readonly options?: PoliciesOptions;
  readonly limiter?: Limiter;
  readonly isOff?: boolean;
  /** Usage limits of the workspace. */
  readonly usages?: readonly OwnedUsageLimit[];
}

interface Calls {
  readonly server?: string;
  /** Names of the tools that one request calls. */
  readonly tools?: readonly string[];
  readonly key?: KeyRecord;
  readonly metadata?: Record<string, string>;
}

/** The plugin with these policies. */
async function enforce(records: readonly PolicyRecord[], setting: Setting = {}) {
  const { scope, clock } = testScope({
    ...(setting.limiter && { limiter: setting.limiter }),
    features: readFeatures(setting.isOff === true ? { POLICY_ENABLED: 'OFF' } : {}),
  });
  const kinds = {
    rate_limit_policy: records.filter(({ kind }) => kind === 'rate_limit_policy'),
    usage_limit_policy: records.filter(({ kind }) => kind === 'usage_limit_policy'),
  };
  const directory = {
    ...{ ...scope.directory, ...withoutStore },
    records: (kind: string) => kinds[kind as keyof typeof kinds] as never,
    usageLimitsOf: () => setting.usages,
  };
  const hooks = await policies.create(setting.options ?? {}, { ...scope, directory });
  const open = async ({ server = 'tickets', key = testKey(), metadata = {} }: Calls = {}) => {
    const context = new TestContext({ key, path: `/${server}/mcp`, body: { jsonrpc: '2.0' } });
    context.facts.metadata = metadata;
    await hooks.request?.(context);
    return context;
  };
  /** One request with calls of these tools; settles as completed. */
  const call = async (calls: Calls = {}): Promise<void> => {
    const context = await open(calls);
    const { server = 'tickets', tools = ['find'] } = calls;
    try {
      for (const tool of tools)
        await callThroughGates(context, { server, tool, arguments: {} }, () => ({ content: [] }));
    } finally {
      await hooks.settled?.(context, testOutcome());
    }
  };
  const refused = async (calls: Calls = {}): Promise<GatewayError> => {
    try {
      await call(calls);
    } catch (error) {
      return error as GatewayError;
    }
    return assert.fail('the call was not refused');
  };
  return { hooks, open, call, refused, clock, scope };
}

describe('policies for calls of tools', () => {
  test('count each call, and refuse with 429 until there is room', async () => {
    const { call, refused, clock } = await enforce([rate({ value: 2 })]);
    await call({ tools: ['find', 'close'] });
    const error = await refused();
    assert.deepEqual([error.code, error.status], ['rate_limited', 429]);
    assert.match(error.message, /The rate-limit policy "policy-\d+" \(2 requests per minute\) is used up/);
    assert.equal(error.headers[0], 'retry-after');
    await call({ key: testKey({ id: 'other' }) });
    clock.advance(Number(error.headers[1]) * 1000);
    await call();
  });

  test('count every call of a batch: those that fit pass, the next one does not', async () => {
    const { open, hooks } = await enforce([rate({ value: 2 })]);
    const context = await open();
    const done: string[] = [];
    const one = (tool: string) =>
      callThroughGates(context, { server: 'tickets', tool, arguments: {} }, () => (done.push(tool), null));
    await one('a');
    await one('b');
    await assert.rejects(one('c'), { code: 'rate_limited' });
    assert.deepEqual(done, ['a', 'b']);
    await hooks.settled?.(context, testOutcome());
  });

  test('count no request that calls nothing, and no request to a model', async () => {
    const { open, call, refused, hooks } = await enforce([rate()]);
    for (let times = 0; times < 3; times += 1) {
      await hooks.settled?.(await open(), testOutcome());
      await hooks.request?.(new TestContext({ key: testKey(), body: { model: 'm', messages: [] } }));
    }
    await call();
    await refused();
  });

  test('for models count no calls, those of earlier versions included', async () => {
    const earlier = record('rate_limit_policy', { ...rules, type: 'requests', unit: 'rpm', value: 0 });
    const { call, hooks } = await enforce([rate({ target: 'llm', value: 9 }), earlier]);
    await call({ tools: ['a', 'b', 'c'] });
    const chat = new TestContext({ key: testKey(), body: { model: 'm', messages: [] } });
    await assert.rejects(async () => hooks.request?.(chat), { code: 'rate_limited' });
  });

  test('apply to the servers, tools and metadata of their conditions', async () => {
    const conditions = [
      { key: 'mcp_server', value: 'tick*', excludes: 'tick-test' },
      { key: 'mcp_tool', value: ['delete', 'close'] },
      { key: 'metadata.team', value: 'red' },
    ];
    const { call, refused } = await enforce([rate({ conditions, value: 0 })]);
    const red = { metadata: { team: 'red' } };
    await call({ ...red, tools: ['find'] });
    await call({ tools: ['delete'] });
    await call({ ...red, server: 'wiki', tools: ['delete'] });
    await call({ ...red, server: 'tick-test', tools: ['delete'] });
    assert.equal((await refused({ ...red, tools: ['delete'] })).code, 'rate_limited');
    assert.equal((await refused({ ...red, server: 'ticks', tools: ['find', 'close'] })).code, 'rate_limited');
  });

  test('count by server and by tool where the policy groups by them', async () => {
    const { call, refused } = await enforce([
      rate({ groupBy: [{ key: 'mcp_server' }, { key: 'mcp_tool' }] }),
    ]);
    await call({ tools: ['find', 'close'] });
    await call({ server: 'wiki', tools: ['find'] });
    await refused({ tools: ['find'] });
    await refused({ server: 'wiki', tools: ['find'] });
  });

  test('have as many groups as they may: names of tools are the caller’s choice', async () => {
    const { call, refused } = await enforce([rate({ groupBy: [{ key: 'mcp_tool' }], value: 9 })], {
      options: { max_groups: 2 },
    });
    await call({ tools: ['a', 'b', 'a'] });
    assert.match((await refused({ tools: ['c'] })).message, /counts as many groups as it can/);
  });

  test('are budgets, too: 412 when they are used up', async () => {
    const { call, refused } = await enforce([usage({ creditLimit: 2 })]);
    await call({ tools: ['a', 'b'] });
    const error = await refused();
    assert.deepEqual([error.code, error.status], ['budget_exhausted', 412]);
    assert.match(error.message, /2 requests used/);
  });

  test('have no effect while policies are switched off; limits of keys have', async () => {
    const { call, refused } = await enforce([rate({ value: 0 })], { isOff: true });
    await call();
    const limited = testKey({ rateLimits: [{ type: 'requests', unit: 'rpm', value: 1 }] });
    await call({ key: limited });
    await refused({ key: limited });
  });
});

describe('limits of a key and its workspace', () => {
  const requests = (value: number) => ({ type: 'requests', unit: 'rpm', value }) as const;

  test('count each call as one request, together with requests to models', async () => {
    const { call, refused, hooks } = await enforce([]);
    const key = testKey({ name: 'ours', rateLimits: [requests(3)] });
    await call({ key, tools: ['a', 'b'] });
    await hooks.request?.(new TestContext({ key, body: { model: 'm', messages: [] } }));
    const { message } = await refused({ key });
    assert.match(message, /The rate limit of the key "ours" \(3 requests per minute\) is used up/);
  });

  test('of tokens and dollars neither count nor refuse calls, which have none', async () => {
    const limit = (type: 'tokens' | 'cost' | 'requests', creditLimit: number): OwnedUsageLimit => ({
      limit: { type, creditLimit },
      createdAt: 1,
    });
    const { call, refused, scope } = await enforce([], { usages: [limit('requests', 2)] });
    const key = testKey({
      rateLimits: [{ type: 'tokens', unit: 'rpm', value: 0 }],
      usageLimits: [limit('tokens', 1), limit('cost', 1)],
    });
    await call({ key, tools: ['a', 'b'] });
    const counted = (unit: 'requests', prefix: string) =>
      scope.budgets
        .groups(prefix)
        .map((name) => [name, scope.budgets.usage({ ...budgetNamed(name), unit }).used]);
    assert.deepEqual(counted('requests', 'workspace:'), [['workspace:org-1:ws-1:requests', 2]]);
    assert.deepEqual(counted('requests', 'key:'), []);
    assert.equal((await refused({ key })).code, 'budget_exhausted');
  });

  function budgetNamed(key: string) {
    return { key, limit: 2, threshold: undefined, period: () => ({ start: 0, end: undefined }) };
  }

  test('and policies are one decision: a call that one refuses counts in none', async () => {
    const conditions = [{ key: 'mcp_tool', value: 'find' }];
    const { call, refused } = await enforce([rate({ conditions, value: 1 })]);
    const key = testKey({ rateLimits: [requests(2)] });
    await call({ key });
    for (let times = 0; times < 3; times += 1) assert.match((await refused({ key })).message, /policy/);
    await call({ key, tools: ['close'] });
    assert.match((await refused({ key, tools: ['close'] })).message, /of the key/);
  });
});

describe('reservations of calls', () => {
  /** A limiter whose reservations the test sees, and whose decisions it can hold back. */
  function watched() {
    const settled: number[] = [];
    let decide: ((admission: LimitReservation) => void) | undefined;
    const reservation = (): LimitReservation => ({
      isAdmitted: true,
      reserved: { cost: 0, tokens: 0, requests: 1 },
      settle: ({ requests }) => void settled.push(requests),
    });
    const limiter: Limiter = {
      admit: () =>
        new Promise((resolve) => {
          decide = resolve;
        }),
    };
    return { settled, limiter, admit: () => decide?.(reservation()) };
  }

  test('are one for each call, and are settled when the request is', async () => {
    const { settled, limiter, admit } = watched();
    const { open, hooks } = await enforce([rate()], { limiter });
    const context = await open();
    const [gate] = toolCallGates(context);
    for (const tool of ['a', 'b']) {
      const waiting = gate?.before?.({ server: 's', tool, arguments: {} });
      admit();
      await waiting;
    }
    assert.deepEqual(settled, []);
    await hooks.settled?.(context, testOutcome());
    assert.deepEqual(settled, [1, 1]);
  });

  test('whose decision comes after the end of the request count, and are not kept for ever', async () => {
    const { settled, limiter, admit } = watched();
    const { open, hooks } = await enforce([rate()], { limiter });
    const context = await open();
    const waiting = toolCallGates(context)[0]?.before?.({ server: 's', tool: 'a', arguments: {} });
    await hooks.settled?.(context, testOutcome());
    assert.deepEqual(settled, []);
    admit();
    await waiting;
    assert.deepEqual(settled, [1]);
  });
});

describe('a gateway with policies in front of MCP servers', () => {
  async function start(t: NodeTestContext) {
    const key = testKey({ rateLimits: [{ type: 'requests', unit: 'rph', value: 2 }] });
    const tools = { find: () => ({ content: [{ type: 'text', text: 'found' }] }) };
    const { url } = await startTestGateway(t, {
      plugins: [auth, policies, toolsPlugin(tools)],
      keys: { 'wk-a': key },
    });
    const call = (id: number) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'find' } });
    return (body: (of: typeof call) => unknown) =>
      send(`${url}/v1/tickets/mcp`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-service-api-key': 'wk-a' },
        body: JSON.stringify(body(call)),
      });
  }

  test('answers a call beyond the limit with 429 as JSON-RPC', async (t) => {
    const ask = await start(t);
    for (const id of [1, 2])
      assert.equal((await ask((call) => call(id))).json().result.content[0].text, 'found');
    const refused = await ask((call) => call(3));
    assert.equal(refused.status, 429);
    assert.equal(refused.json().error.data.code, 'rate_limited');
  });

  test('refuses the calls of a batch that do not fit, and runs the others', async (t) => {
    const ask = await start(t);
    const answers = (await ask((call) => [1, 2, 3].map(call))).json();
    assert.deepEqual(
      answers.map(({ error }: { error?: { data: { code: string } } }) => error?.data.code),
      [undefined, undefined, 'rate_limited'],
    );
  });
});
