import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compiled } from './config-kit.test-support.ts';
import type { PlanLeaf } from './plan-node.ts';

/** The one leaf of a parent with one child. */
function leafOf(parent: object, child: object = {}): PlanLeaf {
  const [leaf] = compiled({ ...parent, targets: [child] }).leaves;
  assert.ok(leaf);
  return leaf;
}

const breaker = { failure_threshold: 3, cooldown_interval: 30_000 };
const openai = { provider: 'openai', api_key: 'sk-1' };

describe('inheritSettings', () => {
  const rows: [
    what: string,
    parent: object,
    child: object,
    seen: (leaf: PlanLeaf) => unknown,
    value: unknown,
  ][] = [
    [
      'override_params are merged, the child wins',
      { override_params: { model: 'a', seed: 1, x: { y: 1 } } },
      { override_params: { model: 'b', x: { z: 2 } } },
      (leaf) => Object.fromEntries(leaf.settings.params?.overrides ?? []),
      { model: 'b', seed: 1, x: { z: 2 } },
    ],
    [
      'default_params likewise',
      { default_params: { a: 1, b: 2 } },
      { default_params: { b: 3 } },
      (leaf) => Object.fromEntries(leaf.settings.params?.defaults ?? []),
      { a: 1, b: 3 },
    ],
    [
      'drop_params add up',
      { drop_params: ['user', 'seed'] },
      { drop_params: ['seed', 'tools[*].strict'] },
      (leaf) => leaf.settings.params?.drops,
      [['user'], ['seed'], ['tools', '*', 'strict']],
    ],
    ['nothing to change is nothing', openai, {}, (leaf) => leaf.settings.params, undefined],
    [
      'retry is replaced whole',
      { retry: { attempts: 5, on_status_codes: [418], use_retry_after_header: true } },
      { retry: { attempts: 1 } },
      (leaf) => leaf.settings.retry,
      { attempts: 1, onStatusCodes: new Set([429, 500, 502, 503, 504, 529]), useRetryAfter: false },
    ],
    [
      'retry is inherited whole, its attempts clamped',
      { retry: { attempts: 50, on_status_codes: [418], use_retry_after_header: true } },
      {},
      (leaf) => leaf.settings.retry,
      { attempts: 5, onStatusCodes: new Set([418]), useRetryAfter: true },
    ],
    [
      'cache is replaced whole',
      { cache: { mode: 'semantic', max_age: 60, threshold: 0.9 } },
      { cache: 'simple' },
      (leaf) => leaf.settings.cache,
      { mode: 'simple', maxAgeMs: undefined, threshold: undefined },
    ],
    [
      'cache is inherited, its age in milliseconds',
      { cache: { mode: 'semantic', max_age: 60, threshold: 0.9 } },
      {},
      (leaf) => leaf.settings.cache,
      { mode: 'semantic', maxAgeMs: 60_000, threshold: 0.9 },
    ],
    [
      'timeouts are inherited one by one, and 0 undoes one',
      { request_timeout: 1, first_token_timeout: 2, idle_timeout: 3 },
      { first_token_timeout: 20, idle_timeout: 0 },
      ({ settings }) => [settings.requestTimeoutMs, settings.firstTokenTimeoutMs, settings.idleTimeoutMs],
      [1, 20, undefined],
    ],
    [
      'custom_host is replaced',
      { provider: 'openai', custom_host: 'https://a.example' },
      { custom_host: 'https://b.example' },
      (leaf) => leaf.settings.customHost,
      'https://b.example',
    ],
    [
      'forward_headers are replaced, in lower case',
      { forward_headers: ['X-A', 'x-b'] },
      { forward_headers: ['X-C'] },
      (leaf) => leaf.settings.forwardHeaders,
      ['x-c'],
    ],
    [
      'forward_headers are inherited',
      { forward_headers: ['X-A'] },
      {},
      (leaf) => leaf.settings.forwardHeaders,
      ['x-a'],
    ],
    [
      'strict_open_ai_compliance and on_drop are inherited',
      { strict_open_ai_compliance: false, on_drop: 'refuse' },
      {},
      ({ settings }) => [settings.strictOpenAiCompliance, settings.onDrop],
      [false, 'refuse'],
    ],
    [
      'strict_openai_compliance is the same key, and the child wins',
      { strict_open_ai_compliance: false, on_drop: 'refuse' },
      { strict_openai_compliance: true, on_drop: 'report' },
      ({ settings }) => [settings.strictOpenAiCompliance, settings.onDrop],
      [true, 'report'],
    ],
    [
      'cb_config of the strategy reaches the targets',
      { strategy: { mode: 'single', cb_config: breaker } },
      {},
      (leaf) => leaf.breaker,
      {
        failureThreshold: 3,
        failureThresholdPercentage: undefined,
        minimumRequests: 10,
        cooldownMs: 30_000,
        failureStatusCodes: undefined,
      },
    ],
    [
      'cb_config of the target wins',
      { cb_config: breaker },
      {
        cb_config: {
          failure_threshold: 9,
          failure_threshold_percentage: 50,
          minimum_requests: 4,
          cooldown_interval: 60_000,
          failure_status_codes: [429, 500],
        },
      },
      (leaf) => leaf.breaker,
      {
        failureThreshold: 9,
        failureThresholdPercentage: 50,
        minimumRequests: 4,
        cooldownMs: 60_000,
        failureStatusCodes: new Set([429, 500]),
      },
    ],
    ['hedge is not inherited', { hedge: { after_ms: 5 } }, {}, (leaf) => leaf.hedge, undefined],
    ['hedge of the target', openai, { hedge: { after_ms: 5 } }, (leaf) => leaf.hedge, { afterMs: 5, max: 1 }],
  ];
  for (const [what, parent, child, seen, value] of rows)
    it(what, () => assert.deepEqual(seen(leafOf(parent, child)), value));

  it('keeps hedging at its branch', () => {
    const { root } = compiled({ hedge: { after_ms: 7, max: 3 }, targets: [openai] });
    assert.deepEqual(root.hedge, { afterMs: 7, max: 3 });
  });
});

describe('inheritDestination', () => {
  const prod = { name: 'openai-prod', kind: 'virtual-key' };
  const held = { ...openai, aws_region: 'eu-west-1', custom_host: 'https://proxy.example/v1' };
  const rows: [what: string, parent: object, child: object, expected: unknown[]][] = [
    [
      'a child without a provider takes over provider, credential, fields and host',
      held,
      {},
      [{ name: 'openai', kind: 'provider' }, 'sk-1', 'https://proxy.example/v1', { aws_region: 'eu-west-1' }],
    ],
    [
      'its own credential and fields win',
      held,
      { api_key: 'sk-2', aws_region: 'us-east-1', openai_project: 'p' },
      [
        { name: 'openai', kind: 'provider' },
        'sk-2',
        'https://proxy.example/v1',
        { aws_region: 'us-east-1', openai_project: 'p' },
      ],
    ],
    [
      'a child with a provider of its own takes over none of them',
      held,
      { provider: 'anthropic' },
      [{ name: 'anthropic', kind: 'provider' }, undefined, undefined, {}],
    ],
    [
      'nor does one with the very same provider',
      held,
      { provider: 'openai' },
      [{ name: 'openai', kind: 'provider' }, undefined, undefined, {}],
    ],
    ['nor one with a virtual key', held, { virtual_key: 'openai-prod' }, [prod, undefined, undefined, {}]],
    ['nor one that passes through', held, { passthrough: true }, [undefined, undefined, undefined, {}]],
    ['a virtual key is inherited', { virtual_key: 'openai-prod' }, {}, [prod, undefined, undefined, {}]],
    [
      'a virtual key gives way to a provider',
      { virtual_key: 'openai-prod' },
      openai,
      [{ name: 'openai', kind: 'provider' }, 'sk-1', undefined, {}],
    ],
    [
      'a host without a provider is meant for every target',
      { custom_host: 'https://proxy.example' },
      openai,
      [{ name: 'openai', kind: 'provider' }, 'sk-1', 'https://proxy.example', {}],
    ],
  ];
  for (const [what, parent, child, expected] of rows)
    it(what, () => {
      const { provider, settings } = leafOf(parent, child);
      assert.deepEqual([provider, settings.apiKey, settings.customHost, settings.fields], expected);
    });

  it('drops the host of a provider also further down', () => {
    const config = { ...held, targets: [{ provider: 'anthropic', targets: [{ provider: 'openai' }, {}] }] };
    const { leaves } = compiled({
      ...config,
      targets: [{ ...config.targets[0], strategy: { mode: 'fallback' } }],
    });
    assert.deepEqual(
      leaves.map(({ settings }) => [settings.customHost, settings.apiKey]),
      [
        [undefined, undefined],
        [undefined, undefined],
      ],
    );
  });

  const deployment = (id: string, is_default?: boolean): object => ({
    deployment_id: id,
    alias: 'gpt',
    api_version: '2024-10-21',
    ...(is_default === undefined ? {} : { is_default }),
  });
  const fields: [what: string, own: object, fields: object][] = [
    [
      'aliases are the fields that they stand for',
      { resource_name: 'r', deployment_id: 'd', api_version: 'v1' },
      { azure_resource_name: 'r', azure_deployment_id: 'd', azure_api_version: 'v1' },
    ],
    [
      'the only deployment',
      { deployments: [deployment('a')] },
      { azure_deployment_id: 'a', azure_api_version: '2024-10-21' },
    ],
    [
      'the default deployment',
      { deployments: [deployment('a'), deployment('b', true)] },
      { azure_deployment_id: 'b', azure_api_version: '2024-10-21' },
    ],
  ];
  for (const [what, own, expected] of fields)
    it(what, () => assert.deepEqual(leafOf({ provider: 'azure-openai', ...own }).settings.fields, expected));
});
