import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { checked, compile, compiled, issuesOf, knowsProvider, leavesOf } from './config-kit.test-support.ts';
import { compileConfig } from './compile-config.ts';
import { parseInlineConfig } from './read-config.ts';

const openai = { provider: 'openai', api_key: 'sk-1' };
const two = [
  { name: 'a', provider: 'openai' },
  { name: 'b', provider: 'anthropic' },
];

describe('compileConfig: the tree', () => {
  it('makes one leaf of a config without targets', () => {
    const { root, leaves, readsBody, id, slug } = compiled(openai);
    assert.deepEqual({ readsBody, id, slug }, { readsBody: false, id: 'test', slug: undefined });
    assert.deepEqual(leaves, [root]);
    assert.equal(root.kind, 'leaf');
    assert.equal(root.path, 'config');
    assert.equal(root.id, 'test#config');
  });

  it('names every leaf by its path, in file order', () => {
    const config = {
      strategy: { mode: 'fallback' },
      targets: [
        { provider: 'openai', weight: 0.5 },
        { name: 'inner', strategy: { mode: 'loadbalance' }, targets: two },
      ],
    };
    const { root, leaves } = compiled(config);
    assert.deepEqual(
      leaves.map(({ id, path, name, weight }) => [id, path, name, weight]),
      [
        ['test#config.targets[0]', 'config.targets[0]', undefined, 0.5],
        ['test#config.targets[1].targets[0]', 'config.targets[1].targets[0]', 'a', 1],
        ['test#config.targets[1].targets[1]', 'config.targets[1].targets[1]', 'b', 1],
      ],
    );
    assert.ok(root.kind === 'branch');
    assert.deepEqual(
      root.children.map(({ kind, name, path }) => [kind, name, path]),
      [
        ['leaf', undefined, 'config.targets[0]'],
        ['branch', 'inner', 'config.targets[1]'],
      ],
    );
  });

  it('takes targets without a strategy only when there is nothing to choose', () => {
    const { root } = compiled({ targets: [{ provider: 'openai' }] });
    assert.ok(root.kind === 'branch');
    assert.deepEqual(root.strategy, { mode: 'single' });
  });

  it('leaves the provider of a target that passes through to the request', () => {
    const leaves = leavesOf({
      provider: 'openai',
      api_key: 'sk-1',
      strategy: { mode: 'fallback' },
      targets: [{ passthrough: true }, {}],
    });
    assert.equal(leaves.get('config.targets[0]')?.provider, undefined);
    assert.equal(leaves.get('config.targets[0]')?.settings.apiKey, undefined);
    assert.deepEqual(leaves.get('config.targets[1]')?.provider, { name: 'openai', kind: 'provider' });
  });

  it('lets the virtual key win over the provider, as existing configs have both', () => {
    const [leaf] = compiled({ provider: 'openai', virtual_key: 'openai-prod' }).leaves;
    assert.deepEqual(leaf?.provider, { name: 'openai-prod', kind: 'virtual-key' });
  });
});

describe('compileConfig: references', () => {
  it('puts the other config in the place of the target, with name and weight of the reference', () => {
    const others = {
      shared: { name: 'own', strategy: { mode: 'fallback' }, targets: two, request_timeout: 5 },
    };
    const config = {
      strategy: { mode: 'loadbalance' },
      retry: { attempts: 2 },
      targets: [{ config: 'shared', weight: 3, name: 'mine' }, { config: 'shared' }],
    };
    const { root, leaves } = compiled(config, others);
    assert.ok(root.kind === 'branch');
    assert.deepEqual(
      root.children.map(({ kind, path, name, weight }) => [kind, path, name, weight]),
      [
        ['branch', 'config.targets[0]', 'mine', 3],
        ['branch', 'config.targets[1]', 'own', 1],
      ],
    );
    assert.deepEqual(
      leaves.map(({ path, settings }) => [path, settings.requestTimeoutMs, settings.retry?.attempts]),
      [
        ['config.targets[0].targets[0]', 5, 2],
        ['config.targets[0].targets[1]', 5, 2],
        ['config.targets[1].targets[0]', 5, 2],
        ['config.targets[1].targets[1]', 5, 2],
      ],
    );
  });

  it('hands neither provider nor credential nor host to another config', () => {
    const others = { shared: { retry: { attempts: 1 } }, held: { ...openai, name: 'held' } };
    const config = {
      custom_host: 'https://elsewhere.example/v1',
      strategy: { mode: 'fallback' },
      targets: [{ config: 'held' }, { ...openai, targets: [{ config: 'shared' }] }],
    };
    for (const leaf of compiled(config, others).leaves) {
      assert.equal(leaf.settings.customHost, undefined, leaf.path);
      if (leaf.path !== 'config.targets[0]') {
        assert.equal(leaf.provider, undefined);
        assert.equal(leaf.settings.apiKey, undefined);
      }
    }
  });

  it('says of each target from which config its credential comes', () => {
    const others = { outer: { targets: [{ config: 'held' }] }, held: openai };
    const config = {
      strategy: { mode: 'fallback' },
      targets: [openai, { config: 'outer' }, { config: 'held' }],
    };
    assert.deepEqual(
      compiled(config, others).leaves.map(({ definedIn }) => definedIn),
      [undefined, 'held', 'held'],
    );
  });

  it('serves a config that only refers to another one', () => {
    assert.equal(compiled({ config: 'x' }, { x: openai }).leaves[0]?.path, 'config');
  });

  const circles: [name: string, config: unknown, others: Record<string, unknown>, issues: string[]][] = [
    ['itself', { config: 'a' }, {}, ['config.config: the configs refer to each other in a circle: a → a']],
    [
      'two',
      { targets: [{ config: 'b' }] },
      { b: { targets: [{ config: 'a' }] } },
      ['config.targets[0].config: the configs refer to each other in a circle: a → b → a'],
    ],
    [
      'three, further down',
      { strategy: { mode: 'fallback' }, targets: [openai, { config: 'b' }] },
      { b: { config: 'c' }, c: { targets: [{ config: 'a' }] } },
      ['config.targets[1].config: the configs refer to each other in a circle: a → b → c → a'],
    ],
    [
      'one that it is not part of',
      { targets: [{ config: 'b' }] },
      { b: { targets: [{ config: 'c' }] }, c: { config: 'b' } },
      [
        'config.targets[0].config: in the config "c", config.config: the configs refer to each other in a circle: b → c → b',
      ],
    ],
  ];
  for (const [name, config, others, issues] of circles)
    it(`refuses a circle: ${name}`, () => assert.deepEqual(issuesOf(config, others, 'a'), issues));

  it('says in which other config a mistake is', () => {
    assert.deepEqual(issuesOf({ targets: [{ config: 'b' }] }, { b: { targets: [{ provider: 'opnai' }] } }), [
      'config.targets[0].config: in the config "b", config.targets[0].provider: there is no provider "opnai"; did you mean "openai"?',
    ]);
  });
});

describe('compileConfig: what it refuses', () => {
  const rows: [config: unknown, ...issues: RegExp[]][] = [
    [{}, /^config: it says nothing; give it "provider"/],
    [{ name: 'x', weight: 2 }, /^config: it says nothing/],
    [{ provider: 'opnai' }, /^config\.provider: there is no provider "opnai"; did you mean "openai"\?$/],
    [{ provider: 'xyzzy' }, /^config\.provider: there is no provider "xyzzy"; define it under "providers"/],
    [
      { provider: '@openai' },
      /^config\.provider: there is no provider slug "@openai"; define it under "providers"/,
    ],
    [
      { virtual_key: 'openai-prd' },
      /^config\.virtual_key: there is no virtual key "openai-prd"; did you mean "openai-prod"\?$/,
    ],
    [{ virtual_key: 'openai' }, /^config\.virtual_key: there is no virtual key "openai"/],
    [{ config: 'sharde' }, /^config\.config: there is no config "sharde"; did you mean "shared"\?$/],
    [{ config: 'zzz' }, /^config\.config: there is no config "zzz"; define it under "configs"/],
    [
      { config: 'shared', retry: { attempts: 1 } },
      /^config\.retry: only "name" and "weight" may stand beside "config"/,
    ],
    [{ strategy: { mode: 'fallback' } }, /^config\.targets: there is nothing to choose from/],
    [{ strategy: { mode: 'single' }, targets: [] }, /^config\.targets: there is nothing to choose from/],
    [{ targets: two }, /^config\.targets: a "strategy" is missing/],
    [
      { strategy: { mode: 'loadbalance' }, targets: two.map((one) => ({ ...one, weight: 0 })) },
      /^config\.strategy\.mode: every target has the weight 0/,
    ],
    [
      { passthrough: true, provider: 'openai' },
      /^config\.provider: a target that passes through takes its provider/,
    ],
    [{ passthrough: true, api_key: 'sk-1' }, /^config\.api_key: the credential has no provider/],
    [{ api_key: 'sk-1', retry: { attempts: 1 } }, /^config\.api_key: the credential has no provider/],
    [
      { virtual_key: 'openai-prod', api_key: 'sk-1' },
      /^config\.api_key: "openai-prod" has a credential of its own/,
    ],
    [
      { virtual_key: 'openai-prod', targets: [{ api_key: 'sk-1' }] },
      /^config\.targets\[0\]\.api_key: "openai-prod" has a credential/,
    ],
    [{ ...openai, prompt_id: 'pp-1' }, /^config\.prompt_id: prompts in configs are not served yet/],
    ...[
      'before_request_hooks',
      'after_request_hooks',
      'input_guardrails',
      'output_guardrails',
      'input_mutators',
      'output_mutators',
    ].map((key): [unknown, RegExp] => [
      { ...openai, [key]: [{ id: 'x' }] },
      new RegExp(`^config\\.${key}\\[0\\]: guardrails cannot run here`),
    ]),
    [
      { ...openai, forward_headers: ['x-a', 'Authorization', 'connection'] },
      /^config\.forward_headers\[1\]: "Authorization"/,
      /^config\.forward_headers\[2\]: "connection"/,
    ],
    [
      { ...openai, aws_region: 'evil.example/' },
      /^config\.aws_region: it may hold letters, digits and hyphens/,
    ],
    [
      { ...openai, api_version: '1', azure_api_version: '2' },
      /^config\.api_version: "api_version" and "azure_api_version" are the same field/,
    ],
    [
      {
        ...openai,
        deployments: ['a', 'b'].map((id) => ({ deployment_id: id, alias: id, api_version: '1' })),
      },
      /^config\.deployments: choosing among deployments by the model/,
    ],
    [{ ...openai, drop_params: ['a', 'a..b'] }, /^config\.drop_params\[1\]: "a\.\.b" is no path/],
    [{ ...openai, targets: [{ drop_params: ['['] }] }, /^config\.targets\[0\]\.drop_params\[0\]:/],
  ];
  for (const [config, ...expected] of rows)
    it(JSON.stringify(config).slice(0, 120), () => {
      const issues = issuesOf(config, { shared: openai });
      assert.equal(issues.length, expected.length, issues.join('\n'));
      expected.forEach((pattern, index) => assert.match(issues[index] ?? '', pattern));
    });

  it('accepts empty lists of checks: nothing would have run', () => {
    assert.equal(compile({ ...openai, input_guardrails: [], before_request_hooks: [] }).ok, true);
  });

  it('reports everything at once', () => {
    const issues = issuesOf({
      strategy: {
        mode: 'conditional',
        conditions: [{ query: { 'metadata.a': { $foo: 1 } }, then: 'x' }],
        default: 'y',
      },
      targets: [
        { name: 'a', provider: 'opnai' },
        { name: 'b', prompt_id: 'p' },
      ],
    });
    assert.deepEqual(issues.map((issue) => issue.split(': ')[0]).sort(), [
      'config.strategy.conditions[0].query',
      'config.strategy.conditions[0].then',
      'config.strategy.default',
      'config.targets[0].provider',
      'config.targets[1].prompt_id',
    ]);
  });

  it('never repeats a credential', () => {
    const text = JSON.stringify(
      issuesOf({ virtual_key: 'nope', api_key: 'sk-secret', aws_secret_access_key: 'shh' }),
    );
    assert.doesNotMatch(text, /sk-secret|shh/);
  });
});

describe('compileConfig: bounds', () => {
  const nested = (depth: number): unknown => (depth === 0 ? openai : { targets: [nested(depth - 1)] });
  const leaves = (count: number): unknown => ({
    strategy: { mode: 'loadbalance' },
    targets: Array.from({ length: 2 }, (_, half) => ({
      strategy: { mode: 'round-robin' },
      targets: Array.from(
        { length: half === 0 ? Math.floor(count / 2) : Math.ceil(count / 2) },
        () => openai,
      ),
    })),
  });

  it('takes 16 levels and no more', () => {
    assert.equal(compile(nested(16)).ok, true);
    assert.match(issuesOf(nested(17)).join(), /targets are nested more than 16 deep/);
  });

  it('takes 256 targets and no more', () => {
    assert.equal(compiled(leaves(256)).leaves.length, 256);
    assert.match(
      issuesOf(leaves(257)).join(),
      /^config\.targets\[1\]\.targets\[128\]: there are more than 256 targets/,
    );
  });

  it('ends where references multiply', () => {
    const others = Object.fromEntries(
      Array.from({ length: 14 }, (_, level) => [
        `l${level}`,
        {
          strategy: { mode: 'loadbalance' },
          targets: Array.from({ length: 8 }, () => ({ config: `l${level + 1}` })),
        },
      ]),
    );
    const issues = issuesOf({ config: 'l0' }, { ...others, l14: openai });
    assert.deepEqual(issues.length, 1);
  });

  it('takes 4096 changed parameters over all targets, the same ones counted once', () => {
    const params = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`p${index}`, 1]));
    const config = (own: (index: number) => object): object => ({
      provider: 'openai',
      override_params: params,
      strategy: { mode: 'round-robin' },
      targets: Array.from({ length: 5 }, (_, index) => own(index)),
    });
    const { leaves } = compiled(config(() => ({})));
    assert.equal(leaves[4]?.settings.params, leaves[0]?.settings.params);
    assert.match(
      issuesOf(config((index) => ({ override_params: { seed: index } }))).join(),
      /^config\.targets\[4\]: all targets together change more than 4096 parameters/,
    );
  });

  it('never throws, whatever the schema lets pass', () => {
    const scalar = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null));
    const query = fc.dictionary(
      fc.constantFrom('metadata.a', 'params.x[0]', '$and', '$or', 'zz', '__proto__'),
      fc.jsonValue(),
    );
    const { node } = fc.letrec((tie) => ({
      node: fc.record(
        {
          name: fc.constantFrom('a', 'b'),
          provider: fc.constantFrom('openai', '@openai-prod', 'x'),
          virtual_key: fc.constantFrom('openai-prod', 'y'),
          api_key: fc.constant('k'),
          config: fc.constantFrom('a', 'b', 'c'),
          passthrough: fc.boolean(),
          weight: fc.constantFrom(0, 1, 2.5),
          override_params: fc.dictionary(fc.string(), fc.jsonValue()),
          drop_params: fc.array(fc.string({ minLength: 1 })),
          forward_headers: fc.array(fc.constantFrom('x-a', 'cookie')),
          cache: fc.constantFrom('simple', { mode: 'off' }),
          strategy: fc.record(
            {
              mode: fc.constantFrom('single', 'loadbalance', 'conditional', 'canary', 'least-cost'),
              conditions: fc.array(fc.record({ query, then: fc.constantFrom('a', 'b', 'c') })),
              default: fc.constantFrom('a', 'z'),
              percentage: fc.constant(5),
              hash_fields: fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 }),
            },
            { requiredKeys: ['mode'] },
          ),
          targets: fc.array(tie('node'), { maxLength: 3 }),
        },
        { requiredKeys: [] },
      ),
      any: scalar,
    }));
    let passed = 0;
    fc.assert(
      fc.property(node, node, node, (own, a, b) => {
        const parsed = [own, a, b].map((one) => parseInlineConfig(JSON.stringify(one)));
        const configs = new Map(
          parsed.flatMap((one, index) =>
            one.ok ? [[['o', 'a', 'b'][index] ?? '', one.config] as const] : [],
          ),
        );
        const input = configs.get('o');
        if (input === undefined) return;
        passed++;
        const result = compileConfig(input, { id: 'o', slug: 'o', configs, knowsProvider });
        assert.ok(result.ok || result.issues.length > 0);
        if (result.ok) assert.ok(result.config.leaves.length > 0);
      }),
      { numRuns: 300 },
    );
    assert.ok(passed > 50, `only ${passed} passed the schema`);
  });

  it('does not change what it is given', () => {
    const input = checked({ strategy: { mode: 'canary', percentage: 5 }, targets: two });
    const before = structuredClone(input);
    compileConfig(input, { id: 'x', slug: undefined, configs: new Map(), knowsProvider });
    assert.deepEqual(input, before);
  });
});
