import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { PipelineConfig } from '../config/schema.ts';
import {
  checkHooks,
  checkPipeline,
  checkPipelines,
  checkRoutes,
  type CheckedPipeline,
  type CreatedPlugin,
  type Locate,
} from './compile.ts';
import { PathTree } from '../http/route-table.ts';
import { defineRoute, Type, type Capabilities, type Hooks } from './plugin.ts';

type Listed = [name: string, capabilities?: Capabilities, hooks?: Hooks];

const nothing = (): void => undefined;
const provider: Listed = ['provider', { answers: true }, { request: nothing }];
const auth: Listed = ['auth', { provides: ['key'] }, { request: nothing }];
const limiter: Listed = ['rate-limit', { needs: ['key'] }, { request: nothing }];
const logger: Listed = ['logger', {}, { settled: nothing }];
const route = defineRoute({
  id: 'a.get',
  method: 'GET',
  path: '/a',
  summary: 'A',
  scope: 'a',
  audit: null,
  reply: Type.Object({}),
  handle: () => ({}),
});
const management: Listed = ['management', { needs: ['key'], routes: true }, { routes: [route] }];

const locate: Locate = (pointer, part) => ({
  file: part,
  line: Number(/\d+$/.exec(pointer)?.[0] ?? 99),
  column: 1,
});

function pipelineOf(
  listed: readonly Listed[],
  match: PipelineConfig['match'] = { path: '/**' },
): CheckedPipeline<CreatedPlugin> {
  const plugins = listed.map(([name, capabilities = {}, hooks = {}], index) => ({
    definition: { name, capabilities, create: () => hooks },
    hooks,
    entry: {
      use: name,
      options: {},
      onError: undefined,
      timeoutMs: undefined,
      pointer: `/pipelines/0/plugins/${index}`,
      optionsPointer: '',
      file: '',
    },
  }));
  return { config: { name: 'gateway', match }, pointer: '/pipelines/0', plugins };
}

function problemsOf(listed: readonly Listed[], match?: PipelineConfig['match']): string[] {
  const pipeline = pipelineOf(listed, match);
  const found = [
    ...checkPipeline(pipeline, locate),
    ...checkHooks(pipeline, locate),
    ...checkRoutes([pipeline], locate),
  ];
  return found.map((problem) => `${problem.line}: ${problem.message}`);
}

const fine: { name: string; listed: Listed[]; match?: PipelineConfig['match'] }[] = [
  { name: 'the first chain', listed: [auth, limiter, provider, logger] },
  { name: 'the administration pipeline', listed: [auth, management], match: { routes: 'contributed' } },
  { name: 'the same plugin twice', listed: [auth, limiter, limiter, provider, logger, logger] },
  {
    name: 'a transform that ignores streams on purpose',
    listed: [['t', { changes: ['response.text'], stream: 'ignore' }, { response: nothing }], provider],
  },
  {
    name: 'a guard with windows and whole answers',
    listed: [
      ['g', { reads: ['response.text'], stream: 'window' }, { response: nothing, stream: () => undefined }],
      provider,
    ],
  },
  {
    name: 'a guard that holds',
    listed: [['g', { reads: ['response.text'], stream: 'hold' }, { response: nothing }], provider],
  },
  {
    name: 'an observer of streams',
    listed: [['o', { stream: 'observe' }, { stream: () => undefined }], provider],
  },
  { name: 'an attempt hook behind the provider', listed: [provider, ['image', {}, { attempt: nothing }]] },
];
for (const { name, listed, match } of fine) {
  test(`${name} passes`, () => assert.deepEqual(problemsOf(listed, match), []));
}

const refused: { name: string; listed: Listed[]; match?: PipelineConfig['match']; problem: RegExp }[] = [
  {
    name: 'a limiter before auth',
    listed: [limiter, auth, provider],
    problem: /^0: plugin "rate-limit" needs the key .* move "auth" before it$/,
  },
  {
    name: 'a limiter without auth',
    listed: [limiter, provider],
    problem: /^0: .*list a plugin that provides it, such as "auth", before it$/,
  },
  {
    name: 'a missing provider',
    listed: [auth, limiter],
    problem: /^99: nothing in pipeline "gateway" answers; list "provider" in its plugins$/,
  },
  {
    name: 'two plugins that answer',
    listed: [auth, provider, provider],
    problem:
      /^2: plugin "provider" would never answer, because plugin "provider" always does before it; remove/,
  },
  {
    name: 'a provider among routes',
    listed: [auth, management, provider],
    match: { routes: 'contributed' },
    problem: /^2: plugin "provider" answers every request, so no route/,
  },
  {
    name: 'a guard behind the provider',
    listed: [provider, ['guard', {}, { request: nothing }]],
    problem:
      /^1: the request hook of plugin "guard" would never run behind plugin "provider", which answers; move "guard" before "provider"$/,
  },
  {
    name: 'a transform behind the provider',
    listed: [provider, ['t', { stream: 'observe' }, { response: nothing, stream: () => undefined }]],
    problem: /^1: the response and stream hooks of plugin "t" would never run/,
  },
  {
    name: 'a response hook without a word on streams',
    listed: [['t', {}, { response: nothing }], provider],
    problem: /^0: plugin "t" has a response hook and does not say .*capabilities\.stream/,
  },
  {
    name: 'changed answers without a word on streams',
    listed: [['t', { changes: ['response.json'] }], provider],
    problem: /^0: plugin "t" changes response.json and does not say/,
  },
  {
    name: 'a window without its hook',
    listed: [['t', { stream: 'window' }, { response: nothing }], provider],
    problem: /^0: plugin "t" declares stream: "window" and has no stream hook/,
  },
  {
    name: 'an observer without its hook',
    listed: [['t', { stream: 'observe' }], provider],
    problem: /^0: plugin "t" declares stream: "observe" and has no stream hook/,
  },
  {
    name: 'a hold without a judge',
    listed: [['t', { stream: 'hold' }], provider],
    problem: /^0: plugin "t" declares stream: "hold" and has no response hook/,
  },
  {
    name: 'a tap that is not declared',
    listed: [['t', {}, { stream: () => undefined }], provider],
    problem: /^0: plugin "t" has a stream hook and declares no treatment/,
  },
  {
    name: 'a tap of one that ignores streams',
    listed: [['t', { stream: 'ignore' }, { stream: () => undefined }], provider],
    problem: /^0: plugin "t" has a stream hook and declares stream: "ignore"/,
  },
  {
    name: 'a guard that judges streams only',
    listed: [['t', { reads: ['response.text'], stream: 'window' }, { stream: () => undefined }], provider],
    problem: /^0: plugin "t" judges streamed answers only/,
  },
  {
    name: 'an answerer without a request hook',
    listed: [['provider', { answers: true }]],
    problem: /^0: plugin "provider" declares that it answers and has no request hook/,
  },
  {
    name: 'a routes pipeline without routes',
    listed: [auth],
    match: { routes: 'contributed' },
    problem: /^99: no plugin of pipeline "gateway" contributes routes/,
  },
  {
    name: 'routes where none are served',
    listed: [auth, management, provider],
    problem: /^1: the routes of plugin "management" would not be served/,
  },
];
for (const { name, listed, match, problem } of refused) {
  test(`${name} is refused with what to do`, () => {
    const problems = problemsOf(listed, match);
    assert.equal(problems.length, 1, problems.join('\n'));
    assert.match(problems[0] ?? '', problem);
  });
}

test('a plugin with routes says so: a check sees it without creating the plugin', () => {
  const [problem] = problemsOf([auth, ['own', {}, { routes: [route] }], provider]);
  assert.match(problem ?? '', /^1: plugin "own" has routes and does not declare them.*capabilities\.routes/);
});

describe('pipelines beside each other', () => {
  const named = (name: string, match: PipelineConfig['match']) => ({ name, match, plugins: [] });
  const everything = named('gateway', { path: '/**' });
  const cases: readonly [string, ReturnType<typeof named>[], RegExp | undefined][] = [
    [
      'one name for two',
      [named('a', { path: '/a' }), named('a', { path: '/b' })],
      /^\/pipelines\/1\/name: .*"a" is the name of an earlier pipeline/,
    ],
    [
      'one behind everything',
      [everything, named('guarded', { path: '/chat/**' })],
      /^\/pipelines\/1\/match: pipeline "guarded" would never serve.*"gateway"/,
    ],
    ['everything twice', [everything, named('second', { path: '/**' })], /"second" would never serve/],
    [
      'a wider pattern',
      [named('wide', { path: '/chat/**' }), named('narrow', { path: '/chat/completions' })],
      /"narrow" would never serve/,
    ],
    [
      'another spelling of it',
      [named('wide', { path: '/Chat/*' }), named('narrow', { path: '/chat/completions' })],
      /"narrow" would never serve/,
    ],
    [
      'one segment',
      [named('wide', { path: '/*/completions' }), named('narrow', { path: '/chat/completions' })],
      /"narrow" would never serve/,
    ],
    [
      'some of its methods',
      [
        named('wide', { path: '/**', methods: ['GET', 'POST'] }),
        named('narrow', { path: '/x', methods: ['GET'] }),
      ],
      /"narrow" would never serve/,
    ],
    [
      'more methods',
      [named('wide', { path: '/**', methods: ['POST'] }), named('narrow', { path: '/x' })],
      undefined,
    ],
    ['a wider one behind it', [named('narrow', { path: '/chat/**' }), everything], undefined],
    ['a longer path', [named('one', { path: '/chat/*' }), named('two', { path: '/chat/*/x' })], undefined],
    ['routes behind everything', [everything, named('admin', { routes: 'contributed' })], undefined],
  ];
  for (const [what, pipelines, expected] of cases) {
    test(what, () => {
      const found = checkPipelines(pipelines, locate).map(({ path, message }) => `${path}: ${message}`);
      assert.equal(found.length, expected === undefined ? 0 : 1, found.join('\n'));
      if (expected !== undefined) assert.match(found[0] ?? '', expected);
    });
  }

  test('what is called covered, no path comes through to', () => {
    const segment = fc.constantFrom('a', 'b', '*', 'a*', '**');
    const pattern = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join('/')}`);
    const path = fc
      .array(fc.constantFrom('a', 'b', 'ab'), { maxLength: 5 })
      .map((parts) => `/${parts.join('/')}`);
    fc.assert(
      fc.property(pattern, pattern, fc.array(path, { maxLength: 20 }), (wide, narrow, paths) => {
        const covered =
          checkPipelines([named('w', { path: wide }), named('n', { path: narrow })], locate).length > 0;
        fc.pre(covered);
        const [wider, narrower] = [wide, narrow].map(
          (one) => new PathTree([{ place: 0, path: one, keeps: true }]),
        );
        const takes = (tree: PathTree | undefined, one: string) => tree?.first('GET', one, false, 1) === 0;
        for (const one of paths) if (takes(narrower, one)) assert.ok(takes(wider, one), one);
      }),
    );
  });
});

test('one listing of a plugin with routes is enough where a pipeline serves routes', () => {
  const routes = { routes: 'contributed' } as const;
  const gateway = pipelineOf([auth, management, provider]);
  assert.deepEqual(checkRoutes([gateway, pipelineOf([auth, management], routes)], locate), []);
  assert.deepEqual(checkRoutes([gateway, pipelineOf([auth], routes)], locate), []);
  const [second, ...others] = checkRoutes(
    [gateway, pipelineOf([auth], routes), pipelineOf([auth], routes)],
    locate,
  );
  assert.match(second?.message ?? '', /^no plugin of pipeline "gateway" contributes routes/);
  assert.deepEqual(others, []);
});

test('all problems are found at once, each at its plugin', () => {
  const found = problemsOf([limiter, ['t', {}, { response: nothing }], provider, provider]);
  assert.deepEqual(
    found.map((text) => text.slice(0, 2)),
    ['0:', '3:', '1:'],
  );
});
