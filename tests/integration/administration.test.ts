// Workspaces and keys made through the API, and the requests made with them.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { send, type Received } from '../kit/http-kit.ts';
import {
  engineOf,
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

let data: string;
let weir: WeirProcess;

const start = (): Promise<WeirProcess> =>
  startWeir({
    data,
    yaml: {
      version: 1,
      storage: {
        resources: { url: 'pglite:' },
        journal: { ship_ms: 50 },
        ...(chdbMissing && { analytics: { url: 'none:' } }),
      },
      pipelines: [
        { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
        { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider', 'logger'] },
      ],
    },
  });

before(async () => {
  data = path.join(await temporaryFolder(), 'data');
  weir = await start();
});
after(stopEverything);

interface Call {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly key?: string;
}

/** Calls the administration API with the owner's key; fails unless it answers 200. */
async function manage({ method, path: below, body, key = ownerKey }: Call) {
  const answer = await send(weir.url, {
    method,
    path: `/v1${below}`,
    headers: { 'x-service-api-key': key },
    ...(body !== undefined && { body }),
  });
  assert.equal(answer.status, 200, `${method} ${below}: ${answer.text}`);
  return answer.json();
}

const chat = (key: string): Promise<Received> =>
  send(weir.url, {
    path: '/v1/chat/completions',
    headers: { 'x-service-api-key': key, 'x-service-provider': 'mock' },
    body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] },
  });

async function refusal(key: string): Promise<[number, string]> {
  const answer = await chat(key);
  return [answer.status, answer.json().error?.code];
}

interface Made {
  readonly id: string;
  readonly key: string;
}

async function makeWorkspace(name: string): Promise<string> {
  return (await manage({ method: 'POST', path: '/admin/workspaces', body: { name } })).id;
}

function makeKey(name: string, workspace: string): Promise<Made> {
  const body = { name, workspace_id: workspace, scopes: ['completions.write'] };
  return manage({ method: 'POST', path: '/api-keys/workspace/service', body });
}

describe('administration', () => {
  test('the default workspace is there from the start', async () => {
    const { data: workspaces } = await manage({ method: 'GET', path: '/admin/workspaces' });
    const identity = JSON.parse(await readFile(path.join(data, 'identity.json'), 'utf8'));
    assert.deepEqual(
      workspaces.map(({ id, defaults }: { id: string; defaults: { is_default: number } }) => [
        id,
        defaults.is_default,
      ]),
      [[identity.workspace_id, 1]],
    );
  });

  test('a key works as soon as it is made, and the log knows it', async () => {
    const workspace = await makeWorkspace('Laboratory');
    const { id, key } = await makeKey('first', workspace);
    const answer = await chat(key);
    assert.equal(answer.status, 200, answer.text);
    if (chdbMissing) return;
    const request = String(answer.headers['x-service-request-id']);
    const record = await eventually(async () => {
      const found = await send(weir.url, {
        method: 'GET',
        path: `/v1/logs/${request}`,
        headers: { 'x-service-api-key': ownerKey },
      });
      return found.status === 200 ? found.json() : undefined;
    });
    const text = JSON.stringify(record);
    for (const part of [workspace, id]) assert.ok(text.includes(part), `${part} is not in ${text}`);
    assert.ok(!text.includes(key));
  });

  test('after a rotation both secrets work; after a deletion neither does', async () => {
    const { id, key } = await makeKey('rotated', await makeWorkspace('Rotation'));
    const { key: next } = await manage({ method: 'POST', path: `/api-keys/${id}/rotate`, body: {} });
    assert.notEqual(next, key);
    for (const secret of [key, next]) assert.equal((await chat(secret)).status, 200);
    await manage({ method: 'DELETE', path: `/api-keys/${id}` });
    for (const secret of [key, next]) assert.deepEqual(await refusal(secret), [401, 'key_invalid']);
  });

  test('the keys of an archived workspace are refused with a sentence', async () => {
    const workspace = await makeWorkspace('Short-lived');
    const { key } = await makeKey('in it', workspace);
    assert.equal((await chat(key)).status, 200);
    await manage({ method: 'DELETE', path: `/admin/workspaces/${workspace}` });
    const answer = await chat(key);
    assert.equal(answer.status, 403);
    assert.match(answer.json().error.message, /The workspace of the service key "in it" is archived/);
    assert.equal(answer.json().error.code, 'workspace_archived');
  });

  test('a restart keeps everything', async () => {
    const workspace = await makeWorkspace('Kept');
    const { key } = await makeKey('kept', workspace);
    const gone = await makeWorkspace('Gone');
    const { key: refused } = await makeKey('refused', gone);
    await manage({ method: 'DELETE', path: `/admin/workspaces/${gone}` });
    const { code, stderr } = await weir.stop();
    assert.equal(code, 0, stderr);
    weir = await start();
    assert.equal((await chat(key)).status, 200);
    assert.deepEqual(await refusal(refused), [403, 'workspace_archived']);
    assert.equal((await manage({ method: 'GET', path: `/admin/workspaces/${workspace}` })).name, 'Kept');
  });

  test(
    'requests with known keys are served while the store is away, and it comes back',
    { skip: process.platform !== 'linux' && 'finds the process of the store in /proc' },
    async () => {
      const workspace = await makeWorkspace('Outage');
      const { id, key } = await makeKey('known', workspace);
      process.kill(await engineOf(weir, 'pglite-child'), 'SIGKILL');
      for (let number = 0; number < 20; number += 1) assert.equal((await chat(key)).status, 200);
      await eventually(
        async () => {
          const ready = await send(weir.url, { method: 'GET', path: '/readyz' });
          return ready.json().dependencies.resources === 'ok' ? true : undefined;
        },
        () => 'the store answering again',
        30_000,
      );
      await manage({ method: 'DELETE', path: `/api-keys/${id}` });
      assert.deepEqual(await refusal(key), [401, 'key_invalid']);
    },
  );
});
