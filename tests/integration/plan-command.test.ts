// `weir plan`: recorded requests through the current and a new configuration, without sending any.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import path from 'node:path';
import { writeFile } from 'node:fs/promises';
import type { ChangeReport } from '../../core/administration/changes/compare-requests.ts';
import { samplesOf, shownInForm } from '../kit/document-samples.ts';
import { ownerKey, runWeir, startWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';

const guest = 'wk_guest_0123456789abcdef';
const split = (a: number, b: number, more: object = {}) => ({
  strategy: { mode: 'loadbalance' },
  targets: [
    { provider: '@first', weight: a },
    { provider: '@second', weight: b },
  ],
  ...more,
});
const configuration = ({
  configs = { split: split(3, 1) },
  providers = {},
  keys = [{ name: 'guest', key: guest }] as readonly object[],
} = {}) => ({
  version: 1,
  storage: { resources: { url: 'none:' }, analytics: { url: 'none:' } },
  providers: {
    first: { base_url: 'mock:', credentials: 'none' },
    second: { base_url: 'mock:', credentials: 'none' },
    old: { base_url: 'mock:', credentials: 'none' },
    ...providers,
  },
  configs,
  pipelines: [
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: [{ auth: { keys } }, 'guardrails', { provider: { default: 'first' } }, 'logger'],
    },
  ],
});

let folder: string;
let current: string;
const ids = new Map<string, string[]>();

before(async () => {
  folder = await temporaryFolder();
  current = path.join(folder, 'current.json');
  await writeFile(current, JSON.stringify(configuration()));
  const weir = await startWeir({ config: current, data: path.join(folder, 'data') });
  const ask = async (kind: string, headers: Record<string, string>, body: object): Promise<void> => {
    const answer = await fetch(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-service-api-key': ownerKey, ...headers },
      body: JSON.stringify(body),
    });
    await answer.text();
    ids.set(kind, [...(ids.get(kind) ?? []), answer.headers.get('x-service-request-id') ?? '']);
  };
  const chat = (content: string, more = {}) => ({
    model: 'gpt-4o',
    messages: [{ role: 'user', content }],
    temperature: 1,
    ...more,
  });
  for (let turn = 0; turn < 20; turn++) {
    const content = turn % 5 === 0 ? 'the secret plan' : 'a fine day';
    await ask('split', { 'x-service-config': 'split' }, chat(content));
  }
  for (let turn = 0; turn < 4; turn++) await ask('old', { 'x-service-provider': '@old' }, chat('Hello'));
  for (let turn = 0; turn < 2; turn++)
    await ask('bare', { 'x-service-debug': 'false', 'x-service-api-key': guest }, chat('Hello'));
  await weir.stop();
});
after(stopEverything);

async function run(next: object, ...more: string[]): ReturnType<typeof runWeir> {
  const file = path.join(folder, 'next.json');
  await writeFile(file, JSON.stringify(next));
  const data = path.join(folder, 'data');
  return runWeir(['plan', '--config', file, '--current', current, '--data', data, ...more], { cwd: folder });
}

async function plan(next: object): Promise<{ code: number | null; report: ChangeReport }> {
  const { code, stdout, stderr } = await run(next, '--format', 'json');
  assert.notEqual(stdout, '', stderr);
  return { code, report: JSON.parse(stdout) as ChangeReport };
}

test('the same configuration changes nothing, and ends with 0', async () => {
  const { code, report } = await plan(configuration());
  assert.equal(code, 0);
  assert.equal(report.requests, 26);
  assert.equal(report.changed, 0);
  assert.deepEqual(report.notJudged, []);
  assert.equal(report.withoutBody, 2);
});

test('a changed weight, a new guardrail and a parameter are told for the class of their requests', async () => {
  const guard = { 'default.contains': { operator: 'none', words: ['secret'] }, deny: true, id: 'no-secrets' };
  const { code, report } = await plan(
    configuration({
      configs: { split: split(1, 1, { input_guardrails: [guard], override_params: { temperature: 0 } }) },
    }),
  );
  assert.equal(code, 3);
  const [one, ...others] = report.classes;
  assert.deepEqual(others, []);
  assert.ok(one);
  assert.deepEqual(
    [one.pipeline, one.route, one.wire, one.model, one.config, one.requests],
    ['gateway', 'POST /v1/chat/completions', 'openai-chat', 'gpt-4o', 'split', 20],
  );
  const [refusal] = one.refusals;
  assert.equal(refusal?.requests, 4);
  assert.match(
    refusal?.what ?? '',
    /^are refused: 446 hooks_failed by guardrails \(no-secrets\/default.contains\)$/,
  );
  assert.ok(ids.get('split')?.includes(refusal?.example ?? ''));
  const [first, second] = one.targets;
  assert.deepEqual([first?.target, second?.target], ['first/gpt-4o', 'second/gpt-4o']);
  assert.ok(Math.abs((first?.before ?? 0) - 15) <= 1, JSON.stringify(one.targets));
  assert.ok(Math.abs((first?.after ?? 0) - (second?.after ?? 0)) <= 4, JSON.stringify(one.targets));
  assert.deepEqual(
    one.parameters.map(({ what, requests }) => [what, requests]),
    [['temperature becomes 0 instead of 1', 16]],
  );
});

test('a dropped provider and a dropped key refuse the requests that used them', async () => {
  const next = configuration({ keys: [] });
  const { first, second } = next.providers;
  const { code, report } = await plan({ ...next, providers: { first, second } });
  assert.equal(code, 3);
  const told = report.classes.flatMap(({ refusals }) => refusals);
  assert.ok(told.some(({ what }) => what.endsWith('by provider: they went to old/gpt-4o')));
  assert.deepEqual(told.map(({ what, requests }) => [what.replace(/: (\d+).*/, ' $1'), requests]).sort(), [
    ['are refused 400', 4],
    ['are refused 401', 2],
  ]);
});

test('a model that the new configuration leaves out is named, with what served it', async () => {
  const of = (model: string) => ({
    strategy: { mode: 'conditional', conditions: [{ query: { 'params.model': model }, then: 'one' }] },
    targets: [{ name: 'one', provider: '@second' }],
  });
  const { report } = await plan(configuration({ configs: { split: of('gpt-4.1') as never } }));
  const told = report.classes.flatMap(({ refusals }) => refusals);
  const sentence = (provider: string): string =>
    `are refused: 400 invalid_request by provider: the model "gpt-4o" is no longer served; it went to ${provider}/gpt-4o by the config split`;
  assert.deepEqual(told.map(({ what }) => what).sort(), [sentence('first'), sentence('second')]);
  assert.equal(
    told.reduce((sum, { requests }) => sum + requests, 0),
    20,
  );
});

test('the report for people names classes, examples and what was judged without a body', async () => {
  const { code, stdout } = await run(configuration({ configs: { split: split(1, 0) } }));
  assert.equal(code, 3);
  assert.match(stdout, /next\.json: of 26 requests \d+ change/);
  assert.match(
    stdout,
    /gateway {2}POST \/v1\/chat\/completions {2}\(openai-chat, gpt-4o, config split\): \d of 20 requests/,
  );
  assert.match(stdout, /second\/gpt-4o {2}[\d.]+ % → 0 %/);
  assert.match(stdout, /2 requests had no body in the log/);
});

test('docs/safe-change.md shows what is printed', async () => {
  const guard = { 'default.contains': { operator: 'none', words: ['secret'] }, deny: true, id: 'no-secrets' };
  const { stdout } = await run(
    configuration({
      configs: { split: split(1, 1, { input_guardrails: [guard], override_params: { temperature: 0 } }) },
      keys: [],
    }),
  );
  const page = (await samplesOf('docs/safe-change.md')).find(({ text }) => text.includes(' plan --config'));
  assert.match(
    stdout.replace(/^.*next\.json/, 'new.yaml'),
    shownInForm(page?.text ?? assert.fail('no sample')),
  );
});

test('a configuration with a fault is told with its place, and ends with 1', async () => {
  const file = path.join(folder, 'wrong.yaml');
  await writeFile(file, 'version: 1\npipelines:\n  - nam: x\n');
  const { code, stderr } = await runWeir([
    'plan',
    '--config',
    file,
    '--current',
    current,
    '--data',
    path.join(folder, 'data'),
  ]);
  assert.equal(code, 1);
  assert.match(stderr, /wrong\.yaml:3:5.*did you mean "name"/s);
});

test('no recorded request is said so, with the remedy', async () => {
  const { code, stderr } = await runWeir([
    'plan',
    '--config',
    current,
    '--current',
    current,
    '--data',
    path.join(folder, 'other'),
  ]);
  assert.equal(code, 1);
  assert.match(stderr, /No request was recorded since .*--since 24h/);
});
