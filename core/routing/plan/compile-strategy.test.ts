import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { compile, compiled, issuesOf } from './config-kit.test-support.ts';
import type { CompiledConfig, Strategy } from './plan-node.ts';

const targets = [
  { name: 'a', provider: 'openai' },
  { name: 'b', provider: 'anthropic' },
];
const then = { query: { 'metadata.plan': 'paid' }, then: 'b' };

function config(strategy: object, own: object = { targets }): object {
  return { strategy, ...own };
}

function strategyOf({ root }: CompiledConfig): Strategy {
  assert.ok(root.kind === 'branch');
  return root.strategy;
}

describe('compileStrategy', () => {
  const plain: [written: object, strategy: unknown, readsBody: boolean][] = [
    [{ mode: 'single' }, { mode: 'single' }, false],
    [{ mode: 'least-latency' }, { mode: 'least-latency' }, false],
    [{ mode: 'least-cost' }, { mode: 'least-cost' }, true],
    [{ mode: 'round-robin' }, { mode: 'round-robin' }, false],
    [{ mode: 'fallback' }, { mode: 'fallback', onStatusCodes: undefined }, false],
    [
      { mode: 'fallback', on_status_codes: [429, 246] },
      { mode: 'fallback', onStatusCodes: new Set([429, 246]) },
      false,
    ],
    [{ mode: 'fallback', on_status_codes: [] }, { mode: 'fallback', onStatusCodes: new Set() }, false],
    [{ mode: 'loadbalance' }, { mode: 'loadbalance', sticky: undefined }, false],
    [
      { mode: 'loadbalance', sticky: { enabled: false, hash_fields: ['metadata.user'] } },
      { mode: 'loadbalance', sticky: undefined },
      false,
    ],
    [
      { mode: 'loadbalance', sticky: { enabled: true, hash_fields: ['metadata.user'] } },
      { mode: 'loadbalance', sticky: { hashFields: [['metadata', 'user']], ttlMs: 3_600_000 } },
      false,
    ],
    [
      { mode: 'loadbalance', sticky: { hash_fields: ['api_key', 'params.user'], ttl: 60 } },
      { mode: 'loadbalance', sticky: { hashFields: [['api_key'], ['params', 'user']], ttlMs: 60_000 } },
      true,
    ],
    [{ mode: 'canary', percentage: 5 }, { mode: 'canary', percentage: 5, hashFields: [['trace_id']] }, false],
    [
      { mode: 'canary', percentage: 0.5, hash_fields: ['params.user'] },
      { mode: 'canary', percentage: 0.5, hashFields: [['params', 'user']] },
      true,
    ],
  ];
  for (const [written, strategy, readsBody] of plain)
    it(JSON.stringify(written), () => {
      const result = compiled(config(written));
      assert.deepEqual(strategyOf(result), strategy);
      assert.equal(result.readsBody, readsBody);
    });

  it('reads the body when a strategy anywhere below does', () => {
    const inner = config({ mode: 'canary', percentage: 1, hash_fields: ['params.user'] });
    assert.equal(compiled(config({ mode: 'fallback' }, { targets: [inner] })).readsBody, true);
  });

  it('compiles conditions to tests and the index of their target', () => {
    const written = config({
      mode: 'conditional',
      conditions: [then, { query: { 'params.stream': true }, then: 'a' }],
      default: 'a',
    });
    const result = compiled(written);
    const strategy = strategyOf(result);
    assert.ok(strategy.mode === 'conditional');
    assert.equal(result.readsBody, true);
    assert.equal(strategy.otherwise, 0);
    assert.deepEqual(
      strategy.conditions.map((one) => one.then),
      [1, 0],
    );
    const [first, second] = strategy.conditions;
    assert.equal(
      first?.test(([root]) => (root === 'metadata' ? 'paid' : undefined)),
      true,
    );
    assert.equal(
      first?.test(() => 'free'),
      false,
    );
    assert.equal(
      second?.test(() => true),
      true,
    );
  });

  it('has no default unless one is given, and reads no body for metadata', () => {
    const result = compiled(config({ mode: 'conditional', conditions: [then] }));
    const strategy = strategyOf(result);
    assert.ok(strategy.mode === 'conditional');
    assert.equal(strategy.otherwise, undefined);
    assert.equal(result.readsBody, false);
  });

  it('finds a target by the name of the config that it refers to', () => {
    const own = { targets: [{ provider: 'openai' }, { config: 'other' }] };
    const result = compile(config({ mode: 'conditional', conditions: [then] }, own), {
      other: { name: 'b', provider: 'openai' },
    });
    assert.equal(result.ok, true);
  });

  const refused: [written: object, issue: RegExp][] = [
    [{ mode: 'conditional' }, /^config\.strategy\.mode: a conditional strategy needs "conditions"/],
    [
      { mode: 'conditional', conditions: [{ ...then, then: 'bb' }] },
      /^config\.strategy\.conditions\[0\]\.then: none of the targets is named "bb"; did you mean "b"\?$/,
    ],
    [
      { mode: 'conditional', conditions: [{ ...then, then: 'other' }] },
      /\.then: none of the targets is named "other"; their names are "a" and "b"$/,
    ],
    [
      { mode: 'conditional', conditions: [then], default: 'other' },
      /^config\.strategy\.default: none of the targets is named "other"/,
    ],
    [
      { mode: 'conditional', conditions: [then, { query: { 'metadata.x': { $like: 'y' } }, then: 'a' }] },
      /^config\.strategy\.conditions\[1\]\.query: metadata\.x\.\$like .*operator/,
    ],
    [{ mode: 'conditional', conditions: [{ query: {}, then: 'a' }] }, /\.query: is empty/],
    [{ mode: 'canary' }, /^config\.strategy\.mode: a canary needs "percentage"/],
    [
      { mode: 'canary', percentage: 5, hash_fields: ['header.x'] },
      /^config\.strategy\.hash_fields\[0\]: "header\.x" is no field of a request/,
    ],
    [
      { mode: 'loadbalance', sticky: { enabled: true } },
      /^config\.strategy\.sticky: "hash_fields" is missing/,
    ],
    [
      { mode: 'loadbalance', sticky: { hash_fields: ['metadata.a', 'x'] } },
      /^config\.strategy\.sticky\.hash_fields\[1\]: "x" is no field of a request/,
    ],
  ];
  for (const [written, issue] of refused)
    it(`refuses ${JSON.stringify(written)}`, () => {
      const issues = issuesOf(config(written));
      assert.equal(issues.length, 1, issues.join('\n'));
      assert.match(issues[0] ?? '', issue);
    });

  for (const count of [1, 3])
    it(`refuses a canary of ${count}`, () => {
      const own = { targets: Array.from({ length: count }, () => targets[0]) };
      assert.match(
        issuesOf(config({ mode: 'canary', percentage: 5 }, own)).join(),
        new RegExp(`^config\\.strategy\\.mode: a canary has two targets.*this one has ${count}$`),
      );
    });

  it('refuses a name that two targets have, and names that none has', () => {
    const strategy = { mode: 'conditional', conditions: [then] };
    const named = (...names: (string | undefined)[]): object => ({
      targets: names.map((name) => ({ name, provider: 'openai' })),
    });
    assert.match(issuesOf(config(strategy, named('b', 'b'))).join(), /then: two targets are named "b"/);
    assert.match(
      issuesOf(config(strategy, named(undefined, undefined))).join(),
      /is named "b"; none of them has a "name"$/,
    );
    assert.deepEqual(issuesOf(config({ mode: 'fallback' }, named('b', 'b'))), []);
  });

  it('takes a weight of 0 as long as one target has another', () => {
    const weighted = (...weights: number[]): object => ({
      targets: weights.map((weight) => ({ weight, provider: 'openai' })),
    });
    assert.deepEqual(issuesOf(config({ mode: 'loadbalance' }, weighted(0, 0.1))), []);
    assert.deepEqual(issuesOf(config({ mode: 'fallback' }, weighted(0, 0))), []);
    assert.equal(issuesOf(config({ mode: 'loadbalance' }, weighted(0, 0))).length, 1);
  });

  it('warns of what another mode would look at', () => {
    const result = compile(
      config({ mode: 'loadbalance', on_status_codes: [429], default: 'a', percentage: 4 }),
    );
    assert.equal(result.ok, true);
    assert.deepEqual(
      result.warnings.map(({ path, message }) => `${path}: ${message}`),
      [
        'config.strategy.on_status_codes: "on_status_codes" has no effect in the mode "loadbalance": it belongs to "fallback"',
        'config.strategy.default: "default" has no effect in the mode "loadbalance": it belongs to "conditional"',
        'config.strategy.percentage: "percentage" has no effect in the mode "loadbalance": it belongs to "canary"',
      ],
    );
    assert.deepEqual(compile(config({ mode: 'fallback', on_status_codes: [429] })).warnings, []);
  });
});
