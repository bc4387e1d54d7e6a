// `weir apply`: a new configuration serves a share of the requests, and is kept or taken back.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import path from 'node:path';
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import {
  eventually,
  ownerKey,
  runWeir,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import { defaultRuntime } from '../kit/runtimes.ts';

const good = 'mock:';
const bad = 'mock:?status=500';
const configuration = (provider: string, { workers = 1, resources = 'none:', note = '' } = {}) => ({
  version: 1,
  server: { workers },
  storage: { resources: { url: resources }, analytics: { url: 'none:' } },
  changes: { canary: { share: 20, min_requests: 5 } },
  providers: { main: { base_url: provider, credentials: 'none' } },
  configs: { noted: { targets: [{ provider: '@main', override_params: { user: note || 'none' } }] } },
  pipelines: [
    {
      name: 'administration',
      match: { routes: 'contributed' },
      plugins: ['auth', { management: { config_writes: true } }],
    },
    { name: 'gateway', match: { path: '/**' }, plugins: ['auth', { provider: { default: 'main' } }] },
  ],
});

interface Place {
  readonly weir: WeirProcess;
  readonly folder: string;
  readonly current: string;
}

async function open(options: { workers?: number; resources?: string } = {}): Promise<Place> {
  const folder = await temporaryFolder();
  const current = path.join(folder, 'gateway.config.json');
  await writeFile(current, JSON.stringify(configuration(good, options)));
  const weir = await startWeir({ config: current, data: path.join(folder, 'data') });
  return { weir, folder, current };
}

function administer({ weir }: Place, method: string, place: string): Promise<Response> {
  return fetch(`${weir.url}/v1${place}`, { method, headers: { 'x-service-api-key': ownerKey } });
}

/** Starts `weir apply` with the new configuration. */
async function apply({ weir, folder, current }: Place, next: object, time: string, ...more: string[]) {
  const file = path.join(folder, 'next.json');
  await writeFile(file, JSON.stringify(next));
  const args = ['apply', '--config', file, '--current', current, '--url', `${weir.url}/v1`, '--for', time];
  return runWeir([...args, '--key', ownerKey, ...more], { cwd: folder });
}

/** Chats at a moderate pace, until `stop` aborts or so many were sent; resolves to the numbers of answers by status. */
async function chat({ weir }: Place, most: number, stop?: AbortSignal): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  let sent = 0;
  const one = async (): Promise<void> => {
    while (sent < most && stop?.aborted !== true) {
      sent += 1;
      const answer = await fetch(`${weir.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-service-api-key': ownerKey },
        body: JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] }),
      });
      await answer.text();
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      await pause(20);
    }
  };
  await Promise.all([one(), one(), one(), one()]);
  return statuses;
}

after(stopEverything);

test('one process: a failing provider is taken back early, a good one is kept, an abort ends it; each is audited', async () => {
  const options = { resources: 'pglite:' };
  const place = await open(options);
  const before = await readFile(place.current, 'utf8');

  const [reverted, statuses] = await Promise.all([
    apply(place, configuration(bad, options), '8s'),
    chat(place, 2000),
  ]);
  assert.equal(reverted.code, 3, reverted.stderr);
  assert.match(reverted.stdout, /reverted: Of \d+ requests \d+ failed/);
  const failed = statuses.get(500) ?? 0;
  assert.ok(failed >= 3 && failed < 20, `${failed} of 2000 requests met it`);
  assert.equal(failed + (statuses.get(200) ?? 0), 2000);
  assert.equal(await readFile(place.current, 'utf8'), before);

  const load = new AbortController();
  const traffic = chat(place, 20_000, load.signal);
  const good2 = configuration(good, { ...options, note: 'second' });
  const kept = await apply(place, good2, '5s');
  assert.equal(kept.code, 0, kept.stdout + kept.stderr);
  assert.match(kept.stdout, /completed: Nothing became worse/);
  assert.deepEqual(JSON.parse(await readFile(place.current, 'utf8')), good2);

  const running = apply(place, configuration(good, { ...options, note: 'third' }), '60s');
  await eventually(async () => {
    const shown = await (await administer(place, 'GET', '/admin/config-file/canary')).json();
    return (shown as { canary: { phase: string } }).canary.phase === 'running' ? true : undefined;
  });
  assert.equal((await administer(place, 'DELETE', '/admin/config-file/canary')).status, 200);
  const aborted = await running;
  assert.equal(aborted.code, 3);
  assert.match(aborted.stdout, /aborted: It was aborted/);
  assert.equal((await administer(place, 'DELETE', '/admin/config-file/canary')).status, 404);
  load.abort();
  assert.deepEqual([...(await traffic).keys()], [200]);

  const trail = (await (await administer(place, 'GET', '/audit-logs?page_size=50')).json()) as {
    records: { action: string; resource_type: string }[];
  };
  const actions = trail.records
    .filter(({ resource_type: type }) => type === 'config_file')
    .map(({ action }) => action);
  assert.deepEqual(actions.sort(), ['abort', 'abort', 'complete', 'revert', 'start', 'start', 'start']);
});

// Deno has one process.
if (defaultRuntime === 'node')
  test('two workers have one canary: it is taken back in both, or kept by both', async () => {
    const options = { workers: 2 };
    const place = await open(options);
    const [reverted, statuses] = await Promise.all([
      apply(place, configuration(bad, options), '8s'),
      chat(place, 2000),
    ]);
    assert.equal(reverted.code, 3, reverted.stderr);
    const failed = statuses.get(500) ?? 0;
    assert.ok(failed >= 3 && failed < 20, `${failed} of 2000 requests met it`);

    const load = new AbortController();
    const traffic = chat(place, 20_000, load.signal);
    const kept = await apply(place, configuration(good, { ...options, note: 'second' }), '5s');
    load.abort();
    await traffic;
    assert.equal(kept.code, 0, kept.stdout + kept.stderr);
    const status = (await (await fetch(`${place.weir.url}/status`)).json()) as {
      generation: string;
      workers: { generation: string }[];
    };
    assert.deepEqual(
      status.workers.map(({ generation }) => generation),
      [status.generation, status.generation],
    );
  });

test('without a gateway, and with faults, nothing is tried, and the reason is said', async () => {
  const place = await open();
  const wrong = await apply(place, { ...configuration(good), pipelines: [{ nam: 'x' }] }, '5s');
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /did you mean "name"/);
  await place.weir.stop();
  const gone = await apply(place, configuration(good), '5s');
  assert.equal(gone.code, 1);
  assert.match(gone.stderr, /No gateway answers at .*Start it/);
});
