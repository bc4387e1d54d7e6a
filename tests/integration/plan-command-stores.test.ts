// `weir plan` on requests of a real analytics store: embedded and at rest, embedded and in use, and of a server.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import path from 'node:path';
import { writeFile } from 'node:fs/promises';
import type { ChangeReport } from '../../core/administration/changes/compare-requests.ts';
import { chdbMissing, startTestChdb } from '../../storage/embedded/chdb-fixture.ts';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';

const configuration = (analytics: object, weights: readonly [number, number]) => ({
  version: 1,
  storage: { resources: { url: 'none:' }, analytics, journal: { ship_ms: 50 } },
  providers: {
    first: { base_url: 'mock:', credentials: 'none' },
    second: { base_url: 'mock:', credentials: 'none' },
  },
  configs: {
    split: {
      strategy: { mode: 'loadbalance' },
      targets: [
        { provider: '@first', weight: weights[0] },
        { provider: '@second', weight: weights[1] },
      ],
    },
  },
  pipelines: [
    { name: 'administration', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
    {
      name: 'gateway',
      match: { path: '/**' },
      plugins: ['auth', { provider: { default: 'first' } }, { logger: { bodies: true } }],
    },
  ],
});

interface Place {
  readonly folder: string;
  readonly data: string;
  readonly current: string;
  readonly next: string;
  readonly env: Readonly<Record<string, string>>;
}

async function makePlace(analytics: object, env: Readonly<Record<string, string>> = {}): Promise<Place> {
  const folder = await temporaryFolder();
  const [current, next] = [path.join(folder, 'current.json'), path.join(folder, 'next.json')];
  await writeFile(current, JSON.stringify(configuration(analytics, [3, 1])));
  await writeFile(next, JSON.stringify(configuration(analytics, [1, 1])));
  return { folder, current, next, env, data: path.join(folder, 'data') };
}

const chats = 16;
/** With a config of their own, which no change of the file concerns. */
const inlineChats = 2;

/** Chats, until the store has all of them. */
async function record(weir: WeirProcess): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-service-api-key': ownerKey };
  for (let turn = 0; turn < chats + inlineChats; turn++) {
    const config = turn < chats ? 'split' : JSON.stringify({ provider: 'second', api_key: 'sk-1' });
    const answer = await fetch(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...headers, 'x-service-config': config },
      body: JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello' }] }),
    });
    await answer.text();
    assert.equal(answer.status, 200);
  }
  await eventually(async () => {
    const page = await (await fetch(`${weir.url}/v1/logs?page_size=50`, { headers })).json();
    return (page as { data?: unknown[] }).data?.length === chats + inlineChats ? true : undefined;
  });
}

function plan({ folder, data, current, next, env }: Place, ...more: string[]): ReturnType<typeof runWeir> {
  const args = ['plan', '--config', next, '--current', current, '--data', data, ...more];
  return runWeir(args, { cwd: folder, env });
}

async function planned(place: Place, ...more: string[]): Promise<ChangeReport> {
  const { code, stdout, stderr } = await plan(place, '--format', 'json', ...more);
  assert.equal(code, 3, stderr);
  return JSON.parse(stdout) as ChangeReport;
}

function assertWeights({ requests, withoutBody, notJudged, classes: [one, ...others] }: ChangeReport): void {
  assert.deepEqual([requests, withoutBody, notJudged, others], [chats + inlineChats, 0, [], []]);
  assert.equal(one?.config, 'split');
  const shares = one.targets.map(({ target, before, after: now }) => [target, before, now]);
  assert.deepEqual(shares, [
    ['first/gpt-4o', 12, 8],
    ['second/gpt-4o', 4, 8],
  ]);
}

after(stopEverything);

describe('weir plan with an analytics store', { skip: chdbMissing }, () => {
  test('asks a running gateway, which alone reads its embedded store, and reads the folder when it has ended', async () => {
    const place = await makePlace({ url: 'chdb:' });
    const weir = await startWeir({ config: place.current, data: place.data });
    await record(weir);

    const keyless = await plan(place, '--url', `${weir.url}/v1`);
    assert.equal(keyless.code, 1);
    assert.match(keyless.stderr, /Give an owner's key of it: --key, or WEIR_ADMIN_KEY/);
    const elsewhere = await plan(place, '--key', ownerKey);
    assert.equal(elsewhere.code, 1);
    assert.match(elsewhere.stderr, /No gateway answers at .*--url/);
    assertWeights(await planned(place, '--key', ownerKey, '--url', `${weir.url}/v1`));
    // From another machine: its store with records is not here.
    const far = path.join(place.folder, 'far.json');
    const storage = { resources: { url: 'pglite:' }, analytics: { url: 'chdb:' } };
    await writeFile(far, JSON.stringify({ ...configuration({}, [3, 1]), storage }));
    const afar = { ...place, current: far, data: path.join(place.folder, 'other') };
    const { requests, recordsUnread } = await planned(afar, '--key', ownerKey, '--url', `${weir.url}/v1`);
    assert.equal(requests, chats + inlineChats);
    assert.match(recordsUnread ?? '', /^The gateway at http\S+ keeps them in its data folder.*--data/);

    await weir.stop();
    assertWeights(await planned(place));
  });

  test('reads a ClickHouse server beside the gateway that writes to it', async () => {
    const { engine, close } = await startTestChdb();
    try {
      const server = {
        url: `${engine.url}/of_plan`,
        username: engine.username,
        password: '${CLICKHOUSE_PASSWORD}',
      };
      const env = { CLICKHOUSE_PASSWORD: engine.password };
      const place = await makePlace(server, env);
      const weir = await startWeir({ config: place.current, data: place.data, env });
      await record(weir);
      assertWeights(await planned(place));
      await weir.stop();
    } finally {
      await close();
    }
  });
});
