import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { readArguments } from '../../core/administration/cli/arguments.ts';
import { importFrom, runImportCommand } from './run.ts';

const fixtures = fileURLToPath(new URL('../../tests/fixtures/import', import.meta.url));

describe('the report of an import', () => {
  const imported = (file: string) =>
    importFrom({ from: 'litellm', file: path.join(fixtures, 'litellm', file) });

  test('no secret is in the configuration or the report', async () => {
    for (const file of await readdir(path.join(fixtures, 'litellm'))) {
      const { yaml, report } = await imported(file);
      const all = yaml + report.text() + JSON.stringify(report.file());
      const source = await readFile(path.join(fixtures, 'litellm', file), 'utf8');
      for (const secret of [
        'first-house-key',
        'second-house-key',
        'a-literal-token',
        'a-literal-in-a-path',
        'not-to-be-seen-0815',
        'p4ss',
        'sk-one',
        'sk-two',
        'sk-short',
      ]) {
        if (source.includes(secret)) assert.equal(all.includes(secret), false, `${secret} of ${file}`);
      }
    }
  });

  test('no secret of other gateways is there, and every value has a line', async () => {
    const files = [
      ['portkey', 'portkey/fallback.json'],
      ['portkey', 'portkey/conf.json'],
      ['portkey', 'portkey/export.json'],
      ['portkey', 'portkey-folder'],
      ['bifrost', 'bifrost/virtual-keys.json'],
      ['bifrost', 'bifrost/mcp.json'],
      ['openrouter', 'openrouter/fallback.json'],
    ] as const;
    for (const [from, file] of files) {
      const { yaml, report } = await importFrom({ from, file: path.join(fixtures, file) });
      const all = yaml + report.text() + JSON.stringify(report.file());
      assert.doesNotMatch(all, /a-literal-|\*\*\*\*/, file);
      const forgotten = report
        .file()
        .lines.filter(({ message }) => message.includes('not known to the importer'));
      assert.deepEqual(forgotten, [], file);
    }
  });

  test('every setting has a line, with its place', async () => {
    const { report } = await imported('proxy-server.yaml');
    const { lines, variables: needed, summary } = report.file();
    const lineOf = (pointer: string) => lines.find((one) => one.pointer === pointer);
    const sagemaker = lineOf('/model_list/4');
    assert.equal(sagemaker?.verdict, 'missing');
    const text = await readFile(path.join(fixtures, 'litellm/proxy-server.yaml'), 'utf8');
    assert.match(text.split('\n')[(sagemaker?.line ?? 0) - 1] ?? '', /endpoint-model/);
    assert.equal(lineOf('/router_settings/routing_strategy')?.verdict, 'changed');
    assert.equal(lineOf('/router_settings/model_group_alias/twin-by-another-name')?.verdict, 'mapped');
    assert.match(lineOf('/general_settings/master_key')?.message ?? '', /8 characters, and a key needs 16/);
    assert.equal(summary.mapped, lines.filter(({ verdict }) => verdict === 'mapped').length);
    const copied = needed.filter((one) => one.isCopiedByHand).map(({ name }) => name);
    assert.deepEqual(copied.toSorted(), [
      'LITELLM_MASTER_KEY',
      'MODELS_EXAMPLE_COM_API_KEY',
      'MODELS_EXAMPLE_COM_API_KEY_2',
    ]);
  });

  test('what nothing is known about is named itself, not with its section; a store of several instances is one', async () => {
    const { yaml, report } = await imported('instances.yaml');
    const { lines } = report.file();
    const of = (pointer: string) => lines.find((one) => one.pointer === pointer);
    assert.match(of('/general_settings/a_setting_of_tomorrow')?.message ?? '', /^is not known/);
    assert.equal(of('/general_settings'), undefined);
    assert.match(of('/model_list/0')?.message ?? '', /no router learns which model to ask/);
    assert.match(of('/sandbox_tools')?.message ?? '', /runs no code/);
    assert.equal(of('/general_settings/otel')?.verdict, 'changed');
    const { storage } = parse(yaml) as { storage: { counters: { url: string } } };
    assert.equal(storage.counters.url, 'redis://:${REDIS_PASSWORD}@${REDIS_HOST}:${REDIS_PORT}');
  });

  test('a config of Portkey that names no provider says so, and a target at Azure which resource it needs', async () => {
    const messages = async (name: string): Promise<string> => {
      const file = path.join(fixtures, 'portkey', name);
      return (await importFrom({ from: 'portkey', file })).report.text();
    };
    assert.match(await messages('retry-only.json'), /changed: \/: names no provider, so each request has to/);
    assert.match(
      await messages('inline-azure.json'),
      /changed: \/targets\/0\/provider: names no resource of Azure: AZURE_RESOURCE_NAME does/,
    );
    const guessed = await messages('named-by-word.json');
    assert.match(guessed, /"open-ai-team" is: .* is taken for "openai"/);
    assert.match(guessed, /"anyscale-7d1f" is: .* is taken for "anyscale"/);
    assert.doesNotMatch(await messages('plain-conf.json'), /not known/);
  });

  test('a file of Bifrost may hold stores alone; what is switched off there is no loss', async () => {
    const of = async (name: string) =>
      (await importFrom({ from: 'bifrost', file: path.join(fixtures, 'bifrost', name) })).report.file();
    const stores = await of('stores.json');
    assert.deepEqual([stores.summary.changed, stores.summary.missing], [2, 0]);
    const { lines } = await of('virtual-keys.json');
    assert.equal(lines.find(({ pointer }) => pointer.endsWith('/use_for_batch_api'))?.verdict, 'mapped');
  });

  test('servers, guardrails, budgets and breakers are where they belong', async () => {
    const config = parse((await imported('mcp.yaml')).yaml) as {
      organisation: Record<string, unknown>;
      configs: Record<string, Record<string, unknown>>;
      pipelines: { plugins: (string | Record<string, unknown>)[] }[];
    };
    assert.deepEqual(config.organisation['defaults'], { input_guardrails: ['words'] });
    assert.deepEqual(config.configs['litellm']?.['cb_config'], {
      failure_threshold: 3,
      cooldown_interval: 60_000,
      failure_status_codes: [401, 403, 408, 409, 429, 500, 502, 503, 504, 529],
    });
    const mcp = config.pipelines[2]?.plugins.find((one) => typeof one === 'object' && 'mcp' in one);
    assert.deepEqual(mcp, {
      mcp: {
        servers: {
          zap: {
            url: 'https://zap.example.com/mcp',
            transport: 'sse',
            headers: { authorization: 'Bearer ${ZAP_TOKEN}' },
          },
          issues: {
            url: 'https://issues.example.com/mcp',
            headers: { 'x-api-key': '${ISSUES_TOKEN}' },
            allow: ['find'],
          },
          hooks: { url: '${HOOKS_URL}', transport: 'sse' },
          calculator: { command: 'python3', args: ['server.py'], env: { MODE: 'quiet' } },
        },
      },
    });
    const [policy] = config.organisation['usage_limit_policies'] as Record<string, unknown>[];
    assert.equal(policy?.['credit_limit'], 100);
    assert.equal(policy?.['periodic_reset'], 'monthly');
  });
});

describe('weir import litellm', () => {
  const file = path.join(fixtures, 'litellm/ollama.yaml');

  test('the command line', () => {
    assert.deepEqual(readArguments(['import', 'litellm', 'config.yaml', '--out', 'new.yaml'], {}), {
      ...{ name: 'import-from', from: 'litellm', file: 'config.yaml' },
      ...{ out: 'new.yaml', report: undefined, force: false },
    });
    assert.equal(readArguments(['import', 'export.yaml'], {}).name, 'import');
    const wrong = readArguments(['import', 'litellm'], {});
    assert.match(wrong.name === 'help' ? (wrong.problem ?? '') : '', /takes one file, or a folder/);
  });

  test('a file that is there stays, unless --force', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'weir-import-'));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const out = path.join(folder, 'gateway.config.yaml');
    const report = path.join(folder, 'report.json');
    const told: string[] = [];
    const output = { print: (text: string) => told.push(text), complain: (text: string) => told.push(text) };
    const command = { name: 'import-from', from: 'litellm', file, out, report, force: false } as const;
    assert.equal(await runImportCommand(command, output), 0);
    assert.match(await readFile(out, 'utf8'), /^# Imported from ollama\.yaml/);
    assert.equal(JSON.parse(await readFile(report, 'utf8')).summary.missing, 0);
    assert.equal(await runImportCommand(command, output), 1);
    assert.match(told.at(-1) ?? '', /is there already; --force writes over it/);
    assert.equal(await runImportCommand({ ...command, force: true }, output), 0);
  });

  test('a file that is none of LiteLLM, and one that is no YAML, are refused with their place', async () => {
    const told: string[] = [];
    const output = { print: () => undefined, complain: (text: string) => told.push(text) };
    const rest = {
      name: 'import-from',
      from: 'litellm',
      out: undefined,
      report: undefined,
      force: false,
    } as const;
    const other = fileURLToPath(new URL('../../gateway.config.yaml', import.meta.url));
    assert.equal(await runImportCommand({ ...rest, file: other }, output), 1);
    assert.match(told.at(-1) ?? '', /is no configuration of LiteLLM/);
    assert.equal(await runImportCommand({ ...rest, file: `${file}.not` }, output), 1);
    assert.match(told.at(-1) ?? '', /there is no such file/);
  });
});
