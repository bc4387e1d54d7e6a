// `weir backup` while the gateway runs and is written to, `weir restore`, and what serves afterwards; `weir import` into
// an empty folder.
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, test } from 'node:test';
import { startFakeProviders, type FakeProviders } from '../kit/fake-providers/fake-providers.ts';
import { call, chat, makePremises, operate, type Premises } from '../kit/operator.ts';
import {
  eventually,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const passphrase = 'correct horse battery staple';
const secretKey = 'sk-0123456789-abcdef';
const scopes = [
  'completions.write',
  'prompts.create',
  'prompts.render',
  'prompts.list',
  'configs.create',
  'configs.list',
];

let folder: string;
let config: string;
let file: string;
let provider: FakeProviders;
let premises: Premises;
let prompt: string;
const weir = (args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}) =>
  runWeir([...args, '--config', config], { env: { WEIR_BACKUP_PASSPHRASE: passphrase, ...env } });
const dataOf = (name: string): string => path.join(folder, name);
const start = (name: string): Promise<WeirProcess> => startWeir({ config, data: dataOf(name) });

/** The names of a workspace's configs. */
async function configsOf(url: string): Promise<string[]> {
  const names: string[] = [];
  for (let page = 0; ; page += 1) {
    const list = await operate(url, {
      path: `/configs?current_page=${page}&page_size=100`,
      key: premises.key,
    });
    names.push(...list.data.map((one: { name: string }) => one.name));
    if (list.data.length < 100) return names;
  }
}

/** A refused attempt, and the attempts that the audit trail shows with it. */
async function refusals(url: string): Promise<number> {
  const refused = await call(url, { path: '/admin/workspaces', key: premises.key, body: { name: 'Other' } });
  assert.equal(refused.status, 403, refused.text);
  const of = `start_time=2000-01-01T00:00:00Z&method=POST&uri=/v1/admin/workspaces&response_status_code=403`;
  return eventually(async () => {
    const { records } = await operate(url, { path: `/audit-logs?${of}` });
    return records.length > 0 ? (records.length as number) : undefined;
  });
}

/** The restored records serve as before: the key, the stored secret of the provider, the prompt. */
async function assertServes(url: string): Promise<void> {
  const headers = { 'x-service-provider': '@rivers' };
  const answer = await chat(url, { key: premises.key, headers });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(provider.seen.at(-1)?.headers['authorization'], `Bearer ${secretKey}`);
  const rendered = await call(url, {
    path: `/prompts/${prompt}/render`,
    key: premises.key,
    body: { variables: { country: 'Austria' } },
  });
  assert.match(rendered.text, /rivers of Austria/);
}

after(stopEverything);

test('backup, restore and import', async (t) => {
  folder = await temporaryFolder();
  provider = await startFakeProviders(t);
  config = path.join(folder, 'gateway.config.yaml');
  await writeFile(
    config,
    JSON.stringify({
      version: 1,
      security: { trusted_hosts: [new URL(provider.url).host] },
      storage: { resources: { url: 'pglite:' }, analytics: { url: 'none:' } },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
        { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'prompts', 'provider'] },
      ],
    }),
  );

  const acknowledged: string[] = [];

  await t.test('a backup is made while the gateway runs and is written to', async () => {
    const gateway = await start('first');
    const { url } = gateway;
    premises = await makePremises(url, 'Laboratory', scopes);
    const rivers = {
      name: 'Rivers',
      slug: 'rivers',
      ai_provider_id: 'openai',
      key: secretKey,
      workspace_id: premises.workspace,
      configurations: { custom_host: `${provider.url}/openai/v1` },
    };
    await operate(url, { path: '/integrations', body: rivers });
    const string = JSON.stringify([{ role: 'user', content: 'Name the rivers of {{country}}.' }]);
    const body = { name: 'Rivers', string, parameters: {}, virtual_key: 'rivers', model: 'gpt-5.1' };
    prompt = (await operate(url, { path: '/prompts', key: premises.key, body })).slug;
    assert.equal(await refusals(url), 1);
    await assertServes(url);

    let isOver = false;
    const writing = (async () => {
      for (let n = 0; !isOver; n += 1) {
        const name = `config ${n}`;
        await operate(url, {
          path: '/configs',
          key: premises.key,
          body: { name, config: { retry: { attempts: 2 } } },
        });
        acknowledged.push(name);
      }
    })();
    while (acknowledged.length < 5) await new Promise((resolve) => setTimeout(resolve, 5));
    const before = [...acknowledged];
    file = dataOf('a.weir');
    const made = await weir(['backup', '--out', file, '--data', dataOf('first')]);
    isOver = true;
    await writing;
    assert.equal(made.code, 0, made.stderr);
    assert.match(
      made.stdout,
      /rows of the relational store, identity\.json and secret\.key \(sealed\)\.\nNot in it: logs/,
    );
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.ok(acknowledged.length > before.length);
    const text = await readFile(file, 'utf8');
    for (const name of before) assert.ok(text.includes(`"${name}"`), name);
    const { organisation_id } = JSON.parse(
      await readFile(path.join(dataOf('first'), 'identity.json'), 'utf8'),
    );
    assert.ok(!text.includes((await readFile(path.join(dataOf('first'), 'secret.key'), 'utf8')).trim()));
    for (const secret of [secretKey, premises.key, passphrase]) assert.ok(!text.includes(secret));
    assert.ok(text.includes(organisation_id));
    // It goes on as if nothing had been.
    await assertServes(url);
    await gateway.stop();
  });

  await t.test(
    'a backup is refused without a passphrase, with a short one, and where there is no store; nothing is left behind',
    async () => {
      const out = dataOf('none.weir');
      const refused = async (data: string, given: string | undefined, reason: RegExp): Promise<void> => {
        const { code, stderr } = await weir(['backup', '--out', out, '--data', dataOf(data)], {
          WEIR_BACKUP_PASSPHRASE: given,
        });
        assert.equal(code, 1);
        assert.match(stderr, reason);
      };
      await refused(
        'first',
        undefined,
        /^There is no passphrase\. Set WEIR_BACKUP_PASSPHRASE, or write it to standard/,
      );
      await refused('first', 'short', /^The passphrase is shorter than 12 characters/);
      await refused('nowhere', passphrase, /^There is no store at .*nowhere/);
      assert.deepEqual(
        (await readdir(folder)).filter((name) => name.startsWith('none')),
        [],
      );
    },
  );

  await t.test(
    'a backup restores into an empty folder: the same records, keys, secrets and prompts, and the trail is whole',
    async () => {
      const data = dataOf('second');
      const done = await weir(['restore', file, '--data', data]);
      assert.equal(done.code, 0, done.stderr);
      for (const name of ['identity.json', 'secret.key'])
        assert.equal(
          await readFile(path.join(data, name), 'utf8'),
          await readFile(path.join(dataOf('first'), name), 'utf8'),
        );
      const audit = await weir(['audit', 'verify', '--data', data]);
      assert.equal(audit.code, 0, audit.stderr);
      const gateway = await start('second');
      await assertServes(gateway.url);
      // Attempts that were refused are there, and more can come.
      assert.ok((await refusals(gateway.url)) >= 1);
      await eventually(async () => (await refusals(gateway.url)) >= 2 || undefined);
      const found = await configsOf(gateway.url);
      // One moment: what was acknowledged first is there first, without gaps.
      assert.deepEqual(new Set(found), new Set(acknowledged.slice(0, found.length)));
      assert.ok(found.length >= 5);
      // Totals were not counted twice, and writing goes on.
      const list = await operate(gateway.url, { path: '/configs', key: premises.key });
      assert.equal(list.total, found.length);
      await operate(gateway.url, {
        path: '/configs',
        key: premises.key,
        body: { name: 'later', config: { retry: { attempts: 2 } } },
      });
      await gateway.stop();
    },
  );

  await t.test('a restore is refused with a sentence, and the folder stays as it was', async () => {
    const whole = await readFile(file);
    const cut = dataOf('cut.weir');
    await writeFile(cut, whole.subarray(0, whole.length - 100));
    const future = dataOf('future.weir');
    await writeFile(future, whole.toString('utf8').replace('"version":1', '"version":9'));
    const full = dataOf('full');
    await mkdir(full);
    await writeFile(path.join(full, 'notes.txt'), '');
    const refused = async (from: string, data: string, reason: RegExp, env = {}): Promise<void> => {
      const { code, stderr } = await weir(['restore', from, '--data', data], env);
      assert.equal(code, 1);
      assert.match(stderr, reason);
      assert.equal(stderr.trim().split('\n').length, 1);
    };
    const empty = dataOf('third');
    await refused(cut, empty, /cut\.weir is cut short: it has no end/);
    await refused(future, empty, /future\.weir was made by a newer version .*format 9; this one reads 1/);
    await refused(file, empty, /cannot be opened: the passphrase is another one/, {
      WEIR_BACKUP_PASSPHRASE: 'correct horse battery stable',
    });
    await refused(dataOf('nothing.weir'), empty, /^There is no file .*nothing\.weir/);
    await refused(file, full, /into an empty folder only, and .*full holds notes\.txt: move it away/);
    await refused(file, dataOf('second'), /into an empty folder only/);
    await assert.rejects(readdir(empty), /ENOENT/);
    assert.deepEqual(await readdir(full), ['notes.txt']);
  });

  await t.test(
    'an import into an empty folder makes the organisation of the file the one that the gateway serves',
    async () => {
      const yaml = dataOf('export.yaml');
      const exported = await weir(['export', '--out', yaml, '--data', dataOf('first')]);
      assert.equal(exported.code, 0, exported.stderr);
      const env = {
        WEIR_SECRET_KEY: (await readFile(path.join(dataOf('first'), 'secret.key'), 'utf8')).trim(),
      };
      const done = await weir(['import', yaml, '--data', dataOf('moved')], env);
      assert.equal(done.code, 0, done.stderr);
      const gateway = await startWeir({ config, data: dataOf('moved'), env });
      await assertServes(gateway.url);
      const identity = async (name: string) =>
        JSON.parse(await readFile(path.join(dataOf(name), 'identity.json'), 'utf8')) as Record<
          string,
          string
        >;
      const [first, moved] = [await identity('first'), await identity('moved')];
      for (const name of ['organisation_id', 'workspace_id', 'owner_user_id'] as const)
        assert.equal(moved[name], first[name]);
      assert.doesNotMatch(gateway.stderr(), /has made another one/);
      // The owner's key is that of this gateway, and reaches what was imported.
      const { data } = await operate(gateway.url, { path: '/admin/workspaces' });
      assert.ok(data.some(({ id }: { id: string }) => id === premises.workspace));
      await gateway.stop();
    },
  );
});
