// A gateway that starts before its PostgreSQL server, and goes on without it.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { send, type Received } from '../kit/http-kit.ts';
import { postgresMissing, startPostgres, type PostgresServer } from '../kit/postgres-server.ts';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

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
