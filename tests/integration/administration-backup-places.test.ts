// `weir backup` and `weir restore` from one kind of store into the other, and of what an older version wrote.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'drizzle-orm';
import { after, test } from 'node:test';
import pg from 'pg';
import { createDirectory } from '../../core/administration/directory/live-directory.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { systemClock as clock } from '../../core/ports/clock.ts';
import { recordingLog } from '../../storage/embedded/chdb-fixture.ts';
import { startPglite } from '../../storage/embedded/start-pglite.ts';
import { openIdentity } from '../../storage/identity/open-identity.ts';
import { readMigrations } from '../../storage/postgres/migrate.ts';
import { openDatabase } from '../../storage/postgres/open-database.ts';
import { createResources } from '../../storage/postgres/resources.ts';
import { type FakeProviders, startFakeProviders } from '../kit/fake-providers/fake-providers.ts';
import { chat, makePremises, operate, type Premises } from '../kit/operator.ts';
import { postgresMissing, startPostgres } from '../kit/postgres-server.ts';
import { ownerKey, runWeir, startWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';

const env = { WEIR_BACKUP_PASSPHRASE: 'correct horse battery staple' };
const secretKey = 'sk-0123456789-abcdef';

after(stopEverything);

/** A configuration with this store, in a file. */
async function configOf(
  folder: string,
  name: string,
  url: string,
  provider?: FakeProviders,
): Promise<string> {
  const file = path.join(folder, `${name}.config.yaml`);
  const config = {
    version: 1,
    storage: { resources: { url }, analytics: { url: 'none:' } },
    ...(provider && { security: { trusted_hosts: [new URL(provider.url).host] } }),
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
      { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider'] },
    ],
  };
  await writeFile(file, JSON.stringify(config));
  return file;
}

/** Runs a command that must succeed. */
async function run(...args: readonly string[]): Promise<void> {
  const { code, stderr } = await runWeir(args, { env });
  assert.equal(code, 0, stderr);
}

/** Moves everything by a backup from one store and data folder into another. */
async function move(
  from: { readonly config: string; readonly data: string },
  to: { readonly config: string; readonly data: string },
): Promise<void> {
  const file = `${to.data}.backup`;
  await run('backup', '--out', file, '--config', from.config, '--data', from.data);
  await run('restore', file, '--config', to.config, '--data', to.data);
}

const addConfig = (url: string, key: string, name: string): Promise<unknown> =>
  operate(url, { path: '/configs', key, body: { name, config: { retry: { attempts: 2 } } } });

test(
  'from a PostgreSQL server into an embedded folder, and back into a server',
  {
    skip: postgresMissing,
  },
  async (t) => {
    const folder = await temporaryFolder();
    const provider = await startFakeProviders(t);
    const server = await startPostgres();
    t.after(() => server.stop());
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    await client.query('CREATE DATABASE second');
    await client.end();
    const second = new URL(server.url);
    second.pathname = '/second';
    const place = async (name: string, url: string) => ({
      config: await configOf(folder, name, url, provider),
      data: path.join(folder, name),
    });
    const first = await place('server', server.url);
    const embedded = await place('embedded', 'pglite:');
    const other = await place('other', second.href);

    const serves = async (url: string, { key }: Premises, configs: readonly string[]): Promise<void> => {
      const answer = await chat(url, { key, headers: { 'x-service-provider': '@rivers' } });
      assert.equal(answer.status, 200, answer.text);
      assert.equal(provider.seen.at(-1)?.headers['authorization'], `Bearer ${secretKey}`);
      const listed = await operate(url, { path: '/configs', key });
      assert.equal(listed.total, configs.length);
      assert.deepEqual(new Set(listed.data.map(({ name }: { name: string }) => name)), new Set(configs));
    };

    const began = await startWeir({ ...first });
    const premises = await makePremises(began.url, 'Laboratory', [
      ...['completions.write', 'configs.create', 'configs.list'],
    ]);
    const rivers = {
      name: 'Rivers',
      slug: 'rivers',
      ai_provider_id: 'openai',
      key: secretKey,
      workspace_id: premises.workspace,
      configurations: { custom_host: `${provider.url}/openai/v1` },
    };
    await operate(began.url, { path: '/integrations', body: rivers });
    await addConfig(began.url, premises.key, 'of the server');
    await serves(began.url, premises, ['of the server']);

    // While the gateway runs.
    await move(first, embedded);
    await began.stop();
    const moved = await startWeir({ ...embedded });
    await serves(moved.url, premises, ['of the server']);
    await addConfig(moved.url, premises.key, 'of the folder');
    await move(embedded, other);
    await run('audit', 'verify', '--config', other.config, '--data', other.data);
    await moved.stop();
    const back = await startWeir({ ...other });
    await serves(back.url, premises, ['of the server', 'of the folder']);
    await addConfig(back.url, premises.key, 'of the second server');
    assert.equal((await back.stop()).code, 0);

    // A database that has an organisation is left alone.
    const again = path.join(folder, 'again');
    const { code, stderr } = await runWeir(
      ['restore', `${embedded.data}.backup`, '--config', other.config, '--data', again],
      { env },
    );
    assert.equal(code, 1);
    assert.match(stderr, /the store has the organisation ".*" already: restore into an empty one/);
  },
);

test('a backup of the last release is restored, and the next start brings its schema up to date', async () => {
  const folder = await temporaryFolder();
  const config = await configOf(folder, 'embedded', 'pglite:');
  const old = { config, data: path.join(folder, 'old') };
  const young = { config, data: path.join(folder, 'young') };
  const { migrations: released } = JSON.parse(
    await readFile(new URL('../../storage/postgres/last-release.json', import.meta.url), 'utf8'),
  ) as { readonly migrations: number };
  const all = await readMigrations();
  const log = recordingLog();
  const secret = 'wk_written_by_the_last_release';

  // A folder as that release left it.
  const identity = await openIdentity(old.data, {
    presetKey: ownerKey,
    ownerEmail: undefined,
    keyPrefix: 'wk',
  });
  const { defaultOrganisationId: organisationId, defaultWorkspaceId } = identity.directory;
  const engine = await startPglite({ directory: path.join(old.data, 'resources'), log, clock });
  const migrations = all.slice(0, Math.min(released, all.length - 1));
  const database = await openDatabase({ place: engine, log, clock, migrations });
  const resources = createResources({ database, clock, log });
  const directory = createDirectory({
    base: identity.directory,
    owner: identity.owner,
    resources,
    clock,
    log,
    metrics: new RecordingMetrics(),
  });
  await directory.start();
  const hash = createHash('sha256').update(secret).digest('base64');
  const key = { id: 'key-of-the-last-release' };
  // With the columns of that release: this version names more.
  await database.query((statements) =>
    statements.execute(sql`
      INSERT INTO api_keys (id, organisation_id, workspace_id, user_id, name, description, type, status, scopes,
        rate_limits, defaults, alert_emails, masked, creation_mode, created_at, updated_at, version, change, secret_hash)
      VALUES (${key.id}, ${organisationId}, ${defaultWorkspaceId}, '', 'Old', '', 'workspace-service', 'active',
        ARRAY['completions.write'], '[]', '{}', '{}', 'wk_…', 'api', now(), now(), 1, 1, ${hash})`),
  );
  directory.close();
  await database.close();
  await engine.close();

  await move(old, young);
  const head = JSON.parse((await readFile(`${young.data}.backup`, 'utf8')).split('\n', 1)[0] ?? '');
  assert.equal(head.migrations.length, migrations.length);
  const gateway = await startWeir({ ...young });
  await gateway.untilStderr(new RegExp(`brought up to date.*${all.at(-1)?.name ?? ''}`));
  const headers = { 'x-service-provider': 'mock' };
  const { status, text } = await chat(gateway.url, { key: secret, model: 'mock-gpt', headers });
  assert.equal(status, 200, text);
  const { data } = await operate(gateway.url, { path: '/api-keys?page_size=100' });
  assert.ok(data.some(({ id }: { id: string }) => id === key.id));
  assert.equal((await gateway.stop()).code, 0);
  await run('audit', 'verify', '--config', young.config, '--data', young.data);
});
