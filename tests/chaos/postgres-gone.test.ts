// A gateway that starts before its PostgreSQL server, and goes on without it.
import assert from 'node:assert/strict';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { send, type Received } from '../kit/http-kit.ts';
import { postgresMissing, startPostgres, type PostgresServer } from '../kit/postgres-server.ts';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const fileKey = 'wk_file_0123456789abcdef';

describe('a gateway without its PostgreSQL server', { skip: postgresMissing, timeout: 120_000 }, () => {
  let server: PostgresServer;
  let weir: WeirProcess;
  before(async () => {
    server = await startPostgres();
    await server.kill();
    weir = await startWeir({
      yaml: {
        version: 1,
        storage: { analytics: { url: 'none:' }, resources: { url: server.url } },
        pipelines: [
          { name: 'administration', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
          {
            name: 'chat',
            match: { path: '/chat/**' },
            plugins: [
              { auth: { keys: [{ name: 'file', key: fileKey }] } },
              { provider: { default: 'mock' } },
            ],
          },
        ],
      },
    });
  });
  after(async () => {
    await stopEverything();
    await server.stop();
  });

  const chat = async (key: string): Promise<number> => {
    const body = { model: 'mock', messages: [{ role: 'user', content: 'Hello' }] };
    const headers = { authorization: `Bearer ${key}` };
    return (await send(`${weir.url}/v1/chat/completions`, { method: 'POST', body, headers })).status;
  };
  const call = (path: string, body?: object): Promise<Received> =>
    send(`${weir.url}/v1${path}`, {
      ...(body !== undefined && { method: 'POST', body }),
      headers: { 'x-service-api-key': ownerKey },
    });
  /** The secret of a new key of the default workspace, as soon as one can be made. */
  const created = (name: string): Promise<string> =>
    eventually(async () => {
      const workspaces = await call('/workspaces');
      if (workspaces.status === 503) return undefined;
      const { id } = workspaces.json().data[0];
      const body = { name, workspace_id: id, scopes: ['completions.write'] };
      const answer = await call('/api-keys/workspace/service', body);
      assert.equal(answer.status, 200, answer.text);
      return answer.json().key as string;
    });
  const readiness = async (): Promise<{ status: number; resources: string }> => {
    const answer = await send(`${weir.url}/readyz`);
    return { status: answer.status, resources: answer.json().dependencies.resources };
  };

  test('it starts and serves what it knows, before the server comes, after that, and when it goes again', async () => {
    assert.deepEqual([await chat(ownerKey), await chat(fileKey)], [200, 200]);
    const refused = await call('/workspaces');
    assert.equal(refused.status, 503);
    assert.match(
      refused.json().data.message,
      new RegExp(`\\(127\\.0\\.0\\.1:${server.port}/postgres\\).*Meanwhile requests are served`),
    );
    const away = await readiness();
    assert.equal(away.status, 503);
    assert.match(away.resources, /ECONNREFUSED/);

    await server.start();
    const key = await created('first');
    assert.equal(await chat(key), 200);
    assert.deepEqual(await readiness(), { status: 200, resources: 'ok' });

    await server.kill();
    assert.equal((await call('/workspaces')).status, 503);
    const without = await readiness();
    assert.equal(without.status, 200, 'it knows its keys: it can serve');
    assert.match(without.resources, /ECONNREFUSED|closed|terminat/);
    assert.deepEqual([await chat(key), await chat(ownerKey), await chat(fileKey)], [200, 200, 200]);
    await server.start();
    assert.equal(await chat(await created('second')), 200);
    const ended = await weir.stop();
    assert.equal(ended.code, 0);
    assert.doesNotMatch(ended.stderr, /a( |%20)secret/);
    assert.equal(ended.stderr.match(/warn {2}The resources store \(127\S+ cannot be opened/g)?.length, 1);
    assert.doesNotMatch(ended.stderr, /The job /);
  });
});

describe('a restart without the PostgreSQL server', { skip: postgresMissing, timeout: 120_000 }, () => {
  let server: PostgresServer;
  let data: string;
  before(async () => {
    server = await startPostgres();
    data = path.join(await temporaryFolder(), 'data');
  });
  after(async () => {
    await stopEverything();
    await server.stop();
  });

  const start = (): Promise<WeirProcess> =>
    startWeir({
      data,
      yaml: {
        version: 1,
        storage: { analytics: { url: 'none:' }, resources: { url: server.url } },
        pipelines: [
          { name: 'administration', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
          { name: 'chat', match: { path: '/chat/**' }, plugins: ['auth', { provider: { default: 'mock' } }] },
          {
            name: 'prompts',
            match: { path: '/prompts/*/completions' },
            plugins: ['auth', 'prompts', { provider: { default: 'mock' } }],
          },
        ],
      },
    });
  const chat = (weir: WeirProcess, key: string, config?: string): Promise<Received> =>
    send(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      body: { model: 'mock', messages: [{ role: 'user', content: 'Hello' }] },
      headers: {
        authorization: `Bearer ${key}`,
        ...(config !== undefined && { 'x-service-config': config }),
      },
    });
  const complete = (weir: WeirProcess, key: string, prompt: string): Promise<Received> =>
    send(`${weir.url}/v1/prompts/${prompt}/completions`, {
      method: 'POST',
      body: { variables: {}, model: 'mock-gpt' },
      headers: { authorization: `Bearer ${key}` },
    });
  const call = (weir: WeirProcess, path: string, method = 'GET', body?: object): Promise<Received> =>
    send(`${weir.url}/v1${path}`, {
      method,
      headers: { 'x-service-api-key': ownerKey },
      ...(body !== undefined && { body }),
    });
  const page = async (weir: WeirProcess, name: string) => {
    const answer = await send(`${weir.url}/${name}`);
    return { status: answer.status, body: answer.json() };
  };

  const changedAt = (file: string): Promise<number> =>
    stat(file).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );

  test('keys and configs are those of the snapshot; without one the refusal can be tried again', async () => {
    const first = await start();
    const workspace = (await call(first, '/workspaces')).json().data[0].id as string;
    const make = async (name: string): Promise<{ id: string; key: string }> => {
      const made = await call(first, '/api-keys/workspace/service', 'POST', {
        name,
        workspace_id: workspace,
        scopes: ['completions.write'],
      });
      assert.equal(made.status, 200, made.text);
      return made.json() as { id: string; key: string };
    };
    const [kept, revoked] = [await make('kept'), await make('revoked')];
    const config = { name: 'saved', workspace_id: workspace, config: { provider: 'mock' } };
    const saved = await call(first, '/configs', 'POST', config);
    assert.equal(saved.status, 200, saved.text);
    const { slug } = saved.json().data as { slug: string };
    assert.equal((await call(first, `/api-keys/${revoked.id}`, 'DELETE')).status, 200);
    const file = path.join(data, 'directory.snapshot');
    const since = Date.now();
    // Only a snapshot that holds everything is confirmed.
    await eventually(
      async () => (await changedAt(path.join(data, 'directory.confirmed'))) > since || undefined,
      () => 'a snapshot after the last change',
      30_000,
    );
    await server.kill();
    await first.stop('SIGKILL');
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.doesNotMatch(await readFile(file, 'utf8'), /kept|saved|mock|workspace/);

    const second = await start();
    assert.equal((await chat(second, kept.key)).status, 200);
    assert.equal((await chat(second, kept.key, slug)).status, 200);
    for (const refused of [
      await chat(second, revoked.key),
      await chat(second, 'wk_made_meanwhile_elsewhere'),
      await chat(second, kept.key, 'pc-made-meanwhile'),
      await complete(second, kept.key, 'pp-made-meanwhile'),
    ]) {
      assert.equal(refused.status, 503, refused.text);
      assert.equal(refused.headers['retry-after'], '2');
    }
    assert.equal((await page(second, 'readyz')).status, 200, 'it can serve');
    const { directory } = (await page(second, 'status')).body as { directory: Record<string, unknown> };
    assert.deepEqual([directory['standing'], directory['source']], ['behind', 'snapshot']);
    await second.stop('SIGKILL');

    for (const name of await readdir(data))
      if (name.startsWith('directory.')) await rm(path.join(data, name));
    const third = await start();
    const without = await chat(third, kept.key);
    assert.deepEqual([without.status, without.headers['retry-after']], [503, '2']);
    assert.equal((await chat(third, ownerKey)).status, 200);
    assert.equal((await page(third, 'readyz')).status, 503);
    assert.equal((await send(`${third.url}/v1/chat/completions`, { method: 'POST', body: {} })).status, 401);

    await server.start();
    await eventually(async () => (await chat(third, kept.key)).status === 200 || undefined);
    assert.equal((await chat(third, revoked.key)).status, 401);
    assert.equal((await page(third, 'readyz')).status, 200);
  });
});
