// `weir plan` on requests that saved records lead: configs, a workspace's default, guardrails and providers of the store.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import path from 'node:path';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import type { ChangeReport } from '../../core/administration/changes/compare-requests.ts';
import { makePremises, operate, type Premises } from '../kit/operator.ts';
import {
  eventually,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

/** Nothing listens there: the saved provider of these tests answers nothing. */
const absent = '127.0.0.1:9';
const mock = { base_url: 'mock:', credentials: 'none' };
const configuration = (providers: Readonly<Record<string, object>>, temperature: number) => ({
  version: 1,
  security: { trusted_hosts: [absent] },
  storage: { resources: { url: 'pglite:' }, analytics: { url: 'none:' } },
  providers,
  configs: { 'of-file': { targets: [{ provider: '@first', override_params: { temperature } }] } },
  pipelines: [
    { name: 'administration', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: ['auth', 'guardrails', { provider: { default: 'first' } }, { logger: { bodies: true } }],
    },
  ],
});
const both = { first: mock, second: mock };

let folder: string;
let data: string;
let weir: WeirProcess;
let premises: Premises;
const ids = new Map<string, string[]>();

async function ask(kind: string, headers: Record<string, string>, content = 'Hello'): Promise<void> {
  const answer = await fetch(`${weir.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-service-api-key': premises.key, ...headers },
    body: JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content }] }),
  });
  await answer.text();
  ids.set(kind, [...(ids.get(kind) ?? []), answer.headers.get('x-service-request-id') ?? '']);
}

const file = (name: string): string => path.join(folder, name);

before(async () => {
  folder = await temporaryFolder();
  data = file('data');
  await writeFile(file('current.json'), JSON.stringify(configuration(both, 1)));
  weir = await startWeir({ config: file('current.json'), data });
  premises = await makePremises(weir.url, 'Laboratory', ['completions.write', 'configs.create']);
  const { key, workspace } = premises;
  const guardrail = await operate(weir.url, {
    path: '/guardrails',
    body: {
      name: 'No secrets',
      workspace_id: workspace,
      checks: [{ id: 'default.contains', parameters: { operator: 'none', words: ['secret'] } }],
      actions: { deny: true },
    },
  });
  const make = async (name: string, config: object): Promise<string> => {
    const { data: made } = await operate(weir.url, { path: '/configs', key, body: { name, config } });
    return String(made.slug);
  };
  const guarded = await make('Guarded', {
    input_guardrails: [guardrail.slug],
    targets: [{ provider: '@second', override_params: { temperature: 0 } }],
  });
  const usual = await make('Usual', { targets: [{ provider: '@second' }] });
  await operate(weir.url, {
    path: '/integrations',
    body: {
      ...{ name: 'Saved', slug: 'saved', ai_provider_id: 'openai', key: 'sk-0123456789-abcdef' },
      ...{ workspace_id: workspace, configurations: { custom_host: `http://${absent}/v1` } },
    },
  });
  for (let turn = 0; turn < 4; turn++) {
    await ask('guarded', { 'x-service-config': guarded }, turn === 0 ? 'the secret plan' : 'a fine day');
    await ask('saved', { 'x-service-provider': '@saved' });
    await ask('of-file', { 'x-service-config': 'of-file' });
  }
  await operate(weir.url, {
    method: 'PUT',
    path: `/admin/workspaces/${workspace}`,
    body: { defaults: { config_id: usual } },
  });
  for (let turn = 0; turn < 3; turn++) await ask('usual', {});
  for (const provider of ['first', 'second'])
    await ask('inline', {
      'x-service-config': JSON.stringify({
        provider,
        api_key: 'sk-0123456789-abcdefghij',
        override_params: { max_tokens: 7 },
      }),
    });
  await ask('sensitive', {
    'x-service-config': JSON.stringify({ provider: 'second' }),
    'x-service-sensitive-headers': 'x-service-config',
  });
});
after(stopEverything);

async function plan(next: object, ...more: string[]): Promise<{ code: number | null; report: ChangeReport }> {
  await writeFile(file('next.json'), JSON.stringify(next));
  const args = ['--config', file('next.json'), '--current', file('current.json'), '--data', data];
  const { code, stdout, stderr } = await runWeir(['plan', ...args, '--format', 'json', ...more], {
    cwd: folder,
  });
  assert.notEqual(stdout, '', stderr);
  return { code, report: JSON.parse(stdout) as ChangeReport };
}

/** The provider of all saved configs is dropped, and the config of the file changes a parameter. */
const without = configuration({ first: mock }, 0);

const notKept =
  'its config came with the request, and the log does not keep it: it is longer than 4 KiB, called sensitive, or of an older version';

function assertTold({ report, code }: Awaited<ReturnType<typeof plan>>): void {
  assert.equal(code, 3);
  assert.equal(report.recordsUnread, null);
  assert.deepEqual(
    report.notJudged.map(({ what, requests }) => [what, requests]),
    [[notKept, 1]],
  );
  const told = report.classes.map(({ config, refusals, parameters }) => [
    config.replace(/^pc-([a-z]+)-.*/, '$1'),
    refusals.map(({ what, requests, example }) => [
      what.replace(/: (\d+).*| \(.*/, (_, status = '') => status && ` ${status}`),
      requests,
      example,
    ]),
    parameters.map(({ what }) => what),
  ]);
  const example = (kind: string, turn = 0): string | undefined => ids.get(kind)?.[turn];
  // Records apply as they are now: a default of the workspace that cannot be used refuses whatever it leads or accompanies.
  assert.deepEqual(told, [
    [
      'guarded',
      [
        ['are refused 400', 3, example('guarded', 1)],
        ['400 invalid_config by provider instead of 446 hooks_failed by guardrails', 1, example('guarded')],
      ],
      [],
    ],
    ['', [['are refused 400', 4, example('saved')]], []],
    ['of-file', [], ['temperature becomes 0 instead of 1']],
    ['usual', [['are refused 400', 3, example('usual')]], []],
    ['inline', [['are refused 400', 1, example('inline', 1)]], []],
  ]);
}

test('saved configs, defaults, guardrails and providers apply to both sides, while their gateway runs', async () => {
  const same = await plan(configuration(both, 1));
  assert.equal(same.code, 0, JSON.stringify(same.report, null, 1));
  assert.deepEqual([same.report.requests, same.report.changed], [18, 0]);
  assertTold(await plan(without));
});

test('they do as well when it has ended', async () => {
  await weir.stop();
  assertTold(await plan(without));
});

test('of a config that came with its request the log has everything but the secrets', async () => {
  const journal = path.join(data, 'journal');
  // Rows wait a moment for their disk.
  const { text, kept } = await eventually(async () => {
    const files = (await readdir(journal, { withFileTypes: true })).filter((entry) => entry.isFile());
    const texts = await Promise.all(files.map(({ name }) => readFile(path.join(journal, name), 'utf8')));
    const text = texts.join('');
    const kept = text.match(/\{\\+"provider[^}]*\}\}/g) ?? [];
    return kept.length === 2 ? { text, kept } : undefined;
  });
  const told = kept.map((one) => JSON.parse(one.replaceAll('\\', '')) as object);
  const secret = { api_key: '***', override_params: { max_tokens: 7 } };
  assert.deepEqual(told, [
    { provider: 'first', ...secret },
    { provider: 'second', ...secret },
  ]);
  assert.doesNotMatch(text, /abcdefghij/);
});

test('a store that cannot be read is said, with the requests that were not judged for it', async () => {
  const storage = { resources: { url: `pglite:${file('gone')}` }, analytics: { url: 'none:' } };
  await writeFile(file('current.json'), JSON.stringify({ ...configuration(both, 1), storage }));
  const { report } = await plan(without);
  assert.match(report.recordsUnread ?? '', /^There is no store at .*gone.*--data/);
  const told = report.notJudged.map(({ what, requests }) => [
    what.replace(/"pc-([a-z]+)-[^"]*"/, '$1'),
    requests,
  ]);
  assert.deepEqual(told, [
    ['its config guarded is not in force now, and records saved in the store are not known', 4],
    [
      'the current configuration does not lead it to the provider "saved" of its log, and records saved in the store are not known',
      4,
    ],
    ['its config usual is not in force now, and records saved in the store are not known', 3],
    [notKept, 1],
  ]);
});
