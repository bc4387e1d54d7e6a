// `weir plan` on records of a PostgreSQL server, which it reads and does not change.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import pg from 'pg';
import type { ChangeReport } from '../../core/administration/changes/compare-requests.ts';
import { chat, makePremises, operate } from '../kit/operator.ts';
import { samplesOf } from '../kit/document-samples.ts';
import { postgresMissing, startPostgres, type PostgresServer } from '../kit/postgres-server.ts';
import { runWeir, startWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';

/** Nothing listens there. */
const absent = '127.0.0.1:9';
const mock = { base_url: 'mock:', credentials: 'none' };

describe('weir plan on a PostgreSQL server', { skip: postgresMissing }, () => {
  let server: PostgresServer;
  let client: pg.Client;
  /** Of the gateway's own role. */
  let url: string;
  let folder: string;
  const data = (): string => path.join(folder, 'data');

  const write = async (name: string, url: string, providers: object): Promise<string> => {
    const file = path.join(folder, `${name}.json`);
    const configuration = {
      version: 1,
      security: { trusted_hosts: [absent] },
      storage: { resources: { url }, analytics: { url: 'none:' } },
      providers,
      pipelines: [
        { name: 'administration', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
        {
          name: 'gateway',
          match: { path: '/**' },
          plugins: ['auth', 'guardrails', { provider: { default: 'first' } }, 'logger'],
        },
      ],
    };
    await writeFile(file, JSON.stringify(configuration));
    return file;
  };

  /** A hash of all rows of each table. */
  const written = async (): Promise<unknown> => {
    const tables = await client.query<{ name: string }>(
      "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) AS name FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
    );
    assert.ok(tables.rows.length > 5, 'the tables of the gateway');
    const counts: [string, string][] = [];
    for (const { name } of tables.rows) {
      const found = await client.query<{ is: string }>(
        `SELECT md5(string_agg(t::text, ',' ORDER BY t::text)) AS is FROM ${name} t`,
      );
      counts.push([name, found.rows[0]?.is ?? '']);
    }
    return counts;
  };

  before(async () => {
    folder = await temporaryFolder();
    server = await startPostgres();
    // What docs/postgres.md has an administrator say, for a role of another name: `weir` is the superuser here.
    const administrator = new pg.Client({ connectionString: server.url });
    await administrator.connect();
    const page = (await samplesOf('docs/postgres.md')).find(({ text }) => text.includes('CREATE ROLE weir'));
    const said = (page?.text ?? assert.fail('no sample'))
      .replaceAll(/\bweir\b/g, 'gateway')
      .replace('…', 'a word');
    for (const statement of said.split('\n')) await administrator.query(statement);
    await administrator.query("CREATE ROLE reader LOGIN PASSWORD 'reads' IN ROLE pg_read_all_data");
    await administrator.end();
    const { host } = new URL(server.url);
    url = `postgres://gateway:a%20word@${host}/gateway`;
    client = new pg.Client({ connectionString: url });
    await client.connect();
  });
  after(async () => {
    await stopEverything();
    await client.end();
    await server.stop();
  });

  test('configs, guardrails and integrations of the server apply, for a role that may only read', async () => {
    const current = await write('current', url, { first: mock, second: mock });
    const env = { WEIR_SECRET_KEY: randomBytes(32).toString('base64') };
    const weir = await startWeir({ config: current, data: data(), env });
    const { key, workspace } = await makePremises(weir.url, 'Laboratory', [
      ...['completions.write', 'configs.create'],
    ]);
    const guardrail = await operate(weir.url, {
      path: '/guardrails',
      body: {
        name: 'Small models',
        workspace_id: workspace,
        checks: [{ id: 'default.modelWhitelist', parameters: { models: ['gpt-5.1'] } }],
        actions: { deny: true },
      },
    });
    const { data: guarded } = await operate(weir.url, {
      path: '/configs',
      key,
      body: {
        name: 'Guarded',
        config: { input_guardrails: [guardrail.slug], targets: [{ provider: '@second' }] },
      },
    });
    await operate(weir.url, {
      path: '/integrations',
      body: {
        ...{ name: 'Saved', slug: 'saved', ai_provider_id: 'openai', key: 'sk-0123456789-abcdef' },
        ...{ workspace_id: workspace, configurations: { custom_host: `http://${absent}/v1` } },
      },
    });
    const led = { 'x-service-config': String(guarded.slug) };
    for (const model of ['gpt-5.1', 'gpt-5.1', 'gpt-4o']) await chat(weir.url, { key, model, headers: led });
    await chat(weir.url, { key, headers: { 'x-service-provider': '@saved' } });
    await weir.stop();

    const reader = new URL(url);
    [reader.username, reader.password] = ['reader', 'reads'];
    const reads = await write('reads', reader.href, { first: mock, second: mock });
    const next = await write('next', reader.href, { first: mock });
    const before = await written();
    const plan = async (file: string): Promise<ChangeReport> => {
      const args = ['plan', '--config', file, '--current', reads, '--data', data(), '--format', 'json'];
      const { stdout, stderr } = await runWeir(args, { cwd: folder, env });
      assert.notEqual(stdout, '', stderr);
      return JSON.parse(stdout) as ChangeReport;
    };
    const same = await plan(reads);
    assert.deepEqual([same.requests, same.changed, same.notJudged, same.recordsUnread], [4, 0, [], null]);
    const { classes, notJudged, recordsUnread } = await plan(next);
    assert.deepEqual([notJudged, recordsUnread], [[], null]);
    const told = classes.map(({ model, config, refusals }) => [
      ...[model, config === guarded.slug],
      refusals.map(({ what, requests }) => [what.replace(/ \(.*/, ''), requests]),
    ]);
    assert.deepEqual(told.sort(), [
      ['gpt-4o', true, [['400 invalid_config by provider instead of 446 hooks_failed by guardrails', 1]]],
      [
        'gpt-5.1',
        true,
        [
          [
            `are refused: 400 invalid_config by provider: they went to second/gpt-5.1 by the config ${guarded.slug}`,
            2,
          ],
        ],
      ],
    ]);
    assert.deepEqual(await written(), before);
  });

  test('a server that is away is said, and what is of the file alone is judged', async () => {
    const { port } = server;
    const gone = await write('gone', `postgres://weir:x@127.0.0.1:${port}/none`, {
      first: mock,
      second: mock,
    });
    const args = ['plan', '--config', gone, '--current', gone, '--data', data(), '--format', 'json'];
    const { stdout, stderr } = await runWeir(args, { cwd: folder });
    assert.notEqual(stdout, '', stderr);
    const { recordsUnread, notJudged } = JSON.parse(stdout) as ChangeReport;
    assert.match(recordsUnread ?? '', /127\.0\.0\.1/);
    assert.doesNotMatch(recordsUnread ?? '', /weir:x/);
    assert.equal(
      notJudged.reduce((sum, { requests }) => sum + requests, 0),
      4,
    );
  });
});
